"""The words and rules of messaging, as RocketMQ 5 names them. Standard library only, no I/O, no clock of its own."""
