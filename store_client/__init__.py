"""The door to a store: the ports of the domain, embedded in this process or kept in memory."""
