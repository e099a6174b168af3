"""Bridges: messages carried from and to other MQTT brokers, at least once, through restarts of either side.

Invariants: an incoming message is acknowledged to the remote only after the store has confirmed it. An outgoing message
is acknowledged in the store only after the remote has acknowledged it. One gateway at a time runs a bridge. A message
that came in by a bridge does not go out by the same one.
"""
