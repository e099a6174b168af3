"""FilterIndex: finds the offsets of one queue that may match a set of sub-topic hashes, without reading records.

Every full consume-queue file gets a postings file beside it (`postings.py`), where a few hashes are looked up. Entries
in no full file yet, and questions about many hashes, are answered by a scan (`hash_scan.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.hash_scan import HashSet, Positions, scan
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.postings import Postings, are_postings_of, encode_postings, longest_postings
from entrepot.broker.store.queue_entries import ENTRIES_PER_FILE, topic_directory
from entrepot.domain.errors import CorruptedError

LOOKUP_HASHES: Final = 64
"""Most hashes looked up one by one; more are scanned for, which takes as long for any number."""
LOOKUP_POSITIONS: Final = 16_384
"""Positions in a file above which a hash is scanned for: the scan meets it soon."""
LOOKUP_COST: Final = 2_048
"""Cost of one lookup in one file, in entries that a scan covers in the same time."""
FIRST_CHUNK: Final = 4_096
LARGEST_CHUNK: Final = 65_536
"""Most entries per step of a scan. Steps begin small, for a limit that is soon reached."""
OPEN_POSTINGS: Final = 1_024
"""Most postings files of a queue with fences in memory (at most 5 KB each)."""


class EntrySource(Protocol):
    """The index's view of a consume queue. Offsets count entries; all `flushed_entries` are visible."""

    topic: str
    queue_id: int
    min_offset: int

    @property
    def visible_offset(self) -> int: ...

    flushed_entries: int

    def raw(self, from_offset: int, count: int) -> bytes | bytearray:
        """Return the bytes of up to `count` visible entries; fewer only at the end. Raises CorruptedError, OSError. In
        the file that holds `min_offset`, the entries before it must still be readable."""


