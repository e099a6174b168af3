"""Addresses as settings have them: host:port, and id=host:port of what is told apart by a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LARGEST_ID: Final = 99


def is_address(text: str) -> bool:
    """True for host:port."""
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536


def addresses_by_id(entries: Iterable[str], what: str) -> dict[int, str]:
    """host:port by id, from 1 to 99, of entries such as `1=host:port`.  `what`: the thing that has an id.

    Raises ValueError.
    """
    found: dict[int, str] = {}
    for each in entries:
        number, _, address = each.partition("=")
        is_id = number.isascii() and number.isdecimal() and 0 < int(number) <= LARGEST_ID
        if not is_id or not is_address(address):
            raise ValueError(f"{each!r} is not id=host:port")
        if int(number) in found:
            raise ValueError(f"{what} {number} is named twice")
        found[int(number)] = address
    return found
