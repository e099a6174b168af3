"""Bytes <-> typed events, per protocol. Pure: no I/O, no clock, no randomness."""
