"""The parts that follow the body of a message's record, as the flags of its header announce.

In this order:

    origin           the record in which the message was kept before (`Origin`): u64 commit-log offset, i64 time
    further queues   store once, refer many: u32 count, then for each u16 topic length, u32 queue id, u64 queue offset,
                     topic
    move             the source of a dead letter or a retry (`Move`): i64 visible at, u64 queue offset, u32 queue
                     id, u16 attempts, u16 group length, u16 topic length, group, topic
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from entrepot.domain.message import Place
from entrepot.protocols.remoting.stored_record import (
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
