"""Answering: the streams of one connection, and the ways in which one ends: by its answer, a reset, or the goodbye."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.http2.events import Closing, Drained, Event, Http2Limits, StreamReset
from entrepot.protocols.http2.floods import FloodCounts
from entrepot.protocols.http2.frames import (
    DEFAULT_WINDOW,
    GOAWAY,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    PING,
    RST_STREAM,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    frame,
    number_frame,
    settings_frame,
)
from entrepot.protocols.http2.sending import Sending, Stream

REMEMBERED: Final = 256
"""Ended streams that are remembered: frames of a reset one may still be on their way."""
DRAIN_PING: Final = b"drained?"
"""Data of the PING whose answer says that the client has read the first GOAWAY."""


class Answering:
    """The answering half of a connection.  Times are seconds of one monotonic clock."""

    __slots__ = (
        "_ended",
        "_events",
        "_floods",
        "_is_draining",
        "_last",
        "_limits",
        "_most_streams",
        "_sending",
        "_streams",
        "is_closed",
    )

    def __init__(self, limits: Http2Limits, now: float) -> None:
        self._limits, self._most_streams = limits, limits.early_streams
        self._floods = FloodCounts(now)
        self._events: list[Event] = []
        self._streams: dict[int, Stream] = {}
        self._ended: dict[int, bool] = {}
        """Streams that ended, the newest last; True: reset here while their request went on."""
        self._sending = Sending()
        self._last = 0
        self.is_closed = self._is_draining = False
        self._sending.out += (
            settings_frame(
                (MAX_CONCURRENT_STREAMS, limits.early_streams),
                (INITIAL_WINDOW_SIZE, limits.window_bytes),
                (MAX_HEADER_LIST_SIZE, limits.header_list_bytes),
            ),
            number_frame(WINDOW_UPDATE, 0, limits.connection_window_bytes - DEFAULT_WINDOW),
        )

    # -- answers -------------------------------------------------------------------------------------------------------

    def begin(self, number: int, block: bytes) -> None:
        """Begin an answer with its head."""
        if number in self._streams:
            self._sending.headers(number, block)

    def send(self, number: int, data: bytes) -> bool:
        """Send a part of an answer; False where bytes wait for room: `Drained` tells the end of that."""
        stream = self._streams.get(number)
        return stream is None or self._sending.data(stream, data)

    def end(self, number: int, trailers: bytes) -> bool:
        """End an answer with a block of trailers, or none; False where bytes wait for room before it."""
        stream = self._streams.get(number)
        if stream is None:
            return True
        if stream.waiting is not None:
            stream.trailers = trailers
            return False
        self._sending.end(number, trailers)
        self._over(stream)
        return True

    def answer(self, number: int, head: bytes, data: bytes, trailers: bytes) -> bool:
        """Send a whole answer; False where a part of it waits for room."""
        stream = self._streams.get(number)
        if stream is None:
            return True
        if self._sending.whole(stream, head, data, trailers):
            self._over(stream)
            return True
        self._sending.headers(number, head)
        self._sending.data(stream, data)
        return self.end(number, trailers)

    def reset(self, number: int, code: ErrorCode) -> None:
        """End a stream without an answer, or without the rest of it."""
        stream = self._streams.get(number)
        if stream is not None:
            self._sending.forget(stream)
            self._sending.out.append(number_frame(RST_STREAM, number, code))
            self._ends(stream, was_reset=not stream.is_request_over)

    def give_room(self, number: int) -> None:
        """Give the client of a stream room for more, once half its window is taken."""
        stream = self._streams.get(number)
        if stream is not None and stream.taken * 2 > self._limits.window_bytes and not stream.is_request_over:
            self._sending.out.append(number_frame(WINDOW_UPDATE, number, stream.taken))
            stream.taken = 0

    def allow(self, room: int) -> list[Event]:
        """Say how many bytes of answers the socket has room for; return the events of those that go on."""
        self._sending.room = room
        self._events = []
        self._drained(self._sending.go_on())
        return self._events

    @property
    def room(self) -> int:
        """Bytes of answers that the socket has still room for."""
        return self._sending.room

    def waiting_on(self, number: int) -> int:
        """Bytes that wait on one stream."""
        stream = self._streams.get(number)
        return 0 if stream is None or stream.waiting is None else len(stream.waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of answers that wait for room."""
        return self._sending.waiting_bytes

    @property
    def is_drained(self) -> bool:
        """True if the client was told to go and has no stream any more."""
        return self._is_draining and not self._streams

    def data_to_send(self) -> bytes:
        """Return the bytes due."""
        out = self._sending.out
        if not out:
            return b""
        data = b"".join(out)
        out.clear()
        return data

    # -- the end of a stream -------------------------------------------------------------------------------------------

    def _over(self, stream: Stream) -> None:
        """Note that an answer has left; a request that goes on is of no use any more (8.1)."""
        self._floods.answered()
        if not stream.is_request_over:
            self._sending.out.append(number_frame(RST_STREAM, stream.number, ErrorCode.NO_ERROR))
        self._ends(stream, was_reset=not stream.is_request_over)

    def _drained(self, streams: list[Stream]) -> None:
        for stream in streams:
            is_over = stream.trailers is not None
            if is_over:
                self._over(stream)
            self._events.append(Drained(stream.number, is_over))

    def _ends(self, stream: Stream, *, was_reset: bool) -> None:
        del self._streams[stream.number]
        self._remember(stream.number, was_reset=was_reset)

    def _remember(self, number: int, *, was_reset: bool) -> None:
        ended = self._ended
        ended[number] = was_reset
        if len(ended) > REMEMBERED * 2:
            self._ended = dict(list(ended.items())[REMEMBERED:])

    def _refuse(self, number: int, code: ErrorCode, now: float) -> None:
        """Reset a stream by the peer's fault, which may have no state here."""
        stream = self._streams.get(number)
        if stream is not None:
            self._events.append(StreamReset(number))
            self.reset(number, code)
        else:
            self._sending.out.append(number_frame(RST_STREAM, number, code))
            self._remember(number, was_reset=True)
        self._floods.reset(now)

    # -- the end of the connection -------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Allow as many streams as a client has that is known."""
        if self._most_streams != self._limits.streams and not self.is_closed:
            self._most_streams = self._limits.streams
            self._sending.out.append(settings_frame((MAX_CONCURRENT_STREAMS, self._most_streams)))

    def shut_down(self) -> None:
        """Ask the client to open no more streams here (6.8).  Those that it opened before it read this are served."""
        self._goaway(LARGEST_WINDOW, ErrorCode.NO_ERROR, "the server stops")
        self._sending.out.append(frame(PING, 0, 0, DRAIN_PING))

    def refuse_streams(self) -> None:
        """Say which stream is the last that is served; later ones are refused."""
        if not (self._is_draining or self.is_closed):
            self._is_draining = True
            self._goaway(self._last, ErrorCode.NO_ERROR, "the server stops")

    def close(self, code: ErrorCode, text: str) -> Closing:
        """Say goodbye and read no more."""
        if not self.is_closed:
            self._goaway(self._last, code, text)
        self.is_closed = True
        return Closing(code, text)

    def _fail(self, fault: ConnectionFault) -> None:
        self._events.append(self.close(fault.code, fault.text))

    def _goaway(self, last: int, code: ErrorCode, text: str) -> None:
        self._sending.out.append(frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + text.encode()))
