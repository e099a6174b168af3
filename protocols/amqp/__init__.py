"""AMQP 0-9-1 as RabbitMQ speaks it, the server's side: bytes in memory to typed events and back."""
