"""ConsumeQueue: the order of one message queue, as references into the commit log.

An entry is 20 bytes, big-endian: commit-log offset (8), record size (4), filter hash (8). Entries begin in memory (the
tail), and few of them are saved in the queue's row of the state file. Many move to files of 300,000 entries, without a
header, named by the 20-digit byte offset of their first entry. So a queue with few entries has no file, and a store may
have hundreds of thousands of queues.

The row (big-endian): as-of offset (8), since (8), min offset (8), flushed end (8), number of files (4), their crc32c (4
each, of their entries so far), then the tail's entries.

Invariant: a file holds only entries whose records are durable. A lost or corrupted file is rebuilt from the commit log.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from google_crc32c import extend as crc32c_extend

from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.watermark import NO_END, Watermark
from entrepot.domain.errors import CorruptedError

ENTRY: Final = struct.Struct(">QIQ")
ENTRY_SIZE: Final = ENTRY.size
ENTRIES_PER_FILE: Final = 300_000
NEAR_ENTRIES: Final = 64
"""Largest gap between entries that are read together, with those in between."""
FILE_SIZE: Final = ENTRIES_PER_FILE * ENTRY_SIZE
FLUSH_BYTES: Final = 64 * 1024
"""Durable entries kept in memory before they are written to the file, in bytes."""
ROW_TAIL_BYTES: Final = 4 * 1024
"""Longest tail kept in the queue's row, in bytes: a checkpoint writes a longer one to the file."""

_pack = ENTRY.pack
_iter_entries = ENTRY.iter_unpack
_ROW = struct.Struct(">QQQQI")
_UNPLACED: Final = -1
_NO_FILES: Final[frozenset[str]] = frozenset()


class SubTopicIndex(Protocol):
    """The index derived from the queue's full files (`filter_index.py`)."""

    def drop_before(self, offset: int) -> None:
        """Forget the entries before an offset."""


