"""Replication's words and rules: epochs of the log, rules of confirmation, appointments, elections."""
