"""Queues of AMQP: their declarations, arguments and policies."""
