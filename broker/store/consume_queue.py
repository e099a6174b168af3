"""ConsumeQueue: the order of one message queue, as references into the commit log.

Entries begin in memory (the tail), and few of them are saved in the queue's row of the state file. Many move to files
(`queue_entries.py`). So a queue with few entries has no file, and a store may have hundreds of thousands of queues.

Invariant: a file holds only entries whose records are durable. A lost or corrupted file is rebuilt from the commit log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from google_crc32c import extend as crc32c_extend

from entrepot.broker.store.carried_entries import ENTRY_SIZE, CarriedEntries
from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.queue_entries import ENTRIES_PER_FILE, ENTRY, QueueEntries, topic_directory
from entrepot.broker.store.queue_row import QueueRow
from entrepot.broker.store.watermark import NO_END, Watermark
from entrepot.domain.errors import CorruptedError

FLUSH_BYTES: Final = 64 * 1024
"""Durable entries kept in memory before they are written to the file, in bytes."""
ROW_TAIL_BYTES: Final = 4 * 1024
"""Longest tail kept in the queue's row, in bytes: a checkpoint writes a longer one to the file."""

_pack = ENTRY.pack
_UNPLACED: Final = -1
_NO_FILES: Final[frozenset[str]] = frozenset()


class SubTopicIndex(Protocol):
    """The index derived from the queue's full files (`filter_index.py`)."""

    def drop_before(self, offset: int) -> None:
        """Forget the entries before an offset."""


