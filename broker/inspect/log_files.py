"""LogFiles: the commit log on disk, read from end to end with nothing taken for granted.

Recovery ends at the first record that is not whole. Here the search goes on, so that every whole record is found, and
every gap between them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Final

from entrepot.broker.store import record
from entrepot.broker.store.damage import SCAN_CHUNK
from entrepot.broker.store.diverged import DIRECTORY, part_of
from entrepot.broker.store.record import HEADER_SIZE, RecordHeader
from entrepot.protocols.wire.stored_record import RECORD_MAGIC, InvalidRecordError

UNKNOWN_SEGMENT_SIZE: Final = 1 << 62
"""Stand-in for an unknown segment size, which only the names of more than one file tell."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file. `end`: of the file, as an offset of the log."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record, at a position of the bytes read."""

    data: bytes
    position: int
    header: RecordHeader


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of offsets where no whole record begins. `used_end`: after its last byte that is not zero."""

    start: int
    end: int
    used_end: int
    reason: str


class LogFiles:
    """The segments of `<root>/commitlog`. `foreign`: names there that are not a segment's."""

    def __init__(self, root: str) -> None:
        self.directory = f"{root}/commitlog"
        names = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        is_segment = {name: len(name) == 20 and name.isdecimal() and name.isascii() for name in names}
        self.foreign = [name for name in names if not is_segment[name]]
        self.segments = [
            Segment(path := f"{self.directory}/{name}", int(name), int(name) + os.path.getsize(path))
            for name in names
            if is_segment[name]
        ]
        self.segment_size = _segment_size(self.segments)

    @classmethod
    def of_diverged(cls, root: str) -> list[LogFiles]:
        """Return each part that a replica cut from its log and kept in `<root>/diverged`, as a log of its own."""
        found = []
        directory = f"{root}/{DIRECTORY}"
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            if (place := part_of(name)) is not None:
                part = cls.__new__(cls)
                part.directory, part.foreign = directory, []
                part.segments = [Segment(f"{directory}/{name}", place.start, place.end)]
                part.segment_size = UNKNOWN_SEGMENT_SIZE
                found.append(part)
        return found

    @property
    def start(self) -> int:
        return self.segments[0].start if self.segments else 0

    def bytes(self) -> int:
        return sum(segment.end - segment.start for segment in self.segments)

    def scan(self, start: int = 0) -> Iterator[Record | Gap]:
        """Yield all whole records from an offset on, and the gaps between and after them."""
        expected = max(start, self.start)
        for segment in self.segments:
            is_last = segment is self.segments[-1]
            limit = segment.end if is_last else max(segment.end, segment.start + self.segment_size)
            if start >= limit and not is_last:
                continue
            if segment.start > expected:
                yield Gap(expected, segment.start, segment.start, "a segment is missing")
            with open(segment.path, "rb", buffering=0) as file:
                yield from _Scan(file.fileno(), segment, limit, self.segment_size).run(max(start, segment.start))
            expected = limit


class _Scan:
    """A walk through one segment, which should reach to `limit`."""

    def __init__(self, descriptor: int, segment: Segment, limit: int, segment_size: int) -> None:
        self._descriptor = descriptor
        self._segment = segment
        self._limit = limit
        self._full_end = segment.start + segment_size

    def run(self, offset: int) -> Iterator[Record | Gap]:
        data, base = b"", offset
        while offset < self._limit and self._full_end - offset >= HEADER_SIZE:
            try:
                header = record.decode_header(data, offset - base, offset)
            except InvalidRecordError as error:
                if base != offset or not data:
                    data, base = self._read_record(offset), offset
                    if data:
                        continue
                following, used_end = self._next_record(offset)
                reason = str(error) if data else "the segment is cut short"
                yield Gap(offset, self._limit if following is None else following, used_end, reason)
                if following is None:
                    return
                data, base, offset = b"", following, following
                continue
            yield Record(data, offset - base, header)
            offset += header.length

    def _read_record(self, offset: int) -> bytes:
        """Return bytes from an offset on, with the whole of the record there."""
        data = self._read(SCAN_CHUNK, offset)
        claimed = record.peek_length(data, 0)
        return self._read(claimed, offset) if len(data) < claimed <= self._segment.end - offset else data

    def _next_record(self, start: int) -> tuple[int | None, int]:
        """Return the offset of the next whole record, and the end of non-zero bytes before it."""
        used_end = offset = start
        while offset < self._segment.end:
            data = self._read(SCAN_CHUNK + HEADER_SIZE, offset)
            found = data.find(RECORD_MAGIC, 1 if offset == start else 0)
            while found >= 0:
                if self._is_record(data, found, offset + found):
                    return offset + found, max(used_end, offset + len(data[:found].rstrip(b"\0")))
                found = data.find(RECORD_MAGIC, found + 1)
            used = len(data.rstrip(b"\0"))
            used_end = offset + used if used else used_end
            offset += SCAN_CHUNK
        return None, used_end

    def _is_record(self, data: bytes, position: int, offset: int) -> bool:
        head = data[position : position + HEADER_SIZE]
        if len(head) < HEADER_SIZE or int.from_bytes(head[16:24], "big") != offset:
            return False
        try:
            record.decode_header(self._read_record(offset), 0, offset)
        except InvalidRecordError:
            return False
        return True

    def _read(self, length: int, offset: int) -> bytes:
        return os.pread(self._descriptor, length, offset - self._segment.start)


def _segment_size(segments: list[Segment]) -> int:
    common = gcd(*(segment.start for segment in segments))
    if not common:
        return UNKNOWN_SEGMENT_SIZE
    lengths = [s.end - s.start for s in segments[:-1]]  # all but the last are full
    return max((length for length in lengths if length and common % length == 0), default=common)
