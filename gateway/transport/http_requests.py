"""Heads of HTTP/1 requests, as every listener reads them: their target, and whether they ask for a WebSocket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

RequestHeaders = Iterable[tuple[bytes, bytes]]
"""Headers with names in lower case."""
_ABSOLUTE: Final = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE)
_OF_THE_UPGRADE: Final = frozenset({b"connection", b"upgrade"})


def authority_and_target(target: bytes) -> tuple[bytes, bytes] | None:
    """The authority of an absolute-form target, and the target in origin form (RFC 9112 3.2.2); None for others."""
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return None
    rest = found[2]
    return found[1], rest if rest.startswith(b"/") else b"/" + rest


def with_host(headers: RequestHeaders, host: bytes) -> list[tuple[bytes, bytes]]:
    """The headers with this Host: that of an absolute-form target counts, not the received one (RFC 9112 3.2.2)."""
    return [(name, host if name == b"host" else value) for name, value in headers]


def websocket_headers(method: bytes, version: str, headers: RequestHeaders) -> list[tuple[bytes, bytes]] | None:
    """The headers of a request for a WebSocket, with one Connection and one Upgrade that say only that.

    None for any other request (RFC 6455 4.2.1). An offer of HTTP/1.0 is none (RFC 9110 7.8). Nor is one with a body:
    nobody may change the protocol in the middle of a message.
    """
    headers = list(headers)
    if (
        method != b"GET"
        or version != "1.1"
        or b"upgrade" not in _tokens(headers, b"connection")
        or b"websocket" not in _tokens(headers, b"upgrade")
        or any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0"))
            for name, value in headers
        )
    ):
        return None
    others = (header for header in headers if header[0] not in _OF_THE_UPGRADE)
    return [*others, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")]


def _tokens(headers: RequestHeaders, wanted: bytes) -> Iterator[bytes]:
    """The items of a header that is a list, in lower case; the header may come several times."""
    for name, value in headers:
        if name == wanted:
            yield from (token.strip(b" \t").lower() for token in value.split(b","))
