"""The TICK record: all operations of one decision step on consumption, in the order of their decision.

Payload (big-endian): u8 op (TICK), u16 count of names; each name as u16 topic length, u16 group length, topic, group;
sections up to the end:

    u8 op  u16 name  u32 queue id  i64 deadline ms  u16 n  n ranges: u64 first queue offset, u32 count
    u8 op | 0x80  u16 name  u32 queue id  i64 deadline ms  u16 n  bitmap: u64 first queue offset, n bytes

A bitmap is used where it is shorter, for SETTLE alone, as its order does not matter. Bit 0 of byte 0 is the first
offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from entrepot.broker.consume.consumption_op import JOINED_OPS, ConsumptionOp

MAX_TICK_BYTES: Final = 64 * 1024
"""Payload of one record, in bytes; a step's further operations go to another one."""
BITMAP: Final = 0x80
_HEAD = struct.Struct(">BH")
_NAME = struct.Struct(">HH")
_SECTION = struct.Struct(">BHIqH")
_RANGE = struct.Struct(">QI")
_FIRST = struct.Struct(">Q")
_BITS: Final = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]


class TickOp(NamedTuple):
    """One operation. `offsets`: neighbours as a range."""

    op: int
    group: str
    topic: str
    queue_id: int
    offsets: Sequence[int]
    deadline_ms: int


class _Section:
    __slots__ = ("deadline_ms", "name", "op", "queue_id", "ranges")

    def __init__(self, op: int, name: int, queue_id: int, deadline_ms: int) -> None:
        self.op, self.name, self.queue_id, self.deadline_ms = op, name, queue_id, deadline_ms
        self.ranges: list[tuple[int, int]] = []

    def encode(self) -> bytes:
        ranges = self.ranges
        if self.op == ConsumptionOp.SETTLE and len(ranges) > 1:
            first, end = min(ranges)[0], max([first + count for first, count in ranges])
            size = (end - first + 7) // 8
            if _FIRST.size + size < len(ranges) * _RANGE.size:
                bits = 0
                for start, count in ranges:
                    bits |= ((1 << count) - 1) << (start - first)
                head = _SECTION.pack(self.op | BITMAP, self.name, self.queue_id, self.deadline_ms, size)
                return head + _FIRST.pack(first) + bits.to_bytes(size, "little")
        head = _SECTION.pack(self.op, self.name, self.queue_id, self.deadline_ms, len(ranges))
        return head + b"".join([_RANGE.pack(first, count) for first, count in ranges])


class TickWriter:
    """A gatherer of one record's operations."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], int] = {}
        self._encoded_names: list[bytes] = []
        self._sections: list[_Section] = []
        self._last: dict[tuple[int, int], _Section] = {}
        """Last section of each window: a following operation may extend it."""
        self.size = _HEAD.size
        """Bytes that the payload has at most."""

    @property
    def is_empty(self) -> bool:
        return not self._sections

    @staticmethod
    def most(group: str, topic: str, ranges: int) -> int:
        """Return the bytes that an operation on so many ranges adds at most."""
        return _NAME.size + 4 * (len(topic) + len(group)) + _SECTION.size + ranges * _RANGE.size

    def add(
        self, op: int, group: str, topic: str, queue_id: int, ranges: Sequence[tuple[int, int]], deadline_ms: int
    ) -> None:
        """Add an operation on ranges: first offset and count of each."""
        number = self._names.get((group, topic))
        if number is None:
            number = self._names[group, topic] = len(self._names)
            raw_topic, raw_group = topic.encode(), group.encode()
            name = _NAME.pack(len(raw_topic), len(raw_group)) + raw_topic + raw_group
            self._encoded_names.append(name)
            self.size += len(name)
        section = self._last.get((number, queue_id))
        is_joined = op in JOINED_OPS
        if section is None or section.op != op or section.deadline_ms != deadline_ms or not is_joined:
            section = _Section(op, number, queue_id, deadline_ms)
            self._sections.append(section)
            self._last[number, queue_id] = section
            self.size += _SECTION.size
        known = section.ranges
        for first, count in ranges:
            if known and known[-1][0] + known[-1][1] == first:
                known[-1] = known[-1][0], known[-1][1] + count
            else:
                known.append((first, count))
                self.size += _RANGE.size

    def encode(self) -> bytes:
        """Return the record's payload."""
        head = _HEAD.pack(ConsumptionOp.TICK, len(self._encoded_names))
        return b"".join([head, *self._encoded_names, *[section.encode() for section in self._sections]])


def ranges_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return first offset and count of each run of neighbours, in their order."""
    if isinstance(offsets, range):
        return [(offsets.start, len(offsets))]
    found: list[tuple[int, int]] = []
    first = end = offsets[0]
    for offset in offsets:
        if offset != end:
            found.append((first, end - first))
            first = offset
        end = offset + 1
    found.append((first, end - first))
    return found


def read_tick(payload: bytes) -> Iterator[TickOp]:
    """Yield the operations of a record. Raises ValueError, struct.error for other bytes."""
    _, count = _HEAD.unpack_from(payload)
    at = _HEAD.size
    names: list[tuple[str, str]] = []
    for _ in range(count):
        topic_length, group_length = _NAME.unpack_from(payload, at)
        at += _NAME.size
        end = at + topic_length
        names.append((payload[end : end + group_length].decode(), payload[at:end].decode()))
        at = end + group_length
    while at < len(payload):
        op, number, queue_id, deadline_ms, n = _SECTION.unpack_from(payload, at)
        at += _SECTION.size
        if number >= len(names):
            raise ValueError("a section of no name")
        group, topic = names[number]
        if op & BITMAP:
            (first,) = _FIRST.unpack_from(payload, at)
            at += _FIRST.size
            offsets = _offsets_in(payload[at : at + n], first)
            at += n
            if offsets:
                yield TickOp(op ^ BITMAP, group, topic, queue_id, offsets, deadline_ms)
            continue
        found = [
            range(first, first + length) for first, length in _RANGE.iter_unpack(payload[at : at + n * _RANGE.size])
        ]
        at += n * _RANGE.size
        if len(found) != n or not all(found):
            raise ValueError("ranges that are cut short, or of nothing")
        if op not in JOINED_OPS and sum(map(len, found)) > MAX_TICK_BYTES:
            raise ValueError("more offsets than a record can name one by one")
        for each in found if op in JOINED_OPS else [list(chain(*found))]:
            yield TickOp(op, group, topic, queue_id, each, deadline_ms)


def _offsets_in(bitmap: bytes, first: int) -> list[int]:
    return [first + 8 * place + bit for place, byte in enumerate(bitmap) if byte for bit in _BITS[byte]]
