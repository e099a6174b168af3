"""The model and rules of messaging in RocketMQ 5's terms.  Standard library only, no I/O, no clock of its own."""
