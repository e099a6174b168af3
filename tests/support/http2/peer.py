"""A client's side of the machine of HTTP/2: it writes frames, and reads those that are due."""

from __future__ import annotations

from typing import Any, NamedTuple

from entrepot.protocols.http2.connection import ServerConnection
from entrepot.protocols.http2.events import Closing, Event, Http2Limits
from entrepot.protocols.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    GOAWAY,
    HEAD_BYTES,
    HEADERS,
    PREFACE,
    RST_STREAM,
    ErrorCode,
    frame,
    settings_frame,
)
from entrepot.protocols.http2.hpack import Field, literal

LIMITS = Http2Limits(streams=20, early_streams=5)
ROOM = 1 << 30
REQUEST: tuple[Field, ...] = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/service/Method"),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)
GET: tuple[Field, ...] = ((b":method", b"GET"), *REQUEST[1:5])


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        return int.from_bytes(self.payload[-4:], "big")


def frames_of(data: bytes) -> list[Frame]:
    """All frames in these bytes, which are whole."""
    found, at = [], 0
    while at < len(data):
        high, low, kind, flags, stream = FRAME_HEAD.unpack_from(data, at)
        end = at + HEAD_BYTES + (high << 8 | low)
        assert end <= len(data), "half a frame was sent"
        found.append(Frame(kind, flags, stream, data[at + HEAD_BYTES : end]))
        at = end
    return found


def block(*fields: Field) -> bytes:
    return b"".join(literal(name, value) for name, value in fields)


def head(stream: int, *more: Field, is_last: bool = False, fields: tuple[Field, ...] = REQUEST) -> bytes:
    """HEADERS of a request."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if is_last else 0), stream, block(*fields, *more))


def data(stream: int, payload: bytes = b"", *, is_last: bool = False) -> bytes:
    return frame(DATA, END_STREAM if is_last else 0, stream, payload)


class Peer:
    """A connection after both sides' greetings, unless it is told otherwise."""

    def __init__(self, limits: Http2Limits = LIMITS, *, is_greeted: bool = True, room: int = ROOM) -> None:
        self.machine = ServerConnection(limits, 0.0)
        self.machine.allow(room)
        self.now = 0.0
        self.greeting: list[Frame] = []
        if is_greeted:
            assert self.feed(PREFACE + settings_frame()) == []
            self.greeting = self.sent()

    def feed(self, *parts: bytes) -> list[Event]:
        return self.machine.receive_data(b"".join(parts), self.now)

    def sent(self) -> list[Frame]:
        return frames_of(self.machine.data_to_send())

    def reset_with(self, *parts: bytes) -> ErrorCode:
        """The code of the one stream that these frames end."""
        self.feed(*parts)
        [found] = [each for each in self.sent() if each.kind == RST_STREAM]
        assert not self.machine.is_closed
        return ErrorCode(found.number)

    def closed_with(self, *parts: bytes) -> ErrorCode:
        """The code with which these frames end the connection."""
        events = self.feed(*parts)
        return closed_by(self, events)


def closed_by(peer: Peer, events: list[Event]) -> ErrorCode:
    [closing] = [each for each in events if isinstance(each, Closing)]
    [goodbye] = [each for each in peer.sent() if each.kind == GOAWAY]
    assert peer.machine.is_closed
    assert int.from_bytes(goodbye.payload[4:8], "big") == closing.code
    assert goodbye.payload[8:].decode() == closing.text
    assert peer.feed(head(99)) == [], "it goes on reading"
    return closing.code


def only(events: list[Event], kind: type[Any]) -> Any:
    [found] = events
    assert isinstance(found, kind), found
    return found
