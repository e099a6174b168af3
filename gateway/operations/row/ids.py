"""Ids as operations take and show them."""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})+")


def id_text(message_id: bytes) -> str:
    """Return the text form of a message id."""
    return message_id.hex().upper()


def ids_of(text: str) -> list[bytes]:
    """Return the ids that a text may mean: hexadecimal first, then a producer's own text."""
    as_text = text.encode("utf-8", "replace")
    return [bytes.fromhex(text), as_text] if _HEX.fullmatch(text) else [as_text]
