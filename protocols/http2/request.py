"""Request heads (RFC 9113, section 8): which lists of fields are a request, or its trailers.

A list that is neither ends its stream alone: the tables of compression stay in step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from entrepot.protocols.http2.frames import ErrorCode, StreamFault
from entrepot.protocols.http2.hpack import Field

UNKNOWN_LENGTH: Final = -1
"""Content length of a request that tells none."""
MAX_LENGTH_DIGITS: Final = 15

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\0\r\n]")
_OF_CONNECTION: Final = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
"""Fields of HTTP/1.1's connections, which make a request malformed (8.2.2)."""
_PSEUDO: Final = frozenset((b":authority", b":method", b":path", b":scheme"))


class RequestHead(NamedTuple):
    """The head of a request.  `fields` are those without a colon in front, in their order; of one name the last counts.
    `length`: bytes of the body, or UNKNOWN_LENGTH."""

    method: bytes
    path: bytes
    fields: dict[bytes, bytes]
    length: int


def request_head(fields: Sequence[Field], stream: int) -> RequestHead:
    """Return the head that a list of fields is.  Raises StreamFault for a malformed one (8.1.1)."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in fields:
        if name[:1] != b":":
            break
        if name in pseudo or name not in _PSEUDO:
            raise StreamFault(ErrorCode.PROTOCOL_ERROR, stream)
        pseudo[name] = value
        count += 1
    method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if not (method and path) or b":scheme" not in pseudo:
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, stream)
    if _BAD_VALUE.search(b" ".join(pseudo.values())):
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, stream)
    regular = _checked(fields[count:], stream)
    length = regular.get(b"content-length")
    return RequestHead(method, path, regular, UNKNOWN_LENGTH if length is None else _length(length, stream))


def check_trailers(fields: Sequence[Field], stream: int) -> None:
    """Raise StreamFault unless the fields may follow a body (8.1)."""
    _checked(fields, stream)


def _checked(fields: Sequence[Field], stream: int) -> dict[bytes, bytes]:
    """Return regular fields by their names.  Raises StreamFault for one that no request may have."""
    found = dict(fields)
    if (
        not all(map(_NAME.fullmatch, found))
        or _BAD_VALUE.search(b" ".join([value for _, value in fields]))
        or not _OF_CONNECTION.isdisjoint(found)
        or found.get(b"te", b"trailers") != b"trailers"
    ):
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, stream)
    return found


def _length(text: bytes, stream: int) -> int:
    if not text.isdigit() or len(text) > MAX_LENGTH_DIGITS:
        raise StreamFault(ErrorCode.PROTOCOL_ERROR, stream)
    return int(text)
