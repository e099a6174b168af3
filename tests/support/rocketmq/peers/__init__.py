"""RocketMQ's published clients, each in a process of its own."""
