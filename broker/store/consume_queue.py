"""ConsumeQueue: the order of one message queue, as references into the commit log.

An entry is 20 bytes, big-endian: commit-log offset (8), record size (4), filter hash (8).  Files hold 300,000 entries,
have no header, and are named by the 20-digit byte offset of their first entry.

Invariant: a file never holds an entry whose record is not durable.  New entries wait in memory (`_tail`); what is
durable of them moves to the file in batches.  A lost or harmed file is rebuilt from the commit log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from google_crc32c import extend as crc32c_extend

from broker.store.disk import is_want_of_space
from broker.store.open_files import OpenFiles
from domain.errors import CorruptedError

ENTRY: Final = struct.Struct(">QIQ")
ENTRY_SIZE: Final = ENTRY.size
ENTRIES_PER_FILE: Final = 300_000
FILE_SIZE: Final = ENTRIES_PER_FILE * ENTRY_SIZE
FLUSH_BYTES: Final = 64 * 1024
"""Durable entries kept in memory before they are written to the file."""

_pack = ENTRY.pack
_iter_entries = ENTRY.iter_unpack


class ConsumeQueue:
    """One queue.  `max_offset` is the next queue offset to be given; `visible_offset` the end of what may be read."""

    def __init__(self, files: OpenFiles, topic: str, queue_id: int, *, entries: int = 0, checksum: int = 0) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        self.visible_offset = self.max_offset = entries
        self.watchers: list[Callable[[ConsumeQueue], None]] = []
        self.is_touched = False
        self.checksum = checksum
        self._files = files
        self.directory = f"{files.root}/consumequeue/{topic}/{queue_id}"
        self.flushed_entries = entries
        self._tail = bytearray()
        self.dirty_files: set[str] = set()

    def put(self, queue_offset: int, commit_log_offset: int, size: int, filter_hash: int) -> None:
        """Add the entry of a record; one that is here already is left alone (dispatching again is harmless)."""
        if queue_offset == self.max_offset:
            self._tail += _pack(commit_log_offset, size, filter_hash)
            self.max_offset = queue_offset + 1
        elif queue_offset > self.max_offset:
            raise CorruptedError(f"queue {self.topic}/{self.queue_id} jumps from {self.max_offset} to {queue_offset}")

    def advance(self, durable_offset: int) -> bool:
        """Make visible what lies before the commit log's durable offset; says whether anything became so."""
        tail, base = self._tail, self.flushed_entries
        low, high = self.visible_offset - base, len(tail) // ENTRY_SIZE
        if low == high:
            return False
        first = low
        unpack = ENTRY.unpack_from
        if unpack(tail, (high - 1) * ENTRY_SIZE)[0] < durable_offset:
            low = high
        while low < high:
            middle = (low + high) // 2
            if unpack(tail, middle * ENTRY_SIZE)[0] < durable_offset:
                low = middle + 1
            else:
                high = middle
        self.visible_offset = base + low
        if low * ENTRY_SIZE >= FLUSH_BYTES:
            try:
                self.flush()
            except OSError as error:
                if not is_want_of_space(error):
                    raise
                # the log has it all: the entries stay in memory until there is room
        return low > first

    def flush(self) -> None:
        """Write the visible part of the tail to its files (page cache; the checkpoint syncs them)."""
        count = self.visible_offset - self.flushed_entries
        while count:
            index, within = divmod(self.flushed_entries, ENTRIES_PER_FILE)
            batch = min(count, ENTRIES_PER_FILE - within)
            data = bytes(self._tail[: batch * ENTRY_SIZE])
            path = self._path(index)
            self._files.write(path, data, within * ENTRY_SIZE)
            self.dirty_files.add(path)
            self.checksum = crc32c_extend(self.checksum, data)
            self.flushed_entries += batch
            del self._tail[: batch * ENTRY_SIZE]
            count -= batch

    def entries(self, from_offset: int, count: int) -> list[tuple[int, int, int]]:
        """Up to `count` visible entries: (commit-log offset, size, filter hash)."""
        end = min(from_offset + count, self.visible_offset)
        if from_offset >= end:
            return []
        if from_offset >= self.flushed_entries:
            start = (from_offset - self.flushed_entries) * ENTRY_SIZE
            return list(_iter_entries(self._tail[start : start + (end - from_offset) * ENTRY_SIZE]))
        flushed_end = min(end, self.flushed_entries)
        data = self._read_files(from_offset, flushed_end)
        if end > flushed_end:
            data += self._tail[: (end - flushed_end) * ENTRY_SIZE]
        return list(_iter_entries(data))

    def first_at_or_after(self, commit_log_offset: int) -> int:
        """The first visible queue offset whose record lies at or after a place in the log."""
        return self.bisect(lambda entry: entry[0] < commit_log_offset)

    def bisect(self, is_before: Callable[[tuple[int, int, int]], bool]) -> int:
        """The first visible queue offset for which `is_before` is false; it must be true up to a point."""
        low, high = self.min_offset, self.visible_offset
        while low < high:
            middle = (low + high) // 2
            if is_before(self.entries(middle, 1)[0]):
                low = middle + 1
            else:
                high = middle
        return low

    def is_intact(self) -> bool:
        """Whether the files hold what the checksum says (used when opening)."""
        found = 0
        for index in range(-(-self.flushed_entries // ENTRIES_PER_FILE)):
            count = min(ENTRIES_PER_FILE, self.flushed_entries - index * ENTRIES_PER_FILE)
            path = self._path(index)
            data = self._files.read(path, count * ENTRY_SIZE, 0) if self._files.exists(path) else b""
            if len(data) != count * ENTRY_SIZE:
                return False
            found = crc32c_extend(found, data)
        return found == self.checksum

    def reset(self) -> None:
        """Forget all entries and files: the queue is about to be rebuilt from the log, or its topic is new."""
        self._files.remove(self.directory)
        self.dirty_files.clear()
        self._tail.clear()
        self.flushed_entries = self.visible_offset = self.max_offset = self.checksum = 0

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
