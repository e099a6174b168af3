"""Ids as operations show them."""

from __future__ import annotations


def id_text(message_id: bytes) -> str:
    """Return the text form of a message id."""
    return message_id.hex().upper()
