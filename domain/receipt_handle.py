"""ReceiptHandle: the name of one delivery, self-contained so that any gateway can settle another's pop.

Text in base64url without padding.  The bytes (big-endian):

    version (1)  length of the route (2)  route  run  index (3)

    route = namespace, topic, group, broker name (each: u8 length, UTF-8), store id (8), recovery epoch (4), filled
            with zeros so that version, length and route are a multiple of 3 bytes
    run   = queue id (4)  first queue offset (8)  count (2)  stamp (4)  MAC (15) of route and run
    index = the message's number within the run, below its count

A run is the part of a pop from one queue: neighbours, with one stamp.  Its text is made once, and checked once.  The
MAC does not cover the index: a holder of one handle can make the others of its run, which came in the same answer.

Gateways read only the route.  The store makes and checks handles; its key never leaves it.  The store's window, not the
handle, decides if a handle is current.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from entrepot.domain.base64url import decode_text, encode_text
from entrepot.domain.errors import Code, EntrepotError

VERSION: Final = 2
RUN: Final = struct.Struct(">IQHI")
MAC_SIZE: Final = 15
RUN_TEXT_LENGTH: Final = (RUN.size + MAC_SIZE) * 4 // 3
INDEX_SIZE: Final = 3
INDEX_TEXT_LENGTH: Final = INDEX_SIZE * 4 // 3
TAIL_TEXT_LENGTH: Final = RUN_TEXT_LENGTH + INDEX_TEXT_LENGTH
MAX_RUN: Final = 65_535
MAX_HANDLE_LENGTH: Final = 1024
_HEAD = struct.Struct(">BH")
_STORE = struct.Struct(">8sI")

assert (RUN.size + MAC_SIZE) % 3 == 0


@dataclass(frozen=True, slots=True)
class HandleRoute:
    """The origin of a delivery: enough for a gateway to find the store that settles it."""

    namespace: str
    topic: str
    group: str
    broker: str
    store_id: bytes
    recovery_epoch: int

    def encode(self) -> bytes:
        """Return the bytes before the tail, a multiple of 3."""
        names = b"".join(
            bytes((len(raw),)) + raw
            for raw in (name.encode() for name in (self.namespace, self.topic, self.group, self.broker))
        )
        route = names + _STORE.pack(self.store_id, self.recovery_epoch)
        route += bytes(-(len(route) + _HEAD.size) % 3)
        return _HEAD.pack(VERSION, len(route)) + route


def read_index(handle: str) -> int:
    """Return the index at the end of a handle; MAX_RUN, above all indexes, for an invalid one."""
    try:
        data = decode_text(handle[-INDEX_TEXT_LENGTH:])
    except ValueError:
        return MAX_RUN
    return int.from_bytes(data) if len(data) == INDEX_SIZE else MAX_RUN  # filled up at its end, it is another spelling


def index_text(index: int) -> str:
    """Return the end of a handle."""
    return _INDEXES[index] if index < len(_INDEXES) else encode_text(index.to_bytes(INDEX_SIZE))


_INDEXES: Final = [encode_text(index.to_bytes(INDEX_SIZE)) for index in range(128)]
"""Ready texts for most pops."""


def read_route(handle: str) -> HandleRoute:
    """Return the route of a handle, unchecked.  Raises INVALID_RECEIPT_HANDLE for an invalid one."""
    try:
        if len(handle) > MAX_HANDLE_LENGTH:
            raise ValueError("too long")
        data = decode_text(handle)
        version, length = _HEAD.unpack_from(data)
        if version != VERSION or len(data) != _HEAD.size + length + RUN.size + MAC_SIZE + INDEX_SIZE:
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
