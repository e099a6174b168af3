"""The model and rules of messaging in RocketMQ 5's terms.  Standard library only; no I/O but that of `private_file`, no
clock of its own."""
