"""The AMQP 0-9-1 door: connections, virtual hosts, the feeds of queues, the listener."""
