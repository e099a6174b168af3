"""Replication: the machines on a simulated clock, network and disk; then the real thing."""
