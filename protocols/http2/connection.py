"""ServerConnection: the server's side of one HTTP/2 connection (RFC 9113), without the socket.

`receive_data` takes bytes and returns events; methods answer; `data_to_send` returns the bytes due.  A fault of one
stream resets it; one of the connection queues GOAWAY and ends in a `Closing` event, after which no more is read.

Invariants: a stream ends once, by its answer or a reset; before the first frame comes the preface.
"""

from __future__ import annotations

import math
from typing import Final

from entrepot.protocols import tls_record
from entrepot.protocols.http2.control import ControlFrames
from entrepot.protocols.http2.events import Closing, DataReceived, Event, Http2Limits, RequestReceived
from entrepot.protocols.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HAS_PRIORITY,
    HEAD_BYTES,
    HEADERS,
    PADDED,
    PREFACE,
    SETTINGS,
    SMALLEST_MAX_FRAME,
    STREAM_BITS,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    number_frame,
)
from entrepot.protocols.http2.hpack import HeaderListTooLargeError, HpackDecoder, HpackError, TooManyFieldsError
from entrepot.protocols.http2.request import UNKNOWN_LENGTH, check_trailers, request_head
from entrepot.protocols.http2.sending import Stream

MAX_BLOCK_BYTES: Final = 32 * 1024
MAX_BLOCK_FRAMES: Final = 8
"""Largest block of fields in bytes and frames, decoded once it is whole."""
LARGE_LIST_COST: Final = 50
"""Cost of a list of fields beyond its limit, in frames without data: it took its time."""

_PROTOCOL: Final = ErrorCode.PROTOCOL_ERROR


class _Block:
    """A block of fields that is not whole yet."""

    __slots__ = ("is_last", "parts", "size", "stream")

    def __init__(self, stream: int, first: bytes, *, is_last: bool) -> None:
        self.stream, self.parts, self.size, self.is_last = stream, [first], len(first), is_last


