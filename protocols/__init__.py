"""Codecs of the protocols: bytes to typed events and back, one package for each protocol; pure, no I/O."""
