"""Codecs of the protocols: bytes to typed events and back, one package for each protocol; pure, no I/O.

ADR 6: machines without I/O. Invariant: nothing here reads a socket, a file or a clock.
"""
