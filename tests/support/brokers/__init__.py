"""Brokers in this process, served and replicated, with controllers; scripted ones; disks that lose power."""
