"""RecallHandle: the name of one scheduled message (RocketMQ: recall handle).

Text in base64url without padding.  The bytes (big-endian):

    version (1)  time of delivery in epoch milliseconds (8)  length of the topic (1)  topic  message id

It holds no secret, so it is not signed; the store decides if a waiting message has it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from entrepot.domain.base64url import decode_text, encode_text
from entrepot.domain.errors import Code, EntrepotError

VERSION: Final = 1
MAX_HANDLE_LENGTH: Final = 4096
_HEAD: Final = struct.Struct(">BqB")


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """The contents of a handle.  `topic` is the stored name, with its namespace."""

    topic: str
    message_id: bytes
    deliver_at_ms: int

    def encode(self) -> str:
        """Return the text of the handle."""
        topic = self.topic.encode()
        data = _HEAD.pack(VERSION, self.deliver_at_ms, len(topic)) + topic + self.message_id
        return encode_text(data).rstrip("=")

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Parse a handle.  Raises BAD_REQUEST for an invalid one."""
        try:
            if len(text) > MAX_HANDLE_LENGTH:
                raise ValueError("too long")
            data = decode_text(text + "=" * (-len(text) % 4))
            version, deliver_at_ms, length = _HEAD.unpack_from(data)
            end = _HEAD.size + length
            if version != VERSION or not length or end > len(data):
                raise ValueError("not of this version")
            handle = cls(data[_HEAD.size : end].decode(), data[end:], deliver_at_ms)
            if handle.encode() != text:
                raise ValueError("not as it was made")
        except (ValueError, struct.error) as error:
            raise EntrepotError(Code.BAD_REQUEST, f"{text[:80]!r} is not the handle of a timed message") from error
        return handle
