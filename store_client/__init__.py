"""Clients of stores: the ports of the domain, embedded, in memory, at brokers, or over RocketMQ."""
