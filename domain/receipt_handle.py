"""ReceiptHandle: what settles one delivery.  Self-contained, so that any gateway can settle what another one popped.

Text in base64url without padding.  The bytes (big-endian):

    version (1)  length of the route (2)  route  queue id (4)  queue offset (8)  attempt (4)  MAC (8)

    route = namespace, topic, group, broker name (each: u8 length, UTF-8), store id (8), recovery epoch (4), filled
            with zeros so that version, length and route are a multiple of 3 bytes: the text of the part that is the
            same for all messages of a pop is then made once

Gateways read only the route.  The store mints and checks; its key never leaves it, and whether a handle is current is
decided by the store's window, not by the handle.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from domain.errors import Code, EntrepotError

VERSION: Final = 1
TAIL: Final = struct.Struct(">IQI")
MAC_SIZE: Final = 8
TAIL_TEXT_LENGTH: Final = (TAIL.size + MAC_SIZE) * 4 // 3
MAX_HANDLE_LENGTH: Final = 1024
_HEAD = struct.Struct(">BH")
_STORE = struct.Struct(">8sI")

assert (TAIL.size + MAC_SIZE) % 3 == 0


@dataclass(frozen=True, slots=True)
class HandleRoute:
    """Where a delivery came from: all that a gateway needs to find the store that settles it."""

    namespace: str
    topic: str
    group: str
    broker: str
    store_id: bytes
    recovery_epoch: int

    def encode(self) -> bytes:
        """The bytes before the tail, a multiple of 3."""
        names = b"".join(
            bytes((len(raw),)) + raw
            for raw in (name.encode() for name in (self.namespace, self.topic, self.group, self.broker))
        )
        route = names + _STORE.pack(self.store_id, self.recovery_epoch)
        route += bytes(-(len(route) + _HEAD.size) % 3)
        return _HEAD.pack(VERSION, len(route)) + route


_TO_URLSAFE: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URLSAFE: Final = bytes.maketrans(b"-_", b"+/")


def encode_text(data: bytes) -> str:
    """base64url of a multiple of 3 bytes."""
    return b2a_base64(data, newline=False).translate(_TO_URLSAFE).decode("ascii")


def decode_tails(handles: Sequence[str]) -> bytes:
    """The tails of all the handles, one after the other.  Raises ValueError if one of them is no such text."""
    text = "".join([handle[-TAIL_TEXT_LENGTH:] for handle in handles])
    if len(text) != len(handles) * TAIL_TEXT_LENGTH:
        raise ValueError("too short for a handle")
    return a2b_base64(text.encode("ascii").translate(_FROM_URLSAFE), strict_mode=True)


def read_route(handle: str) -> HandleRoute:
    """The route of a handle, unchecked.  Raises INVALID_RECEIPT_HANDLE for what is none."""
    try:
        if len(handle) > MAX_HANDLE_LENGTH:
            raise ValueError("too long")
        data = urlsafe_b64decode(handle.encode("ascii"))
        version, length = _HEAD.unpack_from(data)
        if version != VERSION or len(data) != _HEAD.size + length + TAIL.size + MAC_SIZE:
            raise ValueError("not of this version")
        names: list[str] = []
        position = _HEAD.size
        for _ in range(4):
            end = position + 1 + data[position]
            names.append(data[position + 1 : end].decode())
            position = end
        store_id, epoch = _STORE.unpack_from(data, position)
    except (ValueError, IndexError, struct.error) as error:
        raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "this is not a receipt handle") from error
    return HandleRoute(names[0], names[1], names[2], names[3], store_id, epoch)
