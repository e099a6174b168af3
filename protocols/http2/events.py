"""Events of a connection, and the limits that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from entrepot.protocols.http2.frames import ErrorCode
from entrepot.protocols.http2.request import RequestHead

KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Limits of one connection.  `early_streams` hold until the connection is admitted, `streams` from then on.
    `window_bytes`: of a stream; `connection_window_bytes`: of all together.  `preface_seconds`: longest time until the
    client has sent its preface and SETTINGS."""

    streams: int = 10_000
    early_streams: int = 100
    window_bytes: int = 1024 * KIB
    connection_window_bytes: int = 8 * 1024 * KIB
    header_list_bytes: int = 16 * KIB
    preface_seconds: float = 10.0


class RequestReceived(NamedTuple):
    """A request begins.  `is_whole`: it has no body."""

    stream: int
    head: RequestHead
    is_whole: bool


class DataReceived(NamedTuple):
    """A part of a request's body.  `is_last`: the request ends with it; `data` may then be empty."""

    stream: int
    data: bytes
    is_last: bool


class StreamReset(NamedTuple):
    """A stream has ended without its answer: the client took it back, or broke a rule on it."""

    stream: int


class Drained(NamedTuple):
    """All bytes that waited on a stream have left; `is_over`: its answer has left as a whole."""

    stream: int
    is_over: bool


class Closing(NamedTuple):
    """The connection is over: the goodbye is due, and no more is read.  `is_tls`: the client has begun a TLS
    handshake."""

    code: ErrorCode
    text: str
    is_tls: bool = False


Event = RequestReceived | DataReceived | StreamReset | Drained | Closing
