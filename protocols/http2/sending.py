"""Sending: the answers of one connection, within the windows that the peer opens (RFC 9113, 5.2).

Bytes without room wait on their stream, its trailers behind them.  A stream waits either for its own window, or for
room of all: the connection's window, and the socket.  Invariant: whatever a peer opens costs work only for streams
that can go on.
"""

from __future__ import annotations

from collections import OrderedDict

from entrepot.protocols.http2.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEADERS,
    LARGEST_WINDOW,
    SMALLEST_MAX_FRAME,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    frame,
)


class Stream:
    """One open stream.  `left`: bytes of its body still to come by content-length, or UNKNOWN_LENGTH.  `taken`:
    received bytes that the peer was not given back."""

    __slots__ = ("is_request_over", "left", "number", "taken", "trailers", "waiting", "window")

    def __init__(self, number: int, window: int, left: int, *, is_request_over: bool) -> None:
        self.number, self.window, self.left, self.is_request_over = number, window, left, is_request_over
        self.taken = 0
        self.waiting: bytearray | None = None
        self.trailers: bytes | None = None
        """Block that ends the answer behind the waiting bytes; empty: no block."""


class Sending:
    """The bytes that are due, and those that wait."""

    __slots__ = ("_ready", "_window", "initial_window", "max_frame", "out", "room", "waiting_bytes")

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self._window = self.initial_window = DEFAULT_WINDOW
        self.max_frame = SMALLEST_MAX_FRAME
        self.room = 0
        """Bytes of DATA that the socket has room for."""
        self.waiting_bytes = 0
        self._ready: OrderedDict[Stream, None] = OrderedDict()
        """Streams that wait for the connection's window or the socket, in their order."""

    def headers(self, stream: int, block: bytes, *, is_last: bool = False) -> None:
        """Send a block of fields, of at most one frame."""
        flags = END_HEADERS | END_STREAM if is_last else END_HEADERS
        size = len(block)
        self.out.append(FRAME_HEAD.pack(size >> 8, size & 255, HEADERS, flags, stream) + block)

    def end(self, stream: int, trailers: bytes) -> None:
        """End an answer with a block of trailers; an empty one is none."""
        if trailers:
            self.headers(stream, trailers, is_last=True)
        else:
            self.out.append(frame(DATA, END_STREAM, stream))

    def whole(self, stream: Stream, head: bytes, data: bytes, trailers: bytes) -> bool:
        """Send an answer of one small message at once; False where it has no room."""
        size, number = len(data), stream.number
        if size > self.max_frame or size > stream.window or size > self._window or size > self.room:
            return False
        self._window -= size
        self.room -= size
        pack = FRAME_HEAD.pack
        self.out += (
            pack(0, len(head), HEADERS, END_HEADERS, number),
            head,
            pack(size >> 8, size & 255, DATA, 0, number),
            data,
        )
        self.end(number, trailers)
        return True

    def data(self, stream: Stream, data: bytes) -> bool:
        """Send bytes; False where some wait."""
        if stream.waiting is None:
            size = len(data)
            if size <= self.max_frame and size <= stream.window and size <= self._window and size <= self.room:
                stream.window -= size
                self._window -= size
                self.room -= size
                self.out.append(FRAME_HEAD.pack(size >> 8, size & 255, DATA, 0, stream.number) + data)
                return True
            stream.waiting = bytearray()
        stream.waiting += data
        self.waiting_bytes += len(data)
        return self._push(stream)

    def _push(self, stream: Stream) -> bool:
        """Send waiting bytes as far as there is room; True if none wait any more."""
        waiting, number = stream.waiting, stream.number
        assert waiting is not None
        while waiting:
            size = min(len(waiting), self.max_frame, stream.window, self._window, self.room)
            if size <= 0:
                break
            stream.window -= size
            self._window -= size
            self.room -= size
            self.waiting_bytes -= size
            self.out += (FRAME_HEAD.pack(size >> 8, size & 255, DATA, 0, number), bytes(waiting[:size]))
            del waiting[:size]
        if waiting:
            if stream.window > 0:
                self._ready[stream] = None
            else:
                self._ready.pop(stream, None)
            return False
        self._ready.pop(stream, None)
        stream.waiting = None
        if stream.trailers is not None:
            self.end(number, stream.trailers)
        return True

    def forget(self, stream: Stream) -> None:
        """Drop the bytes that wait on a stream."""
        if stream.waiting is not None:
            self.waiting_bytes -= len(stream.waiting)
            stream.waiting = None
            self._ready.pop(stream, None)

    # -- room ----------------------------------------------------------------------------------------------------------

    def go_on(self) -> list[Stream]:
        """Send what waits for room of all; return the streams that have nothing left to wait for."""
        done: list[Stream] = []
        while self._ready and self._window > 0 and self.room > 0:
            stream = next(iter(self._ready))
            if self._push(stream):
                done.append(stream)
        return done

    def opened(self, count: int) -> list[Stream]:
        """Open the connection's window.  Raises ConnectionFault where it gets too large."""
        self._window += count
        if self._window > LARGEST_WINDOW:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is too large")
        return self.go_on() if self._ready else []

    def stream_opened(self, stream: Stream, count: int) -> bool:
        """Open a stream's window; True if nothing waits on it any more.  Raises StreamFault where it gets too large."""
        stream.window += count
        if stream.window > LARGEST_WINDOW:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR, stream.number)
        return stream.waiting is not None and stream.window > 0 and self._push(stream)

    def initial_changed(self, value: int, streams: list[Stream]) -> list[Stream]:
        """Change the window of all streams by that of new ones (6.9.2), which may leave some below zero; return the
        streams that have nothing left to wait for.  Raises ConnectionFault where one gets too large."""
        change, self.initial_window = value - self.initial_window, value
        done: list[Stream] = []
        for stream in streams:
            stream.window += change
            if stream.window > LARGEST_WINDOW:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a stream's window is too large")
            if stream.waiting is not None and self._push(stream):
                done.append(stream)
        return done
