"""The tier: object stores that fail and lie, rows of messages, topics that are cold at every door."""