class FilterIndex:
    """The index of one queue. Correctness never depends on it: a missing part is scanned for instead."""

    def __init__(self, files: OpenFiles, source: EntrySource, entries_per_file: int = ENTRIES_PER_FILE) -> None:
        self.directory = f"{files.root}/filterindex/{topic_directory(source.topic)}/{source.queue_id}"
        self._files = files
        self._source = source
        self._per_file = entries_per_file
        self._opened: OrderedDict[int, Postings] = OrderedDict()
        self._verified: set[int] = set()
        self._present: set[int] | None = None  # file numbers; corrupted ones are removed when found
        self._complete_before = 0  # no file below this number is missing

    def build_next(self) -> bool:
        """Build one missing postings file (some 10 ms); False if none is missing or the disk has no room for now.
        Raises CorruptedError if the consume queue cannot be read, OSError if the disk fails."""
        present = self._on_disk()
        number = max(self._complete_before, -(-self._source.min_offset // self._per_file))
        while number in present:
            number += 1
        self._complete_before = number
        if (number + 1) * self._per_file > self._source.flushed_entries:
            return False
        entries = self._entries_of(number)
        path = self._path(number)
        try:
            self._files.remove(path)  # a corrupted one may be longer
            self._files.write(path, encode_postings(entries), 0)
        except OSError as error:
            if not is_want_of_room(error):
                raise
            self._files.remove(path)
            return False
        present.add(number)
        self._verified.add(number)
        return True

    def matching_offsets(
        self,
        wanted: HashSet,
        from_offset: int,
        limit: int,
        *,
        known: HashSet | None = None,
        budget: int | None = None,
    ) -> tuple[list[int], int]:
        """Return up to `limit` ascending offsets, from `from_offset` on, of visible entries that may match.

        The second figure is the offset up to which all were looked at: go on from there. With `known`, hashes not in it
        are candidates too (`SubTopicDictionary.known_hashes`). An entry without a sub-topic has the hash 0, and no name
        has that. It is found if 0 is in `wanted`, as it should be where the topic's own name matches. `budget` bounds
        the time, as entries that may be scanned (at some 300 M/s); it is exceeded by at most one file. Raises
        CorruptedError if the consume queue cannot be read, OSError if the disk fails.
        """
        offset = max(from_offset, self._source.min_offset)
        found: list[int] = []
        cost = 0
        if limit <= 0:
            return found, offset
        if not len(wanted) and known is None:
            return found, max(offset, self._source.visible_offset)
        for offsets, step_end, step_cost in self._steps(wanted, known, offset):
            found += offsets.tolist()
            offset = step_end
            cost += step_cost
            if len(found) >= limit:
                del found[limit:]
                return found, found[-1] + 1
            if budget is not None and cost >= budget:
                break
        return found, offset

    def drop_before(self, offset: int) -> None:
        """Remove the postings of files that end at or before an offset: their consume-queue files go too."""
        first_kept = offset // self._per_file
        for name in self._files.disk.names(self.directory):
            if name.isdigit() and int(name) // (self._per_file * ENTRY_SIZE) < first_kept:
                self._files.remove(f"{self.directory}/{name}")
        for number in [n for n in self._on_disk() if n < first_kept]:
            self._forget(number)
        self._complete_before = max(self._complete_before, first_kept)

    def reset(self) -> None:
        """Remove all postings: the queue is rebuilt, or its topic is new."""
        self._files.remove(self.directory)
        self._opened.clear()
        self._verified.clear()
        self._present = None
        self._complete_before = 0

    def _steps(self, wanted: HashSet, known: HashSet | None, offset: int) -> Iterator[tuple[Positions, int, int]]:
        """Yield steps up to the visible end: (positions found, end of the step, cost)."""
        end = self._source.visible_offset
        by_lookup = known is None and len(wanted) <= LOOKUP_HASHES
        chunk = FIRST_CHUNK
        scan_before = 0
        while offset < end:
            number, within = divmod(offset, self._per_file)
            file_end = (number + 1) * self._per_file
            if by_lookup and offset >= scan_before and file_end <= self._source.flushed_entries:
                cost = LOOKUP_COST * len(wanted) + (0 if number in self._verified else self._per_file)
                positions = self._look_up(number, wanted)
                if positions is not None:
                    offset = file_end
                    yield positions[positions.searchsorted(within) :] + number * self._per_file, offset, cost
                    continue
                scan_before = file_end
            count = min(chunk, (file_end if by_lookup else end) - offset, end - offset)
            entries = self._source.raw(offset, count)
            if not entries:
                return
            positions = scan(entries, wanted, known) + offset
            offset += len(entries) // ENTRY_SIZE
            chunk = min(2 * chunk, LARGEST_CHUNK)
            yield positions, offset, count

    def _look_up(self, number: int, wanted: HashSet) -> Positions | None:
        """Return the ascending positions in a file, or None if it has to be scanned."""
        if number not in self._on_disk():
            return None
        found: list[NDArray[np.uint32]] = []
        try:
            postings = self._open(number)
            room = LOOKUP_POSITIONS
            for hash48 in wanted.hashes.tolist():
                positions = postings.positions(hash48, room)
                if positions is None:
                    return None
                if positions.size:
                    room -= positions.size
                    found.append(positions)
        except CorruptedError:
            self._forget(number)  # `build_next` makes it anew
            return None
        if not found:
            return np.empty(0, np.int64)
        if len(found) == 1:
            return found[0].astype(np.int64)
        merged = np.concatenate(found).astype(np.int64)
        merged.sort()
        return merged

    def _open(self, number: int) -> Postings:
        postings = self._opened.get(number)
        if postings is not None:
            self._opened.move_to_end(number)
            return postings
        path = self._path(number)
        if not self._files.exists(path):
            raise CorruptedError("a postings file is missing")
        if number not in self._verified:
            data = self._files.read(path, longest_postings(self._per_file) + 1, 0)
            if not are_postings_of(data, self._entries_of(number)):
                raise CorruptedError("a postings file is corrupted, or of another consume-queue file")
            self._verified.add(number)
        postings = Postings(self._files, path, self._per_file)
        if len(self._opened) >= OPEN_POSTINGS:
            self._opened.popitem(last=False)
        self._opened[number] = postings
        return postings

    def _entries_of(self, number: int) -> bytes:
        """Return a full file's bytes. Raises CorruptedError if there are fewer."""
        entries = self._source.raw(number * self._per_file, self._per_file)
        if len(entries) != self._per_file * ENTRY_SIZE:
            raise CorruptedError(f"the consume queue {self._source.topic}/{self._source.queue_id} is cut short")
        return bytes(entries)

    def _forget(self, number: int) -> None:
        self._opened.pop(number, None)
        self._verified.discard(number)
        self._on_disk().discard(number)
        self._complete_before = min(self._complete_before, number)

    def _on_disk(self) -> set[int]:
        if self._present is None:
            names = (int(name) for name in self._files.disk.names(self.directory) if name.isdigit())
            self._present = {name // (self._per_file * ENTRY_SIZE) for name in names}
        return self._present

    def _path(self, number: int) -> str:
        return f"{self.directory}/{number * self._per_file * ENTRY_SIZE:020d}"
