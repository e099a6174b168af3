"""The protocol-neutral operations on messages that every listener uses."""
