"""Queues of AMQP: what they are declared with, and what policies add."""
