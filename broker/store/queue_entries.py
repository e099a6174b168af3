"""QueueEntries: the entries of one message queue, read from memory, files and those carried forward.

An entry is 20 bytes, big-endian: commit-log offset (8), record size (4), filter hash (8). Entries begin in memory (the
tail). Many move to files of 300,000 entries, without a header, named by the 20-digit byte offset of their first entry.
Entries lie in the order of the log, but for the first ones of a queue whose records were carried forward
(`carried_entries.py`): these stand before the others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from entrepot.broker.store.carried_entries import ENTRY_SIZE, CarriedEntries
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.watermark import Watermark
from entrepot.domain.errors import CorruptedError

ENTRY: Final = struct.Struct(">QIQ")
ENTRIES_PER_FILE: Final = 300_000
NEAR_ENTRIES: Final = 64
"""Largest gap between entries that are read together, with those in between."""
FILE_SIZE: Final = ENTRIES_PER_FILE * ENTRY_SIZE

_iter_entries = ENTRY.iter_unpack
assert ENTRY.size == ENTRY_SIZE


class QueueEntries:
    """The entries of a queue from `min_offset` on; `max_offset`: the next queue offset to be given."""

    __slots__ = (
        "_files",
        "_last",
        "_tail",
        "_watermark",
        "carried",
        "flushed_entries",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
    )

    def __init__(self, files: OpenFiles, topic: str, queue_id: int, watermark: Watermark) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = self.flushed_entries = self.max_offset = 0
        self.carried: CarriedEntries | None = None
        self._watermark = watermark
        self._files = files
        self._last = 0  # offset of the last entry's record
        self._tail = bytearray()

    @property
    def directory(self) -> str:
        return f"{self._files.root}/consumequeue/{topic_directory(self.topic)}/{self.queue_id}"

    @property
    def visible_offset(self) -> int:
        """End of the readable entries: those whose records lie before the watermark."""
        watermark = self._watermark.offset
        if self._last < watermark:  # the usual case, without a look at the entries
            return self.max_offset
        tail, unpack = self._tail, ENTRY.unpack_from
        low, high = 0, len(tail) // ENTRY_SIZE
        while low < high:
            middle = (low + high) // 2
            if unpack(tail, middle * ENTRY_SIZE)[0] < watermark:
                low = middle + 1
            else:
                high = middle
        return self.flushed_entries + low

    @property
    def ordered_from(self) -> int:
        """Offset of the first entry that was not carried forward: from here on they are in the order of the log."""
        return self.min_offset if self.carried is None else self.carried.end

    def first_commit_log_offset(self) -> int | None:
        """Return the lowest commit-log offset of all entries' records, or None if there is no entry."""
        found = self.entries(self.ordered_from, 1)
        first = found[0][0] if found else None
        if self.carried is None:
            return first
        return self.carried.least if first is None else min(first, self.carried.least)

    def last_commit_log_offset(self) -> int:
        """Return the commit-log offset of the last visible entry's record, or 0 if there is none."""
        found = self.entries(self.visible_offset - 1, 1) if self.visible_offset > self.min_offset else []
        return found[0][0] if found else 0

    # -- reading -------------------------------------------------------------------------------------------------

    def entries(self, from_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Return up to `count` visible entries: (commit-log offset, size, filter hash)."""
        return self._entries(from_offset, min(from_offset + count, self.visible_offset))

    def claimed_entries(self, from_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Return up to `count` entries claimed by a pop, visible or not."""
        return self._entries(from_offset, min(from_offset + count, self.max_offset))

    def _entries(self, from_offset: int, end: int) -> list[tuple[int, int, int]]:
        if from_offset >= end:
            return []
        carried = self.carried
        if carried is not None and from_offset < carried.end:
            return list(_iter_entries(self._raw(from_offset, end)))
        if from_offset >= self.flushed_entries:
            start = (from_offset - self.flushed_entries) * ENTRY_SIZE
            return list(_iter_entries(self._tail[start : start + (end - from_offset) * ENTRY_SIZE]))
        return list(_iter_entries(self._raw(from_offset, end)))

    def claimed_entry(self, queue_offset: int) -> tuple[int, int, int]:
        """Return one claimed entry."""
        carried = self.carried
        if queue_offset >= self.flushed_entries and (carried is None or queue_offset >= carried.end):
            found: tuple[int, int, int] = ENTRY.unpack_from(
                self._tail, (queue_offset - self.flushed_entries) * ENTRY_SIZE
            )
            return found
        return self._entries(queue_offset, queue_offset + 1)[0]

    def entries_at(self, queue_offsets: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return the visible entries at ascending offsets. Entries near each other are read with one call."""
        found: list[tuple[int, int, int]] = []
        at, count = 0, len(queue_offsets)
        while at < count:
            first, end = queue_offsets[at], at + 1
            while end < count and queue_offsets[end] - queue_offsets[end - 1] <= NEAR_ENTRIES:
                end += 1
            data = self.raw(first, queue_offsets[end - 1] - first + 1)
            unpack = ENTRY.unpack_from
            found += [unpack(data, (offset - first) * ENTRY_SIZE) for offset in queue_offsets[at:end]]
            at = end
        return found

    def taken_entries(self, from_offset: int) -> list[tuple[int, int, int]]:
        """Return all entries from an offset on, including those not visible yet."""
        first = max(from_offset, self.visible_offset) - self.flushed_entries
        entries = self.entries(from_offset, self.visible_offset - from_offset)
        return entries + list(_iter_entries(self._tail[first * ENTRY_SIZE :]))

    def raw(self, from_offset: int, count: int) -> bytes:
        """Return the bytes of up to `count` visible entries."""
        end = min(from_offset + count, self.visible_offset)
        return self._raw(from_offset, end) if from_offset < end else b""

    def _raw(self, from_offset: int, end: int) -> bytes:
        carried = self.carried
        if carried is not None and from_offset < carried.end:
            rest = self._raw(carried.end, end) if carried.end < end else b""
            return carried.raw(from_offset, min(end, carried.end)) + rest
        flushed_end = min(end, self.flushed_entries)
        data = self._read_files(from_offset, flushed_end) if from_offset < flushed_end else bytearray()
        if end > flushed_end:
            first = max(from_offset - self.flushed_entries, 0)
            data += self._tail[first * ENTRY_SIZE : (end - self.flushed_entries) * ENTRY_SIZE]
        return bytes(data)

    def first_at_or_after(self, commit_log_offset: int) -> int:
        """Return the first visible queue offset, after those carried forward, whose record lies at or after a
        commit-log offset."""
        return self.bisect(lambda entry: entry[0] < commit_log_offset, self.ordered_from)

    def bisect(self, is_before: Callable[[tuple[int, int, int]], bool], begin: int | None = None) -> int:
        """Return the first visible queue offset for which `is_before` is false; it must be true up to a point."""
        low, high = self.min_offset if begin is None else begin, self.visible_offset
        while low < high:
            middle = (low + high) // 2
            if is_before(self.entries(middle, 1)[0]):
                low = middle + 1
            else:
                high = middle
        return low

    def _read_files(self, start: int, end: int) -> bytearray:
        data = bytearray()
        while start < end:
            index, within = divmod(start, ENTRIES_PER_FILE)
            count = min(end - start, ENTRIES_PER_FILE - within)
            chunk = self._files.read(self._path(index), count * ENTRY_SIZE, within * ENTRY_SIZE)
            if len(chunk) != count * ENTRY_SIZE:
                raise CorruptedError(f"the consume queue {self.topic}/{self.queue_id} is cut short on disk")
            data += chunk
            start += count
        return data

    def _path(self, index: int) -> str:
        return f"{self.directory}/{index * FILE_SIZE:020d}"


def topic_directory(topic: str) -> str:
    """Return the name of a topic's directory. The namespace is set off by a character that no name has, so no topic's
    directory lies in another's."""
    return topic.replace("/", "@")
