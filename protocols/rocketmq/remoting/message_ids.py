"""Offset message ids: where a record lies, as 32 or 56 hexadecimal digits (`MessageDecoder.createMessageId`)."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Final, NamedTuple

_BEHIND_HOST: Final = struct.Struct(">iq")


class RecordPlace(NamedTuple):
    """A broker by its own address, and an offset of its commit log."""

    host: str
    port: int
    commit_log_offset: int


def place_of(text: str) -> RecordPlace | None:
    """Return the place in an offset message id; None for another text."""
    try:
        raw = bytes.fromhex(text)
        host = ip_address(raw[: -_BEHIND_HOST.size])
        port, offset = _BEHIND_HOST.unpack(raw[-_BEHIND_HOST.size :])
    except (ValueError, struct.error):
        return None
    return RecordPlace(str(host), port, offset) if 0 < port < 65536 and offset >= 0 else None


def offset_id(place: RecordPlace) -> str:
    """Return the id of a place."""
    return (ip_address(place.host).packed + _BEHIND_HOST.pack(place.port, place.commit_log_offset)).hex().upper()