class ConsumeQueue(QueueEntries):
    """One queue. `max_offset`: the next queue offset to be given. `is_touched`: it is to be looked at when the
    watermark moves, or nobody follows it.

    `since`: commit-log offset of the record that made it. `as_of`: its row holds all records before this offset.
    """

    __slots__ = (
        "_checksums",
        "_told",
        "as_of",
        "coming",
        "dirty_files",
        "early",
        "filter_index",
        "is_changed",
        "is_followed",
        "is_touched",
        "last_sub_topic",
        "names",
        "obsolete_files",
        "since",
        "stated",
        "watchers",
    )

    def __init__(
        self, files: OpenFiles, topic: str, queue_id: int, *, since: int = 0, watermark: Watermark | None = None
    ) -> None:
        super().__init__(files, topic, queue_id, watermark or Watermark(NO_END))
        self.since = self.stated = since
        self.as_of = 0
        self._told = 0
        self.is_followed = False
        self.watchers: tuple[Callable[[ConsumeQueue], None], ...] = ()
        self.is_touched = True
        self.last_sub_topic = ""  # most queues have few, and this is nearer than the names
        self.is_changed = False
        self._checksums: dict[int, int] = {}
        self.coming: list[tuple[int, bytes]] | None = None  # carried entries whose records are not confirmed yet
        self.early: dict[int, bytes] | None = None  # carried entries while all is derived from a log without beginning
        self.dirty_files: frozenset[str] = _NO_FILES  # light queues have none: no object for each of them
        self.obsolete_files: tuple[str, ...] = ()
        self.names: dict[int, str] = {}  # the topic's, by sub-topic hash: set by the queue's maker
        self.filter_index: SubTopicIndex | None = None

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

    def put_carried(self, queue_offset: int, entry: bytes) -> None:
        """Take the entry of a record carried forward, in place of the one there.  Retention has removed the entries
        before the first carried one."""
        if self.early is not None:
            self.early[queue_offset] = entry
        elif queue_offset >= self.min_offset:
            if self.carried is None:
                self.carried = CarriedEntries(queue_offset)
            self.carried.put(queue_offset, entry)
            self._drop(self.carried.begin)

    def confirm_carried(self) -> None:
        """Let the carried entries that were coming stand for their messages: their records are confirmed."""
        coming, self.coming = self.coming, None
        for queue_offset, entry in coming or ():
            self.put_carried(queue_offset, entry)

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
        self._drop(min(queue_offset, self.visible_offset))

    def _drop(self, queue_offset: int) -> None:
        if queue_offset <= self.min_offset:
            return
        self.min_offset = queue_offset
        if self.carried is not None:
            if self.carried.end <= queue_offset:
                self.carried = None
            else:
                self.carried.drop_before(queue_offset)
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
            self.early = {}
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
        self.early = {} if unplaced else None
        if unplaced:
            self.max_offset = _UNPLACED

    def begin_at(self, queue_offset: int) -> None:
        """Make the queue empty, with this as the next offset."""
        self._tail.clear()
        self._last = 0
        self.carried = self.coming = None
        self.min_offset = self.flushed_entries = self.max_offset = self._told = queue_offset

    def forget_before(self, commit_log_offset: int) -> None:
        """Drop the entries up to the last one whose record lies before an offset of the log."""
        found = self.entries(self.ordered_from, 1)
        if found and found[0][0] < commit_log_offset:
            self.drop_before(self.first_at_or_after(commit_log_offset))
        elif self.carried is not None:
            self.drop_before(self.carried.end_before(commit_log_offset))

    def place_row(self, as_of: int) -> bytes:
        """Return a row that has the queue's offsets without its entries."""
        return QueueRow(as_of, self.since, self.max_offset, self.max_offset).encode()

    def settle_place(self, queue_offset: int) -> None:
        """End a rebuild: a queue for which no entry came is empty at this offset. Carried entries that do not lead up
        to the others, without a gap, are those of messages removed since."""
        early, self.early = self.early, None
        if self.max_offset == _UNPLACED:
            self.begin_at(max(queue_offset, max(early) + 1) if early else queue_offset)
        if not early:
            return
        begin = end = self.min_offset
        while begin - 1 in early:
            begin -= 1
        while end in early:
            end += 1
        if begin < end:
            self.min_offset = begin
            self.carried = CarriedEntries(begin, b"".join(early[offset] for offset in range(begin, end)))

    # -- the row -------------------------------------------------------------------------------------------------

    def row(self, as_of: int) -> bytes:
        """Return the row (see the module). A long tail moves to the file first. May raise OSError."""
        if (self.visible_offset - self.flushed_entries) * ENTRY_SIZE > ROW_TAIL_BYTES:
            self.flush()
        checksums = [self._checksums[index] for index in sorted(self._checksums)]
        return QueueRow(
            as_of, self.since, self.min_offset, self.flushed_entries, checksums, self._all_carried(), self._tail
        ).encode()

    def _all_carried(self) -> CarriedEntries | None:
        """The carried entries as of the end of the log, those that are coming included."""
        if not self.coming:
            return self.carried
        first, known = self.coming[0][0], self.carried
        found = CarriedEntries(first) if known is None else CarriedEntries(known.begin, known.data)
        for queue_offset, entry in self.coming:
            if queue_offset >= self.min_offset:
                found.put(queue_offset, entry)
        return found if found.data else None

    def restore(self, row: bytes) -> None:
        """Restore the queue from its row."""
        found = QueueRow.decode(row)
        self.as_of, self.since, self.min_offset, self.flushed_entries = found[:4]
        self.carried, self._tail, checksums = found.carried, bytearray(found.tail), found.checksums
        last = -(-self.flushed_entries // ENTRIES_PER_FILE)
        self._checksums = dict(zip(range(last - len(checksums), last), checksums, strict=True))
        self.max_offset = self._told = self.flushed_entries + len(self._tail) // ENTRY_SIZE
        if self.carried is not None:
            self._drop(self.carried.begin)

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


def queue_key(topic: str, queue_id: int) -> bytes:
    """Return the key of a queue's row."""
    return b"q" + topic.encode() + b"\0" + queue_id.to_bytes(4, "big")


def read_queue_key(key: bytes) -> tuple[str, int]:
    """Reverse `queue_key`."""
    return key[1:-5].decode(), int.from_bytes(key[-4:], "big")
