"""MessageIndex: finds the messages with a key, in a series of index files over the commit log.

A message's keys are noted by their hashes as it is appended (`put`, `put_all`). They are written once its record is
durable, many at once: chaining and packing are then done as vectors.

Invariants: a file holds only entries whose records are durable. Entries rise with the commit log, within a file and
from file to file. Only the last file takes entries. All records before `indexed_until` are in the files.

The checkpoint keeps *rows*: one of each file and one of the whole. A row counts only if the `dirty_files` at its taking
are synced before it is kept. A lost or corrupted file is rebuilt, with all others, from the commit log. Hashes collide:
an offset found is a candidate, and the record decides.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from google_crc32c import value as crc32c

from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.index_file import IndexFile, IndexLayout
from entrepot.broker.store.open_files import OpenFiles
from entrepot.domain.errors import CorruptedError

FLUSH_ENTRIES: Final = 8192
"""Durable entries kept in memory before they are written: about two milliseconds of writing."""
BATCH_ENTRIES: Final = 65_536
"""Most entries written at once, which bounds the memory of a rebuild."""
HEAD_ROW: Final = "head"
"""Key of the row that belongs to no single file."""

_HEAD = struct.Struct(">IQQQ")
_HEAD_VERSION = 1
_EVER = 2**63 - 1


class MessageIndex:
    """The index in `<root>/index`. It starts empty; `restore` takes up a checkpoint.

    `indexed_until`: commit-log offset before which every record is in the files. `min_offset`: least offset that is
    found. `dirty_files`: paths written since the set was last taken.
    """

    def __init__(self, files: OpenFiles, layout: IndexLayout | None = None) -> None:
        self.indexed_until = 0
        self.min_offset = 0
        self.dirty_files: set[str] = set()
        self.directory = f"{files.root}/index"
        self._layout = layout or IndexLayout()
        self._open_files = files
        self._durable_offset = 0
        self._next_number = 0
        self._files: list[IndexFile] = []
        self._hashes = array("I")
        self._offsets = array("q")
        self._times = array("q")
        self._changed: set[str] = set()
        self._reported_head = b""

    @property
    def latest_ms(self) -> int:
        """Latest known store time; 0 if there is no message."""
        waiting = self._times[-1] if self._times else 0
        return max(waiting, self._files[-1].max_time_ms if self._files else 0)

    # -- writing -----------------------------------------------------------------------------------------------

    def put(self, key: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Note a key of the record at a commit-log offset, which must not fall; the keys of a record come together. A
        record that is indexed already is left alone, so dispatching again is harmless."""
        if commit_log_offset >= self.indexed_until:
            self._hashes.append(crc32c(key))
            self._offsets.append(commit_log_offset)
            self._times.append(store_time_ms)

    def put_all(self, keys: Sequence[bytes], commit_log_offsets: Sequence[int], store_time_ms: int) -> None:
        """As `put`, for the keys of many records with one store time; much cheaper than one by one."""
        if commit_log_offsets and commit_log_offsets[0] < self.indexed_until:
            for key, offset in zip(keys, commit_log_offsets, strict=True):
                self.put(key, offset, store_time_ms)
            return
        self._hashes.extend(map(crc32c, keys))
        self._offsets.extend(commit_log_offsets)
        self._times.extend(array("q", (store_time_ms,)) * len(keys))

    def advance(self, durable_offset: int) -> None:
        """Let entries before the commit log's durable offset be found; they are written once there are enough."""
        self._durable_offset = durable_offset
        if len(self._hashes) >= FLUSH_ENTRIES:
            try:
                self.flush(durable_offset)
            except OSError as error:
                if not is_want_of_room(error):
                    raise
                # the log has it all: the entries stay in memory until there is room

    def flush(self, durable_offset: int) -> None:
        """Write the entries of durable records to their files (page cache; the checkpoint syncs them). On OSError the
        unwritten ones are kept, to be tried again."""
        self._durable_offset = durable_offset
        count = bisect_left(self._offsets, durable_offset)
        while count:
            file = self._writable()
            batch = min(count, file.room, BATCH_ENTRIES)
            self._write(file, batch)
            count -= batch

    def _writable(self) -> IndexFile:
        """Return the last file; a full one is sealed and the next begun."""
        last = self._files[-1] if self._files else None
        if last is not None and last.room:
            return last
        if last is not None:
            last.seal()
            self._note(last)
        self._files.append(IndexFile(self._open_files, self._next_number, self._layout))
        self._next_number += 1
        return self._files[-1]

    def _write(self, file: IndexFile, count: int) -> None:
        offsets = np.array(self._offsets[:count])
        if np.any(offsets[1:] < offsets[:-1]):
            raise CorruptedError("the message index was given records out of order")
        file.append(np.array(self._hashes[:count]), offsets, np.array(self._times[:count]))
        self._note(file)
        del self._hashes[:count], self._offsets[:count], self._times[:count]
        # Past a record only as a whole: its keys may be on both sides of the cut.
        splits = bool(self._offsets) and self._offsets[0] == file.last_offset
        self.indexed_until = file.last_offset + (0 if splits else 1)

    def _note(self, file: IndexFile) -> None:
        self._changed.add(file.name)
        self.dirty_files.add(file.path)

    @property
    def first_pending(self) -> int | None:
        """Commit-log offset of the first record with a key in no file yet, or None."""
        return self._offsets[0] if self._offsets else None

    # -- searching ---------------------------------------------------------------------------------------------

    def find(
        self, key: bytes, from_ms: int = 0, to_ms: int | None = None, before_offset: int | None = None
    ) -> Iterator[int]:
        """Yield commit-log offsets of durable records that may have the key, newest first and each once.

        The caller confirms key and store time on the record, and may go on later with the last offset as
        `before_offset`. Times are epoch milliseconds, both included. The index may be written to between two steps. A
        sealed file is checked as a whole when it is first needed. Raises CorruptedError where a file is corrupted:
        `reset` and rebuild.
        """
        below = self._durable_offset if before_offset is None else min(before_offset, self._durable_offset)
        until_ms = _EVER if to_ms is None else to_ms
        files = self._files[::-1]
        hashed = crc32c(key)
        for offset in self._pending(hashed, below, from_ms, until_ms):
            if offset < below:
                yield (below := offset)
        for file in files:
            if below <= self.min_offset:
                return
            for offset in file.candidates(hashed, below, from_ms, until_ms):
                if offset < self.min_offset:
                    return
                if offset < below:  # it may come twice, and may have been met while it was pending
                    yield (below := offset)

    def is_unconfirmed(self, key: bytes) -> bool:
        """Return True if a record that is not durable yet may have the key: `find` does not know it."""
        first = bisect_left(self._offsets, self._durable_offset)
        return first < len(self._hashes) and crc32c(key) in self._hashes[first:]

    def _pending(self, hashed: int, below: int, from_ms: int, until_ms: int) -> list[int]:
        """Return matches not in the files yet, newest first."""
        end = bisect_left(self._offsets, below)
        places: list[int] = np.flatnonzero(np.array(self._hashes[:end]) == hashed).tolist()
        times, offsets, least = self._times, self._offsets, self.min_offset
        return [offsets[at] for at in reversed(places) if from_ms <= times[at] <= until_ms and offsets[at] >= least]

    # -- retention ---------------------------------------------------------------------------------------------

    def drop_before(self, commit_log_offset: int) -> None:
        """Begin the index at this offset: nothing below is found, and files wholly below are removed."""
        self.min_offset = max(self.min_offset, commit_log_offset)
        kept = [file for file in self._files if not file.count or file.last_offset >= commit_log_offset]
        for file in self._files:
            if file.count and file.last_offset < commit_log_offset:
                file.remove()
                self.dirty_files.discard(file.path)
                self._changed.add(file.name)
        self._files = kept

    # -- checkpoint and recovery -------------------------------------------------------------------------------

    def rows(self) -> dict[str, bytes]:
        """Return the rows for a checkpoint: one of each file by its name, and one under `HEAD_ROW`."""
        return {HEAD_ROW: self._head()} | {file.name: file.row() for file in self._files if file.count}

    def changed_rows(self) -> dict[str, bytes | None]:
        """Return rows changed since the last call, or since they were restored; None: the row is gone. If these rows
        could not be kept, all `rows` must be kept the next time."""
        changed: dict[str, bytes | None] = dict.fromkeys(sorted(self._changed))
        changed |= {file.name: file.row() for file in self._files if file.name in self._changed}
        self._changed.clear()
        head = self._head()
        if head != self._reported_head:
            self._reported_head = changed[HEAD_ROW] = head
        return changed

    def restore(self, rows: Mapping[str, bytes]) -> None:
        """Restore a fresh index from a checkpoint's rows; none if there is no checkpoint.

        Files without a row are removed: their records are dispatched again. Call `drop_before` if the log was shortened
        since, then `is_intact`. Raises CorruptedError for rows that cannot be read: `reset`.
        """
        names = sorted(name for name in rows if name != HEAD_ROW)
        self._changed.update(names)  # if they cannot be read they are to be forgotten
        files = [IndexFile.from_row(self._open_files, name, rows[name]) for name in names]
        if rows:
            head = rows.get(HEAD_ROW, b"")
            if len(head) != _HEAD.size or _HEAD.unpack(head)[0] != _HEAD_VERSION:
                raise CorruptedError("the checkpoint's row of the message index cannot be read")
            _, self.indexed_until, self.min_offset, self._next_number = _HEAD.unpack(head)
            self._reported_head = head
        for name in self._open_files.disk.names(self.directory):
            if name not in rows:
                self._open_files.remove(f"{self.directory}/{name}")
        self._changed.clear()
        self._files = files
        self._durable_offset = self.indexed_until
        if files:
            files[-1].resume()

    def is_intact(self, *, every_byte: bool = False) -> bool:
        """True if the files match the rows; if not, `reset` and put everything from the log again. Unless `every_byte`,
        sealed files are only looked at: they were synced, and are checked on their first search."""
        return all(file.is_intact(every_byte=every_byte) for file in self._files if file.count)

    def reset(self) -> None:
        """Forget all entries and files: the index is about to be rebuilt from the log."""
        for file in self._files:
            file.is_gone = True
            self._changed.add(file.name)
        self._open_files.remove(self.directory)
        self._files.clear()
        self.dirty_files.clear()
        self._forget_pending()
        self.indexed_until = self._durable_offset = 0  # file numbers go on: a new file is never taken for an old one

    def close(self) -> None:
        """Free memory and end searches under way. Writes nothing: call `flush` before. Descriptors are others'."""
        for file in self._files:
            file.is_gone = True
        self._files.clear()
        self._forget_pending()

    def _forget_pending(self) -> None:
        del self._hashes[:], self._offsets[:], self._times[:]

    def _head(self) -> bytes:
        return _HEAD.pack(_HEAD_VERSION, self.indexed_until, self.min_offset, self._next_number)
