"""Raft: a group whose members agree on a log of commands."""
