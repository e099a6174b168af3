"""The model and rules of messaging in RocketMQ 5's terms.  Standard library only, no I/O, no clock of its own.

ADR 1: rooms and layers. Invariant: nothing here does I/O, or imports another top folder.
"""
