"""AMQP 0-9-1: connections, virtual hosts, the feeds of queues, the listeners."""
