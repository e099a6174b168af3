"""AMQP 0-9-1 as RabbitMQ speaks it, on the server's side: bytes in memory to typed events and back."""
