"""Replication: epochs of the log, rules of confirmation, appointments, elections."""
