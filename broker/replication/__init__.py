"""Replication: one commit log on several disks, with one master that writes it."""
