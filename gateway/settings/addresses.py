"""Addresses in settings: host:port, and id=host:port for numbered processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LARGEST_ID: Final = 99


def is_address(text: str) -> bool:
    """True for host:port."""
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536


def checked_addresses(value: list[str]) -> list[str]:
    """The value of a setting with addresses. Raises ValueError."""
    for address in value:
        if not is_address(address):
            raise ValueError(f"{address!r} is not host:port")
    return value


def addresses_by_id(entries: Iterable[str], what: str) -> dict[int, str]:
    """Return host:port by id, from 1 to 99, of entries such as `1=host:port`; `what` is the thing with the id. Raises
    ValueError."""
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
