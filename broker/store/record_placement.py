"""The placement of a record's message, read without the rest of it: recovery and the dispatcher read millions."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_trailer import read_further
from entrepot.domain.message import Place
from entrepot.protocols.wire.stored_record import (
    CARRIED_FLAG,
    CRC_START,
    FURTHER_FLAG,
    MESSAGE_HEADER_SIZE,
    ORIGIN_FLAG,
    RECORD_MAGIC,
    RECORD_VERSION,
    unpack_message,
)

_NOT_PLAIN: Final = FURTHER_FLAG | ORIGIN_FLAG | CARRIED_FLAG
_unpack_identity = struct.Struct(">4sIBBHIQ").unpack_from


class Placement(NamedTuple):
    """A message's queue, offset and index keys."""

    topic: str
    queue_id: int
    queue_offset: int
    size: int
    filter_hash: int
    store_time_ms: int
    sub_topic: bytes
    message_id: bytes
    keys: bytes
    """Keys joined by NUL, as in the record."""

    @property
    def first_place(self) -> Place:
        """Place in the record's own queue."""
        return self.topic, self.queue_id, self.queue_offset


def is_plain(data: bytes, position: int) -> bool:
    """True for a message of one queue that was in no record before."""
    return data[position + 9] == RecordKind.MESSAGE and not data[position + 11] & _NOT_PLAIN


def decode_placement(data: bytes, position: int, commit_log_offset: int) -> Placement | None:
    """Return the placement of a whole plain message. None for anything else, corrupted records included:
    `decode_header` tells them apart."""
    if position + MESSAGE_HEADER_SIZE > len(data) or not is_plain(data, position):
        return None
    magic, crc, version, _, _, length, own_offset = _unpack_identity(data, position)
    end = position + length
    if magic != RECORD_MAGIC or own_offset != commit_log_offset or version != RECORD_VERSION or end > len(data):
        return None
    if crc32c(data[position + CRC_START : end]) != crc:
        return None
    return read_placement(data, position)


def places_of(placement: Placement, data: bytes, position: int) -> list[Place]:
    """Return all places of a checked message record with this placement: its own queue first, then further ones."""
    return [placement.first_place, *read_further(data, position)]


def read_placement(data: bytes, position: int) -> Placement:
    """Return the placement of a checked message record, in the first of its queues."""
    (
        *_,
        length,
        _,
        _,
        store_time,
        queue_id,
        queue_offset,
        _,
        hashed,
        topic_length,
        sub_topic_length,
        group_length,
        tag_length,
        id_length,
        keys_length,
        _,
        _,
    ) = unpack_message(data, position)
    a = position + MESSAGE_HEADER_SIZE
    b = a + topic_length
    c = b + sub_topic_length
    d = c + group_length + tag_length
    e = d + id_length
    return Placement(
        data[a:b].decode(),
        queue_id,
        queue_offset,
        length,
        hashed,
        store_time,
        data[b:c],
        data[d:e],
        data[e : e + keys_length],
    )
