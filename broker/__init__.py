"""The bundled store: log, queues, pop consumption and metadata. It knows no MQTT, AMQP or HTTP."""
