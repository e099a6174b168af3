"""Doors: the phases of a protocol in a gateway, and the parts that it gets."""