class ServerConnection(ControlFrames):
    """One connection (see the module).  Times are seconds of one monotonic clock."""

    __slots__ = ("_block", "_buffer", "_deadline", "_decoder", "_taken", "is_greeted")

    def __init__(self, limits: Http2Limits, now: float) -> None:
        super().__init__(limits, now)
        self._deadline = now + limits.preface_seconds
        self._buffer = b""
        self._decoder = HpackDecoder(limits.header_list_bytes)
        self._taken = 0
        """Bytes of all streams that the peer was not given back."""
        self._block: _Block | None = None
        self.is_greeted = False

    def deadline(self) -> float:
        """Time by which the client must have greeted; infinity once it has."""
        return self._deadline

    def handle_timeout(self) -> list[Event]:
        """Close a connection that has not greeted in time."""
        self._deadline = math.inf
        return [] if self.is_closed else [self.close(_PROTOCOL, "the client has not greeted in time")]

    # -- input ---------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[Event]:
        """Take bytes from the peer; return the events."""
        if self.is_closed:
            return []
        events = self._events = []
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        try:
            at = 0 if self.is_greeted else self._take_preface(data)
            at = self._take_frames(data, at, now)
            self._buffer = data[at:] if at < len(data) else b""
        except ConnectionFault as fault:
            self._fail(fault)
        except HpackError as error:
            is_flood = isinstance(error, TooManyFieldsError)
            code = ErrorCode.ENHANCE_YOUR_CALM if is_flood else ErrorCode.COMPRESSION_ERROR
            self._fail(ConnectionFault(code, str(error)))
        return events

    def _take_preface(self, data: bytes) -> int:
        """Return the place behind the preface, 0 while it is not whole."""
        begin = data[: len(PREFACE)]
        if begin == PREFACE:
            self.is_greeted = True
            return len(PREFACE)
        if not PREFACE.startswith(begin):
            if data[0] == tls_record.HANDSHAKE:
                self.is_closed = True
                self._sending.out.clear()  # it would not understand them
                self._events.append(Closing(_PROTOCOL, "TLS is spoken to a port without it", is_tls=True))
            else:
                self._fail(ConnectionFault(_PROTOCOL, "the first bytes are not those of HTTP/2"))
        return 0

    def _take_frames(self, data: bytes, at: int, now: float) -> int:
        """Take all whole frames; return the place behind them."""
        size, unpack = len(data), FRAME_HEAD.unpack_from
        while size - at >= HEAD_BYTES and self.is_greeted:
            high, low, kind, flags, number = unpack(data, at)
            length = high << 8 | low
            if length > SMALLEST_MAX_FRAME:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is larger than the limit")
            start = at + HEAD_BYTES
            end = start + length
            if end > size:
                break
            at, number = end, number & STREAM_BITS
            if self._block is not None and kind != CONTINUATION:
                raise ConnectionFault(_PROTOCOL, "a block of fields is not whole")
            if self._deadline != math.inf:
                self._greet(kind)
            try:
                if kind == DATA:
                    self._on_data(flags, number, data[start:end], now)
                elif kind == HEADERS:
                    self._on_headers(flags, number, data[start:end], now)
                elif kind == CONTINUATION:
                    self._on_continuation(flags, number, data[start:end], now)
                else:
                    self._on_control(kind, flags, number, data[start:end], now)
            except StreamFault as fault:
                self._refuse(fault.stream, fault.code, now)
        return at

    def _greet(self, kind: int) -> None:
        """Note the first frame behind the preface, which has to be SETTINGS (3.4)."""
        if kind != SETTINGS:
            raise ConnectionFault(_PROTOCOL, "the first frame is not SETTINGS")
        self._deadline = math.inf

    def _on_data(self, flags: int, number: int, data: bytes, now: float) -> None:
        size = len(data)
        self._taken += size
        if self._taken * 2 > self._limits.connection_window_bytes:
            self._sending.out.append(number_frame(WINDOW_UPDATE, 0, self._taken))
            self._taken = 0
        stream = self._streams.get(number)
        if stream is None or stream.is_request_over:
            self._data_of_ended(number, stream)
            self._floods.control(now)
            return
        stream.taken += size
        if stream.taken > self._limits.window_bytes:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the stream's window has room for")
        if flags & PADDED:
            data = _unpadded(data)
        is_last = bool(flags & END_STREAM)
        if not (data or is_last):
            self._floods.control(now)
        if stream.left != UNKNOWN_LENGTH:
            stream.left -= len(data)
            if stream.left < 0 or (is_last and stream.left):
                raise StreamFault(_PROTOCOL, number)
        stream.is_request_over = is_last
        if data or is_last:
            self._events.append(DataReceived(number, data, is_last))

    def _data_of_ended(self, number: int, stream: Stream | None) -> None:
        """DATA where none may come: of an idle stream, a half-closed one, or one that has ended."""
        if stream is None and self._ended.get(number):
            return  # it was on its way when the stream was reset
        if number > self._last or not number & 1:
            raise ConnectionFault(_PROTOCOL, "data of a stream that was not opened")
        raise StreamFault(ErrorCode.STREAM_CLOSED, number)

    def _on_headers(self, flags: int, number: int, data: bytes, now: float) -> None:
        if not number & 1:
            raise ConnectionFault(_PROTOCOL, "a client's streams have odd numbers")
        if flags & PADDED:
            data = _unpadded(data)
        if flags & HAS_PRIORITY:
            if len(data) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
            if int.from_bytes(data[:4], "big") & STREAM_BITS == number:
                raise ConnectionFault(_PROTOCOL, "a stream depends on itself")
            data = data[5:]
        if flags & END_HEADERS:
            self._take_block(number, data, bool(flags & END_STREAM), now)
        else:
            self._block = _Block(number, data, is_last=bool(flags & END_STREAM))

    def _on_continuation(self, flags: int, number: int, data: bytes, now: float) -> None:
        block = self._block
        if block is None or block.stream != number:
            raise ConnectionFault(_PROTOCOL, "CONTINUATION without its HEADERS")
        block.parts.append(data)
        block.size += len(data)
        if block.size > MAX_BLOCK_BYTES or len(block.parts) > MAX_BLOCK_FRAMES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a block of fields is too large")
        if flags & END_HEADERS:
            self._block = None
            self._take_block(number, b"".join(block.parts), block.is_last, now)

    def _take_block(self, number: int, block: bytes, is_last: bool, now: float) -> None:
        """Take a whole block: a request's head, or its trailers.  It is decoded in any case, for the tables' sake."""
        try:
            fields = self._decoder.decode(block)
        except HeaderListTooLargeError:
            self._last = max(self._last, number)
            self._floods.control(now, LARGE_LIST_COST)
            raise StreamFault(ErrorCode.ENHANCE_YOUR_CALM, number) from None
        stream = self._streams.get(number)
        if stream is not None:
            if stream.is_request_over:
                raise StreamFault(ErrorCode.STREAM_CLOSED, number)
            if not is_last or stream.left > 0:
                raise StreamFault(_PROTOCOL, number)
            check_trailers(fields, number)
            stream.is_request_over = True
            self._events.append(DataReceived(number, b"", True))
            return
        if number <= self._last:
            if self._ended.get(number):
                return
            code = ErrorCode.STREAM_CLOSED if number in self._ended else _PROTOCOL
            raise ConnectionFault(code, "fields of a stream that has ended")
        self._last = number
        if len(self._streams) >= self._most_streams or self._is_draining:
            raise StreamFault(ErrorCode.REFUSED_STREAM, number)
        head = request_head(fields, number)
        if is_last and head.length > 0:
            raise StreamFault(_PROTOCOL, number)
        self._streams[number] = Stream(number, self._sending.initial_window, head.length, is_request_over=is_last)
        self._events.append(RequestReceived(number, head, is_last))


def _unpadded(data: bytes) -> bytes:
    """Return the payload of a padded frame without its padding (6.1)."""
    if not data or data[0] >= len(data):
        raise ConnectionFault(_PROTOCOL, "a frame has more padding than bytes")
    return data[1 : len(data) - data[0]]
