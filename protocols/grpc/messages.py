"""Messages of a call: a flag, a length of four bytes, and as many bytes of the message, compressed or not.

Invariant: a message takes at most the limit, whatever its prefix or its compression says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

from entrepot.protocols.grpc.status import Status

IDENTITY: Final = b"identity"
GZIP: Final = b"gzip"
DEFLATE: Final = b"deflate"
ENCODINGS: Final = (IDENTITY, GZIP, DEFLATE)
PREFIX: Final = Struct(">BI")
PREFIX_BYTES: Final = 5

_WINDOW_BITS: Final = {GZIP: 31, DEFLATE: 15}
"""Containers that zlib expects: gzip's, and its own."""


class MessageError(Exception):
    """The bytes are not messages of this call: `status` is the call's."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class MessageReader:
    """The messages of one call, as they come.  `held` are bytes of one that is not whole."""

    __slots__ = ("_buffer", "_encoding", "_limit")

    def __init__(self, encoding: bytes, limit: int) -> None:
        self._encoding, self._limit = encoding, limit
        self._buffer = bytearray()

    @property
    def held(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take bytes; yield the messages that are whole.  Raises MessageError."""
        buffer = self._buffer
        if not buffer and len(data) >= PREFIX_BYTES:  # most calls: one message in one piece
            flag, size = PREFIX.unpack_from(data)
            if size == len(data) - PREFIX_BYTES and size <= self._limit:
                yield self._plain(flag, data[PREFIX_BYTES:])
                return
        buffer += data
        while len(buffer) >= PREFIX_BYTES:
            flag, size = PREFIX.unpack_from(buffer)
            if size > self._limit:
                raise self._too_large()
            end = PREFIX_BYTES + size
            if len(buffer) < end:
                return
            message = bytes(buffer[PREFIX_BYTES:end])
            del buffer[:end]
            yield self._plain(flag, message)

    def _plain(self, flag: int, message: bytes) -> bytes:
        """Return a message as it was before its compression."""
        if not flag:
            return message
        if flag != 1 or self._encoding == IDENTITY:
            raise MessageError(Status.UNIMPLEMENTED, "a message is compressed in a way that its call does not name")
        unpacker = zlib.decompressobj(_WINDOW_BITS[self._encoding])
        try:
            found = unpacker.decompress(message, self._limit + 1)
        except zlib.error as error:
            raise MessageError(Status.INVALID_ARGUMENT, f"a message cannot be decompressed: {error}") from None
        if len(found) > self._limit:
            raise self._too_large()
        if not unpacker.eof or unpacker.unused_data:
            raise MessageError(Status.INVALID_ARGUMENT, "a compressed message is cut short, or goes on")
        return found

    def _too_large(self) -> MessageError:
        text = f"a message is larger than {self._limit} bytes"
        return MessageError(Status.RESOURCE_EXHAUSTED, text)


def framed(message: bytes) -> bytes:
    """Return a message with its prefix."""
    return PREFIX.pack(0, len(message)) + message
