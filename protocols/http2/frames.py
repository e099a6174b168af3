"""Frames of HTTP/2 (RFC 9113, sections 4 and 6): numbers, heads, and the errors that end a stream or a connection."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of every client (3.4)."""

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

HEAD_BYTES: Final = 9
FRAME_HEAD: Final = Struct(">HBBBI")
"""Length in two fields (16 and 8 bits), type, flags, stream."""
SMALLEST_MAX_FRAME: Final = 16_384
LARGEST_MAX_FRAME: Final = (1 << 24) - 1
LARGEST_WINDOW: Final = (1 << 31) - 1
DEFAULT_WINDOW: Final = 65_535
STREAM_BITS: Final = 0x7FFF_FFFF


class ErrorCode(IntEnum):
    """Reasons to end a stream or a connection (7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(Exception):
    """The peer broke a rule of the connection (5.4.1)."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


class StreamFault(Exception):
    """The peer broke a rule of one stream (5.4.2)."""

    def __init__(self, code: ErrorCode, stream: int) -> None:
        super().__init__(stream)
        self.code, self.stream = code, stream


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 8, size & 255, kind, flags, stream) + payload


def settings_frame(*pairs: tuple[int, int]) -> bytes:
    """Return a SETTINGS frame of identifiers and values."""
    return frame(SETTINGS, 0, 0, b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs))


def number_frame(kind: int, stream: int, number: int) -> bytes:
    """Return a frame whose payload is one number: WINDOW_UPDATE, RST_STREAM."""
    return frame(kind, 0, stream, number.to_bytes(4, "big"))
