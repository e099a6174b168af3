"""Replication: one commit log on several disks, and who may write it."""
