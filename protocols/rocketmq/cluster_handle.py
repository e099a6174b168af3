"""ClusterHandle: the name of one delivery of a cluster, self-contained so that any gateway can settle it.

RocketMQ's own receipt handle is opaque, and settling needs more: the topic, the group, the message, the attempt and the
broker.  The text holds all of these, base64url without padding of (big-endian):

    version (1)  checksum (4)  attempt (4)  queue id (4)  five texts (each: u16 length, UTF-8)

    texts = topic, group, broker name, message id, RocketMQ's receipt handle; topic and group are the requested ones,
            as stored names.  checksum = crc32 of the bytes after it

The broker is named without an address, which comes from the topic's route.  So a forged handle cannot lead a gateway
elsewhere.  The checksum finds damage; the cluster decides if a handle is current.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from entrepot.domain.base64url import decode_text, encode_text
from entrepot.domain.errors import Code, EntrepotError

VERSION: Final = 1
MAX_HANDLE_LENGTH: Final = 8192
_HEAD: Final = struct.Struct(">BI")
_FIXED: Final = struct.Struct(">Ii")
_LENGTH: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True)
class ClusterHandle:
    """The contents of a handle.  `receipt_handle` is RocketMQ's, `queue_id` counts within the broker, `attempt` is that
    of the delivery."""

    topic: str
    group: str
    broker: str
    message_id: str
    receipt_handle: str
    attempt: int
    queue_id: int

    def encode(self) -> str:
        """Return the text of the handle."""
        parts = [_FIXED.pack(self.attempt & 0xFFFFFFFF, self.queue_id)]
        for text in (self.topic, self.group, self.broker, self.message_id, self.receipt_handle):
            raw = text.encode()
            parts += (_LENGTH.pack(len(raw)), raw)
        rest = b"".join(parts)
        data = _HEAD.pack(VERSION, crc32(rest)) + rest
        return encode_text(data).rstrip("=")

    @classmethod
    def decode(cls, text: str) -> ClusterHandle:
        """Parse a handle.  Raises INVALID_RECEIPT_HANDLE for an invalid one."""
        try:
            if len(text) > MAX_HANDLE_LENGTH:
                raise ValueError("too long")
            data = decode_text(text + "=" * (-len(text) % 4))
            version, checksum = _HEAD.unpack_from(data)
            if version != VERSION or checksum != crc32(data[_HEAD.size :]):
                raise ValueError("not of this version, or damaged")
            attempt, queue_id = _FIXED.unpack_from(data, _HEAD.size)
            handle = cls(*_texts(data, _HEAD.size + _FIXED.size), attempt, queue_id)
            if encode_text(data).rstrip("=") != text:
                raise ValueError("not as it was made")
        except (ValueError, struct.error) as error:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "this is not a receipt handle") from error
        return handle


def _texts(data: bytes, at: int) -> tuple[str, str, str, str, str]:
    found = []
    for _ in range(5):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        found.append(data[at : at + length].decode())
        at += length
    if at != len(data):
        raise ValueError("longer than its texts")
    topic, group, broker, message_id, receipt_handle = found
    return topic, group, broker, message_id, receipt_handle
