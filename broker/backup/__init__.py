"""Backup: copies of a store's log in a folder, and stores made of them. The log is all: the rest is derived of it."""
