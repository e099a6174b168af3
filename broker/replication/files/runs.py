"""Runs of records between replicas: cut out of a log at record boundaries, checked and split on arrival.

On the wire a run is one byte (1), u64 commit-log offset, u64 confirmed offset, then the records as they lie in the log.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.record import HEADER_SIZE, RecordKind, peek_length
from entrepot.domain.errors import CorruptedError
from entrepot.domain.replication.epochs import EpochStart, read_epoch
from entrepot.protocols.wire.stored_record import CRC_START, RECORD_MAGIC, RECORD_VERSION, checksum

RUN_BYTES: Final = 1 << 20
"""Approximate size of a run, in bytes; or one record."""
MAX_RECORD_BYTES: Final = 144 << 20
"""Most bytes of one record on its way; a greater length is corrupted."""
WELCOME_ITEM: Final = b"\x00"
RUN_ITEM: Final = b"\x01"
_HEAD: Final = struct.Struct(">cQQ")
_unpack = struct.Struct(">4sIBBHIQQ").unpack_from


class Run(NamedTuple):
    """Whole records on their way to a slave. `floor`: their highest durable floor. `starts`: of the EPOCH records among
    them. `confirmed`: by the master, when it sent them."""

    offset: int
    data: bytes
    floor: int
    confirmed: int
    starts: tuple[EpochStart, ...] = ()


def encode_run(offset: int, confirmed: int, data: bytes) -> bytes:
    """Return a run for the wire."""
    return _HEAD.pack(RUN_ITEM, offset, confirmed) + data


def read_run(log: CommitLog, offset: int, end: int) -> bytes:
    """Return whole records of one segment from an offset on, up to the end of a record. Raises CorruptedError."""
    segment_end = offset - offset % log.layout.segment_size_bytes + log.layout.segment_size_bytes
    end = min(end, segment_end)
    data = log.read_span(offset, min(end, offset + RUN_BYTES))
    if offset + len(data) == end:
        return data
    at = 0
    while (length := peek_length(data, at)) and at + length <= len(data):
        at += length
    if at:
        return data[:at]
    if not 0 < length <= MAX_RECORD_BYTES:
        raise log.corrupted(offset, f"its length is {length}")
    data = log.read_span(offset, min(offset + length, end))
    try:
        checked(data, 0, offset)
    except CorruptedError as error:
        raise log.corrupted(offset, error) from error
    return data


def read_parts(log: CommitLog, start: int, end: int) -> list[bytes]:
    """Return the bytes of a part of the log, a segment each."""
    size = log.layout.segment_size_bytes
    ends = [*range(start - start % size + size, end, size), end]
    return [log.read_span(begin, last) for begin, last in zip([start, *ends], ends, strict=False)]


def decode_runs(item: bytes, segment_size: int) -> list[Run]:
    """Return the runs of an item, each record checked. A new one begins where a record's durable floor lies within: it
    is written when everything before is synced. Raises CorruptedError."""
    _, offset, confirmed = _HEAD.unpack_from(item)
    data = item[_HEAD.size :]
    last, segment_end = len(data), segment_size - offset % segment_size
    found: list[Run] = []
    begin = at = floor = 0
    starts: list[EpochStart] = []
    while at < last:
        if segment_end - at < HEADER_SIZE:  # no record fits there
            at = segment_end
            break
        kind, length, own_floor = checked(data, at, offset + at)
        if own_floor > offset + begin and at > begin:
            found.append(Run(offset + begin, data[begin:at], floor, confirmed, tuple(starts)))
            begin, floor, starts = at, 0, []
        floor = max(floor, own_floor)
        if kind == RecordKind.EPOCH:
            starts.append(read_epoch(data[at + HEADER_SIZE : at + length], offset + at))
        at += length
    if at != last:
        raise CorruptedError(f"the run at commit-log offset {offset} does not end with a record")
    found.append(Run(offset + begin, data[begin:], floor, confirmed, tuple(starts)))
    return found


def checked(data: bytes, at: int, place: int) -> tuple[int, int, int]:
    """Return kind, length and durable floor of a record, as `decode_header` without an object for each."""
    if at + HEADER_SIZE <= len(data):
        magic, crc, version, kind, _, length, own_place, floor = _unpack(data, at)
        end = at + (HEADER_SIZE if kind == RecordKind.PADDING else length)
        is_one = magic == RECORD_MAGIC and own_place == place and version == RECORD_VERSION and length >= HEADER_SIZE
        if is_one and end <= len(data) and checksum(data, at + CRC_START, end) == crc:
            return kind, length, floor
    raise CorruptedError(f"the record at commit-log offset {place} came corrupted", place)
