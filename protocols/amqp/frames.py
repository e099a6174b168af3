"""Frames (4.2.3): their layout and encoding.

A frame is type, channel, size, payload and the end octet.  `frame_max` counts all of it: a payload has up to `frame_max
- FRAME_OVERHEAD` bytes.  Input may have 8 bytes more, as in RabbitMQ, since some clients count the payload only.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
"""Types of frames."""

FRAME_END: Final = 0xCE
FRAME_HEAD_BYTES: Final = 7
FRAME_OVERHEAD: Final = 8
"""Bytes of a frame beside its payload."""

FRAME_MIN_SIZE: Final = 4096
"""The frame_max that every peer accepts (4.2.3)."""

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""A client's first bytes, and a server's answer to any others."""

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

_HEAD: Final = Struct(">BHI")
_CONTENT_HEAD: Final = Struct(">HHQ")
CONTENT_HEAD_BYTES: Final = _CONTENT_HEAD.size
"""Bytes of a header frame's payload before the properties."""


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return one frame."""
    return b"%b%b\xce" % (_HEAD.pack(kind, channel, len(payload)), payload)


def header_payload(properties: bytes, body_size: int) -> bytes:
    """Return the payload of a header frame: class, weight, body size, and the bytes of a `ContentHeader`."""
    return _CONTENT_HEAD.pack(60, 0, body_size) + properties


def max_payload(frame_max: int) -> int:
    """Return the most bytes of a frame's payload."""
    return frame_max - FRAME_OVERHEAD
