"""The door to a store: embedded, remote or memory, behind the ports of the domain."""
