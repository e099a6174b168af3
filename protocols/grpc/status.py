"""The end of a call: its status and text, as blocks of HTTP/2 fields."""

from __future__ import annotations

from enum import IntEnum
from typing import Final
from urllib.parse import quote_from_bytes

from entrepot.protocols.http2.hpack import literal

MAX_TEXT_BYTES: Final = 1024
"""Longest text beside a status, before it is escaped."""
_PLAIN: Final = "".join(map(chr, (*range(0x20, 0x25), *range(0x26, 0x7F))))
"""Characters that a status text has as they are: printable ASCII but for the percent sign."""


class Status(IntEnum):
    """Outcomes of calls that this side gives."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    UNAVAILABLE = 14


HEAD: Final = b"\x88\x0f\x10\x10application/grpc"
"""Block of `:status 200` and the content type: the head of every answer."""
OK_TRAILERS: Final = literal(b"grpc-status", b"0")


def trailers(status: Status, text: str = "") -> bytes:
    """Return the block at the end of an answer."""
    if status is Status.OK:
        return OK_TRAILERS
    shown = quote_from_bytes(text.encode("utf-8", "replace")[:MAX_TEXT_BYTES], safe=_PLAIN)
    return literal(b"grpc-status", str(int(status)).encode()) + literal(b"grpc-message", shown.encode())


def http_head(status: int) -> bytes:
    """Return the head of an answer to a request that is not one of gRPC, whose body is text."""
    return literal(b":status", str(status).encode()) + literal(b"content-type", b"text/plain; charset=utf-8")
