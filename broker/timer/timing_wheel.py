"""TimingWheel: the scheduled messages by their delivery time.

They lie in the commit log, as timed records. The wheel has 20 bytes for each (big-endian): delivery time (8),
commit-log offset of the record (8), crc32c of the message id (4). They are gathered in buckets, by the minute of
delivery and the region of the log of their record. A bucket is one row of the state file, so a row stays small, and a
bucket is not rewritten again and again as the log grows. The near minutes are in a heap.

Invariants: a timer is in its bucket until a record of the log settles it (delivered, recalled, given another time). A
far minute stays known (`_regions`) when its last timer is settled, so that it is in `_far` only once.

ADR 13: messages that are not in a queue yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

import numpy as np
from google_crc32c import value as crc32c

from entrepot.broker.rows.changed_rows import ChangedRows

MINUTE_MS: Final = 60_000
REGION_BITS: Final = 24
_ENTRY = struct.Struct(">QQI")
_COLUMNS = np.dtype([("time", ">u8"), ("offset", ">u8"), ("id", ">u4")])
_AS_OF_SIZE: Final = 8
_BucketKey = tuple[int, int]
Timer = tuple[int, int]
"""Timer: (delivery time, commit-log offset)."""


class _Bucket:
    __slots__ = ("as_of", "done", "entries", "is_changed")

    def __init__(self, entries: bytes = b"", as_of: int = 0) -> None:
        self.entries = bytearray(entries)
        self.done: set[int] = set()
        self.as_of = as_of
        self.is_changed = False

    def alive(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        found = np.frombuffer(bytes(self.entries), _COLUMNS)
        if self.done:
            found = found[~np.isin(found["offset"].astype(np.uint64), np.fromiter(self.done, np.uint64))]
        return found

    def row(self, as_of: int) -> bytes | None:
        alive = self.alive()
        return as_of.to_bytes(_AS_OF_SIZE, "big") + alive.tobytes() if len(alive) else None


class TimingWheel:
    """The scheduled messages of one store. `count`: timers that wait."""

    def __init__(self, rows: ChangedRows) -> None:
        self.count = 0
        self._rows = rows
        self._buckets: dict[_BucketKey, _Bucket] = {}
        self._regions: dict[int, set[int]] = {}
        self._far: list[int] = []  # minutes that are not in the heap yet
        self._near: list[Timer] = []
        self._awaited: set[int] = set()  # offsets of unsettled timers in the heap
        self._near_until = -1  # minutes up to here are in the heap

    # -- changes, from the log -----------------------------------------------------------------------------------

    def add(self, deliver_at_ms: int, message_id: bytes, commit_log_offset: int) -> None:
        """Add the timer of a timed record."""
        key = deliver_at_ms // MINUTE_MS, commit_log_offset >> REGION_BITS
        bucket = self._buckets.get(key) or self._new_bucket(key, _Bucket())
        if commit_log_offset < bucket.as_of:
            return
        bucket.entries += _ENTRY.pack(deliver_at_ms, commit_log_offset, crc32c(message_id))
        self.count += 1
        self._rows.mark(_row_key(key), bucket, commit_log_offset)
        if key[0] <= self._near_until:
            self.put_back([(deliver_at_ms, commit_log_offset)])

    def settle(self, deliver_at_ms: int, timed_offset: int, commit_log_offset: int) -> None:
        """End the wait of a timed record, as the record at `commit_log_offset` states; ignore others."""
        key = deliver_at_ms // MINUTE_MS, timed_offset >> REGION_BITS
        bucket = self._buckets.get(key)
        if bucket is None or timed_offset in bucket.done or not self._has(bucket, deliver_at_ms, timed_offset):
            return
        bucket.done.add(timed_offset)
        self._awaited.discard(timed_offset)
        self.count -= 1
        self._rows.mark(_row_key(key), bucket, commit_log_offset)
        if len(bucket.done) * _ENTRY.size == len(bucket.entries):
            del self._buckets[key]
            self._regions[key[0]].discard(key[1])
            if not self._regions[key[0]] and key[0] <= self._near_until:
                del self._regions[key[0]]

    def _has(self, bucket: _Bucket, deliver_at_ms: int, timed_offset: int) -> bool:
        """True if the bucket has the entry. Entries are in the order of their offsets."""
        entries, size = bucket.entries, _ENTRY.size
        low, high = 0, len(entries) // size
        while low < high:
            middle = (low + high) // 2
            time_ms, offset, _ = _ENTRY.unpack_from(entries, middle * size)
            if offset == timed_offset:
                return bool(time_ms == deliver_at_ms)
            if offset < timed_offset:
                low = middle + 1
            else:
                high = middle
        return False

    def _new_bucket(self, key: _BucketKey, bucket: _Bucket) -> _Bucket:
        minute, region = key
        self._buckets[key] = bucket
        if minute not in self._regions:
            self._regions[minute] = set()
            if minute > self._near_until:
                heappush(self._far, minute)
        self._regions[minute].add(region)
        return bucket

    # -- due timers ----------------------------------------------------------------------------------------------

    def take_due(self, now_ms: int, limit: int) -> list[Timer]:
        """Take due timers out of the heap, the earliest first. Those not settled after all are to be put back."""
        self._near_until = max(self._near_until, now_ms // MINUTE_MS)
        while self._far and self._far[0] <= self._near_until:
            minute = heappop(self._far)
            self.put_back(self._timers_of(minute))
            if not self._regions[minute]:
                del self._regions[minute]
        due: list[Timer] = []
        while self._near and self._near[0][0] <= now_ms and len(due) < limit:
            timer = heappop(self._near)
            if timer[1] in self._awaited:
                self._awaited.remove(timer[1])
                due.append(timer)
        return due

    def put_back(self, timers: list[Timer]) -> None:
        """Put timers into the heap: they are near, or could not be delivered now."""
        for timer in timers:
            heappush(self._near, timer)
            self._awaited.add(timer[1])

    # -- queries -------------------------------------------------------------------------------------------------

    def find(self, deliver_at_ms: int, message_id: bytes) -> list[int]:
        """Return commit-log offsets of timed records of that time that may have that id."""
        minute, hashed = deliver_at_ms // MINUTE_MS, crc32c(message_id)
        found: list[int] = []
        for region in self._regions.get(minute, ()):
            alive = self._buckets[minute, region].alive()
            same = alive[(alive["time"] == deliver_at_ms) & (alive["id"] == hashed)]
            found += same["offset"].tolist()
        return sorted(found)

    def after(self, cursor: Timer) -> Iterator[Timer]:
        """Yield timers after (time, offset), in that order."""
        for minute in sorted(minute for minute in self._regions if minute >= cursor[0] // MINUTE_MS):
            for timer in self._timers_of(minute):
                if timer > cursor:
                    yield timer

    def offsets_before(self, commit_log_offset: int) -> list[int]:
        """Return timed records before an offset that are still needed."""
        found: list[int] = []
        for key, bucket in list(self._buckets.items()):
            if key[1] << REGION_BITS < commit_log_offset:
                offsets = bucket.alive()["offset"]
                found += offsets[offsets < commit_log_offset].tolist()
        return found

    def _timers_of(self, minute: int) -> list[Timer]:
        timers: list[Timer] = []
        for region in self._regions.get(minute, ()):
            alive = self._buckets[minute, region].alive()
            timers += zip(alive["time"].tolist(), alive["offset"].tolist(), strict=True)
        return sorted(timers)

    # -- rows ----------------------------------------------------------------------------------------------------

    def restore(self, key: bytes, row: bytes) -> None:
        """Restore a bucket from its row."""
        bucket = _Bucket(row[_AS_OF_SIZE:], int.from_bytes(row[:_AS_OF_SIZE], "big"))
        self._new_bucket((int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:], "big")), bucket)
        self.count += len(bucket.entries) // _ENTRY.size


def _row_key(key: _BucketKey) -> bytes:
    return b"d" + key[0].to_bytes(4, "big") + key[1].to_bytes(8, "big")
