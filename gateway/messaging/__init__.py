"""The protocol-neutral operations on messages that every listener uses.

ADR 6: a batch per tick. Invariant: messages of one tick become one append, in the order of their arrival (`send.py`).
"""
