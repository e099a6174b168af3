"""Raft: members that agree on a log of commands."""
