"""`/api`: RabbitMQ's management API, for RabbitMQ's tools, one module for each noun.

Virtual hosts are namespaces, `/` is the default one.  Connections, channels and consumers are those of all gateways.

ADR 23: an AMQP queue is a topic with one group.  Invariant: paths, fields and errors are RabbitMQ's.
"""
