"""`/api`: RabbitMQ's management API, for RabbitMQ's tools, one module for each noun.

Paths, fields and errors are RabbitMQ's.  Virtual hosts are namespaces, `/` is the default one.  Connections, channels
and consumers are those of all gateways.
"""
