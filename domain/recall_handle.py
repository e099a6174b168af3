"""RecallHandle: the name of one scheduled message (RocketMQ: recall handle).

Text in base64url without padding.  The bytes (big-endian):

    version (1)  time of delivery in epoch milliseconds (8)  length of the topic (1)  topic  message id

It holds no secret, so it is not signed; the store decides if a waiting message has it.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError

VERSION: Final = 1
MAX_HANDLE_LENGTH: Final = 4096
_HEAD: Final = struct.Struct(">BqB")
_TO_URLSAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URLSAFE: Final = bytes.maketrans(b"-_", b"+/")


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
        return b2a_base64(data, newline=False).rstrip(b"=").translate(_TO_URLSAFE).decode("ascii")

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Parse a handle.  Raises BAD_REQUEST for an invalid one."""
        try:
            if len(text) > MAX_HANDLE_LENGTH:
                raise ValueError("too long")
            encoded = text.encode("ascii")
            if b"+" in encoded or b"/" in encoded:
                raise ValueError("not the URL's alphabet")
            data = a2b_base64(encoded.translate(_FROM_URLSAFE) + b"=" * (-len(encoded) % 4), strict_mode=True)
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
