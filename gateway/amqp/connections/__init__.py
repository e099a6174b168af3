"""AMQP 0-9-1 connections: events of `protocols.amqp` become calls of the gateway."""
