"""The AMQP 0-9-1 door: events of `protocols.amqp` become the verbs of the gateway."""
