"""The bundled store: log, queues, pop consumption, metadata.  It knows no MQTT, AMQP or HTTP."""
