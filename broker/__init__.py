"""The bundled store: log, queues, pop."""
