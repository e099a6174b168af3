"""Exchanges and bindings of AMQP, as RabbitMQ has them."""
