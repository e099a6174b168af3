"""Control frames: all but DATA and the blocks of fields (RFC 9113, section 6)."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.http2.answering import DRAIN_PING, Answering
from entrepot.protocols.http2.events import StreamReset
from entrepot.protocols.http2.floods import SETTINGS_COST
from entrepot.protocols.http2.frames import (
    ACK,
    ENABLE_PUSH,
    GOAWAY,
    INITIAL_WINDOW_SIZE,
    LARGEST_MAX_FRAME,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SMALLEST_MAX_FRAME,
    STREAM_BITS,
    WINDOW_UPDATE,
    ConnectionFault,
    ErrorCode,
    StreamFault,
    frame,
)

MAX_SETTINGS: Final = 64
"""Most values of one SETTINGS frame; the protocol and its extensions have a dozen."""
MAX_SENT_FRAME: Final = 64 * 1024
"""Largest frame sent, where the peer takes it."""
SMALL_WINDOW: Final = 1024
"""A window that is opened by less counts as a frame without data; larger ones come by bytes that were sent."""

_PROTOCOL: Final = ErrorCode.PROTOCOL_ERROR
_SIZE: Final = ErrorCode.FRAME_SIZE_ERROR


class ControlFrames(Answering):
    """The part of a connection that takes control frames."""

    __slots__ = ()

    def _on_control(self, kind: int, flags: int, number: int, data: bytes, now: float) -> None:
        """Take a frame.  One of an extension is ignored (5.5).  Raises ConnectionFault, StreamFault."""
        if kind == WINDOW_UPDATE:
            self._on_window(number, data, now)
        elif kind == PING:
            self._on_ping(flags, number, data, now)
        elif kind == RST_STREAM:
            self._on_reset(number, data, now)
        elif kind == SETTINGS:
            self._on_settings(flags, number, data, now)
        elif kind == PRIORITY:
            self._on_priority(number, data, now)
        elif kind == PUSH_PROMISE:
            raise ConnectionFault(_PROTOCOL, "a client pushes")
        elif kind == GOAWAY and number:
            raise ConnectionFault(_PROTOCOL, "GOAWAY of a stream")
        else:
            self._floods.control(now)

    def _on_window(self, number: int, data: bytes, now: float) -> None:
        if len(data) != 4:
            raise ConnectionFault(_SIZE, "WINDOW_UPDATE has not 4 bytes")
        count = int.from_bytes(data, "big") & STREAM_BITS
        if count < SMALL_WINDOW:
            self._floods.control(now)
        if not number:
            if not count:
                raise ConnectionFault(_PROTOCOL, "a window is opened by 0")
            self._drained(self._sending.opened(count))
            return
        stream = self._streams.get(number)
        if stream is None:
            self._check_not_idle(number)
            return
        if not count:
            raise StreamFault(_PROTOCOL, number)
        if self._sending.stream_opened(stream, count):
            self._drained([stream])

    def _on_ping(self, flags: int, number: int, data: bytes, now: float) -> None:
        if number:
            raise ConnectionFault(_PROTOCOL, "PING of a stream")
        if len(data) != 8:
            raise ConnectionFault(_SIZE, "PING has not 8 bytes")
        self._floods.control(now)
        if not flags & ACK:
            self._sending.out.append(frame(PING, ACK, 0, data))
        elif data == DRAIN_PING:
            self.refuse_streams()

    def _on_reset(self, number: int, data: bytes, now: float) -> None:
        if len(data) != 4:
            raise ConnectionFault(_SIZE, "RST_STREAM has not 4 bytes")
        self._check_not_idle(number)
        self._floods.reset(now)
        stream = self._streams.get(number)
        if stream is not None:
            self._sending.forget(stream)
            self._ends(stream, was_reset=False)
            self._events.append(StreamReset(number))

    def _on_priority(self, number: int, data: bytes, now: float) -> None:
        """Check and ignore a priority, as the protocol wants it now (5.3.2)."""
        if not number:
            raise ConnectionFault(_PROTOCOL, "PRIORITY of the connection")
        self._floods.control(now)
        if len(data) != 5:
            raise StreamFault(_SIZE, number)
        if int.from_bytes(data[:4], "big") & STREAM_BITS == number:
            raise StreamFault(_PROTOCOL, number)

    def _on_settings(self, flags: int, number: int, data: bytes, now: float) -> None:
        if number:
            raise ConnectionFault(_PROTOCOL, "SETTINGS of a stream")
        self._floods.control(now, SETTINGS_COST)
        if flags & ACK:
            if data:
                raise ConnectionFault(_SIZE, "an acknowledgement of SETTINGS has bytes")
            return
        if len(data) % 6:
            raise ConnectionFault(_SIZE, "SETTINGS has not 6 bytes for each value")
        if len(data) > 6 * MAX_SETTINGS:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "SETTINGS has too many values")
        window = None
        for at in range(0, len(data), 6):
            key, value = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 6], "big")
            if key == INITIAL_WINDOW_SIZE:
                if value > LARGEST_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window of streams is too large")
                window = value
            elif key == MAX_FRAME_SIZE:
                if not SMALLEST_MAX_FRAME <= value <= LARGEST_MAX_FRAME:
                    raise ConnectionFault(_PROTOCOL, "there are no frames of that size")
                self._sending.max_frame = min(value, MAX_SENT_FRAME)
            elif key == ENABLE_PUSH and value > 1:
                raise ConnectionFault(_PROTOCOL, "ENABLE_PUSH is neither 0 nor 1")
        self._sending.out.append(frame(SETTINGS, ACK, 0))
        if window is not None:
            self._drained(self._sending.initial_changed(window, list(self._streams.values())))

    def _check_not_idle(self, number: int) -> None:
        if not number & 1 or number > self._last:
            raise ConnectionFault(_PROTOCOL, "a frame of a stream that was not opened")
