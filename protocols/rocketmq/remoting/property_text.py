"""The properties of a stored message as one text: name, 0x01, value, 0x02, and so on (`MessageDecoder`).

The text has no way to say these two characters, nor an empty value: the broker parses it and writes it anew.  So a name
or value with one of them, and a property without a value, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_TEXT_BYTES: Final = 32_000
"""Longest text that is sent: the broker adds some of its own, and refuses more than 32,767 bytes."""
_BETWEEN: Final = "\x01"
_BEHIND: Final = "\x02"


def encode(properties: Mapping[str, str]) -> str:
    """Return the text of properties, without those that it cannot say."""
    said = [f"{name}{_BETWEEN}{value}{_BEHIND}" for name, value in properties.items() if name and value]
    text = "".join(said)
    if text.count(_BETWEEN) == text.count(_BEHIND) == len(said):
        return text
    return "".join(
        f"{name}{_BETWEEN}{value}{_BEHIND}"
        for name, value in properties.items()
        if _is_sayable(name) and _is_sayable(value)
    )


def _is_sayable(text: str) -> bool:
    return bool(text) and _BETWEEN not in text and _BEHIND not in text


def decode(text: str) -> dict[str, str]:
    """Return the properties of a text.  The last separator may be missing; what has no name or no value is skipped."""
    found: dict[str, str] = {}
    for item in text.split(_BEHIND):
        name, between, value = item.partition(_BETWEEN)
        if between and name and value:
            found[name] = value
    return found