class ConsumeQueue:
    """One queue. `max_offset`: the next queue offset to be given. `is_touched`: it is to be looked at when the
    watermark moves, or nobody follows it.

    `since`: commit-log offset of the record that made it. `as_of`: its row holds all records before this offset.
    """

    __slots__ = (
        "_checksums",
        "_files",
        "_last",
        "_tail",
        "_told",
        "_watermark",
        "as_of",
        "dirty_files",
        "filter_index",
        "flushed_entries",
        "is_changed",
        "is_followed",
        "is_touched",
        "last_sub_topic",
        "max_offset",
        "min_offset",
        "names",
        "obsolete_files",
        "queue_id",
        "since",
        "stated",
        "topic",
        "watchers",
    )

    def __init__(
        self, files: OpenFiles, topic: str, queue_id: int, *, since: int = 0, watermark: Watermark | None = None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.since = self.stated = since
        self.as_of = 0
        self.min_offset = self.flushed_entries = self.max_offset = 0
        self._watermark = watermark or Watermark(NO_END)
        self._told = 0
        self.is_followed = False
        self.watchers: tuple[Callable[[ConsumeQueue], None], ...] = ()
        self.is_touched = True
        self.last_sub_topic = ""  # most queues have few, and this is nearer than the names
        self.is_changed = False
        self._files = files
        self._last = 0  # offset of the last entry's record
        self._tail = bytearray()
        self._checksums: dict[int, int] = {}
        self.dirty_files: frozenset[str] = _NO_FILES  # light queues have none: no object for each of them
        self.obsolete_files: tuple[str, ...] = ()
        self.names: dict[int, str] = {}  # the topic's, by sub-topic hash: set by the queue's maker
        self.filter_index: SubTopicIndex | None = None

    @property
    def directory(self) -> str:
        return f"{self._files.root}/consumequeue/{topic_directory(self.topic)}/{self.queue_id}"

    @property
    def key(self) -> bytes:
        """The row's key."""
        return queue_key(self.topic, self.queue_id)

    # -- writing -------------------------------------------------------------------------------------------------

    def put(self, queue_offset: int, commit_log_offset: int, size: int, filter_hash: int) -> None:
        """Add a record's entry. One that is there already is left alone, so dispatching again is harmless."""
        if queue_offset == self.max_offset:
            self._tail += _pack(commit_log_offset, size, filter_hash)
            self.max_offset = queue_offset + 1
            self._last = commit_log_offset
        elif queue_offset > self.max_offset:
            if self.max_offset != _UNPLACED:
                raise CorruptedError(
                    f"queue {self.topic}/{self.queue_id} jumps from {self.max_offset} to {queue_offset}"
                )
            self.begin_at(queue_offset)
            self.put(queue_offset, commit_log_offset, size, filter_hash)

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
    def is_large(self) -> bool:
        """True if more is kept in memory than is worthwhile."""
        return len(self._tail) >= FLUSH_BYTES

    def has_grown(self) -> bool:
        """True if more is visible than at the last call."""
        before, self._told = self._told, self.visible_offset
        return self._told > before

    def follow(self) -> None:
        """Report growth of the queue from now on."""
        self.is_followed, self.is_touched = True, False
        self._told = self.visible_offset

    def flush_visible(self) -> None:
        """As `flush`, but without room on the disk do nothing: the log has all of it."""
        try:
            self.flush()
        except OSError as error:
            if not is_want_of_room(error):
                raise

    def flush(self) -> None:
        """Write the visible part of the tail to its files (page cache; the checkpoint syncs them)."""
        count = self.visible_offset - self.flushed_entries
        while count:
            index, within = divmod(self.flushed_entries, ENTRIES_PER_FILE)
            batch = min(count, ENTRIES_PER_FILE - within)
            data = bytes(self._tail[: batch * ENTRY_SIZE])
            path = self._path(index)
            self._files.write(path, data, within * ENTRY_SIZE)
            self.dirty_files |= {path}
            before = self._checksums.get(index)
            if before is None:  # a file that begins within, after dropped offsets, is zeros up to there
                before = crc32c_extend(0, bytes(within * ENTRY_SIZE))
            self._checksums[index] = crc32c_extend(before, data)
            self.flushed_entries += batch
            del self._tail[: batch * ENTRY_SIZE]
            count -= batch

    def drop_before(self, queue_offset: int) -> None:
        """Forget the entries before an offset. Files left without entries are removed once the row is saved."""
        queue_offset = min(queue_offset, self.visible_offset)
        if queue_offset <= self.min_offset:
            return
        self.min_offset = queue_offset
        for index in [i for i in self._checksums if (i + 1) * ENTRIES_PER_FILE <= queue_offset]:
            self.dirty_files -= {self._path(index)}
            self.obsolete_files += (self._path(index),)
            del self._checksums[index]

    def remove_obsolete(self, paths: Sequence[str]) -> None:
        """Remove files that the row no longer names."""
        for path in paths:
            self._files.remove(path)
        if paths and self.filter_index is not None:
            self.filter_index.drop_before(self.min_offset)

    def clear(self) -> None:
        """Forget all entries; offsets go on from here."""
        if self.max_offset == _UNPLACED:
            return
        end = self.max_offset
        self.reset()
        self.begin_at(end)

    def reset(self, *, unplaced: bool = False) -> None:
        """Forget all entries and files: the queue is about to be rebuilt from the log, or its topic is new. `unplaced`:
        the first entry that comes sets its offset."""
        self._files.remove(self.directory)
        self._files.remove(f"{self._files.root}/filterindex/{topic_directory(self.topic)}/{self.queue_id}")
        self.filter_index = None
        self.dirty_files, self.obsolete_files = _NO_FILES, ()
        self._checksums.clear()
        self.begin_at(0)
        if unplaced:
            self.max_offset = _UNPLACED

    def begin_at(self, queue_offset: int) -> None:
        """Make the queue empty, with this as the next offset."""
        self._tail.clear()
        self._last = 0
        self.min_offset = self.flushed_entries = self.max_offset = self._told = queue_offset

    def first_commit_log_offset(self) -> int | None:
        """Return the commit-log offset of the first entry's record, or None if there is no entry."""
        found = self.entries(self.min_offset, 1)
        return found[0][0] if found else None

    def last_commit_log_offset(self) -> int:
        """Return the commit-log offset of the last visible entry's record, or 0 if there is none."""
        found = self.entries(self.visible_offset - 1, 1) if self.visible_offset > self.min_offset else []
        return found[0][0] if found else 0

    def place_row(self, as_of: int) -> bytes:
        """Return a row that has the queue's offsets without its entries."""
        return _ROW.pack(as_of, self.since, self.max_offset, self.max_offset, 0)

    def settle_place(self, queue_offset: int) -> None:
        """End a rebuild: a queue for which no entry came is empty at this offset."""
        if self.max_offset == _UNPLACED:
            self.begin_at(queue_offset)

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
        if from_offset >= self.flushed_entries:
            start = (from_offset - self.flushed_entries) * ENTRY_SIZE
            return list(_iter_entries(self._tail[start : start + (end - from_offset) * ENTRY_SIZE]))
        return list(_iter_entries(self._raw(from_offset, end)))

    def claimed_entry(self, queue_offset: int) -> tuple[int, int, int]:
        """Return one claimed entry."""
        if queue_offset >= self.flushed_entries:
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
        flushed_end = min(end, self.flushed_entries)
        data = self._read_files(from_offset, flushed_end) if from_offset < flushed_end else bytearray()
        if end > flushed_end:
            first = max(from_offset - self.flushed_entries, 0)
            data += self._tail[first * ENTRY_SIZE : (end - self.flushed_entries) * ENTRY_SIZE]
        return bytes(data)

    def first_at_or_after(self, commit_log_offset: int) -> int:
        """Return the first visible queue offset whose record lies at or after a commit-log offset."""
        return self.bisect(lambda entry: entry[0] < commit_log_offset)

    def bisect(self, is_before: Callable[[tuple[int, int, int]], bool]) -> int:
        """Return the first visible queue offset for which `is_before` is false; it must be true up to a point."""
        low, high = self.min_offset, self.visible_offset
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

    # -- the row -------------------------------------------------------------------------------------------------

    def row(self, as_of: int) -> bytes:
        """Return the row (see the module). A long tail moves to the file first. May raise OSError."""
        if (self.visible_offset - self.flushed_entries) * ENTRY_SIZE > ROW_TAIL_BYTES:
            self.flush()
        checksums = array("I", [self._checksums[index] for index in sorted(self._checksums)])
        checksums.byteswap()
        head = _ROW.pack(as_of, self.since, self.min_offset, self.flushed_entries, len(checksums))
        return b"".join((head, checksums.tobytes(), self._tail))

    def restore(self, row: bytes) -> None:
        """Restore the queue from its row."""
        self.as_of, self.since, self.min_offset, self.flushed_entries, files = _ROW.unpack_from(row)
        end = _ROW.size + 4 * files
        if files:
            last = -(-self.flushed_entries // ENTRIES_PER_FILE)
            checksums = struct.unpack_from(f">{files}I", row, _ROW.size)
            self._checksums = dict(zip(range(last - files, last), checksums, strict=True))
        self._tail = bytearray(row[end:])
        self.max_offset = self._told = self.flushed_entries + len(self._tail) // ENTRY_SIZE

    def is_intact(self) -> bool:
        """True if the files hold what the row states (checked on opening)."""
        for index, checksum in self._checksums.items():
            first = index * ENTRIES_PER_FILE
            length = min(ENTRIES_PER_FILE, self.flushed_entries - first) * ENTRY_SIZE
            path = self._path(index)
            data = self._files.read(path, length, 0) if self._files.exists(path) else b""
            if len(data) != length or crc32c_extend(0, data) != checksum:
                return False
        return True


def topic_directory(topic: str) -> str:
    """Return the name of a topic's directory. The namespace is set off by a character that no name has, so no topic's
    directory lies in another's."""
    return topic.replace("/", "@")


def queue_key(topic: str, queue_id: int) -> bytes:
    """Return the key of a queue's row."""
    return b"q" + topic.encode() + b"\0" + queue_id.to_bytes(4, "big")


def read_queue_key(key: bytes) -> tuple[str, int]:
    """Reverse `queue_key`."""
    return key[1:-5].decode(), int.from_bytes(key[-4:], "big")
