"""The parts that follow the body of a message's record, as the flags of its header announce.

In this order:

    origin           the record in which the message was kept before (`Origin`): u64 commit-log offset, i64 time
    further queues   store once, refer many: u32 count, then for each u16 topic length, u32 queue id, u64 queue offset,
                     topic
    move             the source of a dead letter or a retry (`Move`): i64 visible at, u64 queue offset, u32 queue
                     id, u16 attempts, u16 group length, u16 topic length, group, topic
    carried          the places that still needed a record when it was carried forward: for each u32 its number, the
                     record's own queue being 0 and the further ones from 1 on; then u32 count
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from google_crc32c import value as crc32c

from entrepot.domain.message import Place
from entrepot.protocols.wire.stored_record import (
    CARRIED_FLAG,
    CRC_START,
    FURTHER_FLAG,
    MESSAGE_HEADER_SIZE,
    ORIGIN_FLAG,
    ORIGIN_SIZE,
    decode_further,
)

MOVE_FLAG: Final = 8

_COUNT = struct.Struct(">I")
_FURTHER = struct.Struct(">HIQ")
_ORIGIN = struct.Struct(">Qq")
_FLAGS = struct.Struct(">H")
_PLACED = struct.Struct(">IQQ")  # length, the record's own offset, durable floor
_FLAGS_AT: Final = 10
_LENGTH_AT: Final = 12
_MOVE = struct.Struct(">qQIHHH")
_LENGTHS = struct.Struct(">HHHBBHII")

assert _ORIGIN.size == ORIGIN_SIZE


def encode_further(places: Sequence[Place]) -> bytes:
    """Return the end of a message's record: its further places."""
    parts = [_COUNT.pack(len(places))]
    for name, queue_id, queue_offset in places:
        topic = name.encode()
        parts += (_FURTHER.pack(len(topic), queue_id, queue_offset), topic)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Origin:
    """The record in which a message was kept before; `deliver_at_ms` is 0 for a half message."""

    commit_log_offset: int
    deliver_at_ms: int

    def encode(self) -> bytes:
        """Return the first part after the body."""
        return _ORIGIN.pack(self.commit_log_offset, self.deliver_at_ms)


def read_origin(data: bytes, position: int) -> Origin | None:
    """Return the origin of a checked message record, or None."""
    if not data[position + 11] & ORIGIN_FLAG:
        return None
    at = position + MESSAGE_HEADER_SIZE + sum(_LENGTHS.unpack_from(data, position + 68))
    return Origin(*_ORIGIN.unpack_from(data, at))


@dataclass(frozen=True, slots=True)
class Move:
    """The source of a dead letter or a retry: the place that its record settles for the group. A retry waits until
    `visible_at_ms`, with the `attempts` it has had. A queue id of NOWHERE settles nothing."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    attempts: int = 0
    visible_at_ms: int = 0


NOWHERE: Final = 0xFFFFFFFF


def encode_move(move: Move) -> bytes:
    """Return the end of a moved message's record."""
    group, topic = move.group.encode(), move.topic.encode()
    head = _MOVE.pack(
        move.visible_at_ms, move.queue_offset, move.queue_id, min(move.attempts, 65_535), len(group), len(topic)
    )
    return head + group + topic


def decode_move(data: bytes, position: int) -> Move | None:
    """Return the move of a checked message record, or None."""
    if not data[position + 11] & MOVE_FLAG:
        return None
    at = position + MESSAGE_HEADER_SIZE + sum(_LENGTHS.unpack_from(data, position + 68))
    visible_at, queue_offset, queue_id, attempts, group_length, topic_length = _MOVE.unpack_from(data, at)
    at += _MOVE.size
    middle = at + group_length
    group, topic = data[at:middle].decode(), data[middle : middle + topic_length].decode()
    return Move(group, topic, queue_id, queue_offset, attempts, visible_at)


def read_further(data: bytes, position: int) -> tuple[Place, ...]:
    """Return the places of a checked message record in its further queues."""
    if not data[position + 11] & FURTHER_FLAG:
        return ()
    at = position + MESSAGE_HEADER_SIZE + sum(_LENGTHS.unpack_from(data, position + 68))
    return decode_further(data, at + _ORIGIN.size if data[position + 11] & ORIGIN_FLAG else at)


def encode_trailer(origin: Origin | None, places: Sequence[Place]) -> tuple[bytes, int]:
    """Return the parts after a message's body, with their flags."""
    trailer, flags = b"", 0
    if origin is not None:
        trailer, flags = origin.encode(), ORIGIN_FLAG
    if places:
        trailer, flags = trailer + encode_further(places), flags | FURTHER_FLAG
    return trailer, flags


def carried_places(data: bytes, position: int) -> tuple[int, ...] | None:
    """Return the numbers of the places that a checked record was carried forward for; None if it never was."""
    if not data[position + _FLAGS_AT + 1] & CARRIED_FLAG:
        return None
    end = position + int.from_bytes(data[position + 12 : position + 16], "big") - _COUNT.size
    (count,) = _COUNT.unpack_from(data, end)
    return struct.unpack_from(f">{count}I", data, end - 4 * count)


def carried_forward(record: bytes, places: Sequence[int]) -> bytearray:
    """Return a checked message record for another place of the log (`put_at`): the same message, with its queues and
    times.  `places`: the numbers of those that need it."""
    (flags,), length = _FLAGS.unpack_from(record, _FLAGS_AT), len(record)
    before = carried_places(record, 0)
    if before is not None:
        length -= 4 * len(before) + _COUNT.size
    made = bytearray(record[:length])
    made += struct.pack(f">{len(places)}I", *places) + _COUNT.pack(len(places))
    _FLAGS.pack_into(made, _FLAGS_AT, flags | CARRIED_FLAG)
    return made


def put_at(made: bytearray, commit_log_offset: int, durable_floor: int) -> bytes:
    """Return a record by `carried_forward` as it lies at an offset of the log."""
    _PLACED.pack_into(made, _LENGTH_AT, len(made), commit_log_offset, durable_floor)
    made[4:CRC_START] = crc32c(bytes(made[CRC_START:])).to_bytes(4, "big")
    return bytes(made)
