"""Bridges: messages carried from and to other MQTT brokers, at least once, through restarts of either side.

Invariants: what comes in is acknowledged to the remote only when the store has confirmed it; what goes out is
acknowledged in the store only when the remote has; one gateway at a time runs a bridge; what came in by a bridge does
not go out by the same one.
"""
