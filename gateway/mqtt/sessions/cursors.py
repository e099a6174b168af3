"""Cursors in the key-values: few stand in the session's record, many in parts of their own.

A part (`session-cursors/<client>/<number>`) has the topics whose names hash to its number.  It is written with the
record, by the same compare-and-set, and only if it changed.  So who has read a record has the parts that belong to it,
if his next write of the record succeeds.

The number of cursors grows with a session's queues: topics times brokers times queues per topic.  A million of them fit
into MAX_PARTS_BYTES with room to spare.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_VALUE_BYTES, KeyValueChange
from entrepot.gateway.mqtt.sessions.record import CURSORS_PREFIX, Cursors, SessionRecord

MAX_INLINE: Final = 2048
"""Cursors that the record itself holds."""
CURSORS_PER_PART: Final = 16_384
"""Cursors of a part on average; the number of parts is a power of two."""
MAX_PARTS_BYTES: Final = 6 << 20
"""Bytes of all parts of one session, compressed; a write of key-values takes 8 MiB."""
_LEVEL: Final = 1

Runs = list[list[int]]
"""Offsets of one topic: each run begins with a queue id; the offsets of it and of the following queues come behind."""


class CursorsTooLargeError(EntrepotError):
    """The cursors of a session exceed MAX_PARTS_BYTES."""

    def __init__(self, count: int) -> None:
        text = f"the session reads {count} message queues: their positions exceed {MAX_PARTS_BYTES >> 20} MiB"
        super().__init__(Code.STORAGE_FULL, text)


class TopicPart(msgspec.Struct, array_like=True, frozen=True):
    """The cursors of one topic; `replays` by place in the part's list of them."""

    topic: str
    made: dict[int, int]
    runs: Runs
    replays: dict[int, Runs] = {}


class CursorPart(msgspec.Struct, array_like=True):
    """A part; `replays`: all replays of the session, as the client wrote their filters."""

    replays: list[str]
    topics: list[TopicPart] = []


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(CursorPart)


def part_key(name: str, number: int) -> str:
    return f"{CURSORS_PREFIX}{name}/{number:04d}"


def deletions(name: str, count: int, first: int = 0) -> list[KeyValueChange]:
    """The changes that delete the parts from `first` to `count`."""
    return [KeyValueChange(part_key(name, number), None) for number in range(first, count)]


def split(record: SessionRecord) -> tuple[SessionRecord, list[bytes]]:
    """The record as it is stored, and its parts; none if all cursors fit into the record.  Raises
    CursorsTooLargeError."""
    count = _count(record.cursors) + sum(map(_count, record.replays.values()))
    if count <= MAX_INLINE:
        return msgspec.structs.replace(record, parts=0), []
    size = 1
    while size * CURSORS_PER_PART < count:
        size *= 2
    replays = list(record.replays)
    parts = [CursorPart(replays) for _ in range(size)]
    for topic in sorted({*record.cursors, *(topic for each in record.replays.values() for topic in each)}):
        parts[zlib.crc32(topic.encode()) % size].topics.append(_topic_part(record, replays, topic))
    values = [zlib.compress(_encoder.encode(part), _LEVEL) for part in parts]
    if sum(map(len, values)) > MAX_PARTS_BYTES or max(map(len, values)) > MAX_VALUE_BYTES:
        raise CursorsTooLargeError(count)
    return msgspec.structs.replace(record, cursors={}, replays={}, made={}, parts=size), values


def _count(cursors: Cursors) -> int:
    return sum(map(len, cursors.values()))


def _topic_part(record: SessionRecord, replays: list[str], topic: str) -> TopicPart:
    theirs = ((place, record.replays[name].get(topic)) for place, name in enumerate(replays))
    return TopicPart(
        topic,
        record.made.get(topic, {}),
        _runs(record.cursors.get(topic, {})),
        {place: _runs(queues) for place, queues in theirs if queues},
    )


def _runs(queues: dict[int, int]) -> Runs:
    runs: Runs = []
    due = -1
    for queue_id in sorted(queues):
        if queue_id != due:
            runs.append([queue_id])
        runs[-1].append(queues[queue_id])
        due = queue_id + 1
    return runs


def join(record: SessionRecord, value: bytes) -> None:
    """Add the cursors of a part to a record.  Raises msgspec.DecodeError if it is corrupted."""
    try:
        part = _decoder.decode(zlib.decompress(value))
    except zlib.error as error:
        raise msgspec.DecodeError(str(error)) from error
    for name in part.replays:
        record.replays.setdefault(name, {})
    for each in part.topics:
        if each.runs:
            record.cursors[each.topic] = _queues(each.runs)
        if each.made:
            record.made[each.topic] = each.made
        for place, runs in each.replays.items():
            record.replays[part.replays[place]][each.topic] = _queues(runs)


def _queues(runs: Runs) -> dict[int, int]:
    return {run[0] + at: offset for run in runs for at, offset in enumerate(run[1:])}
