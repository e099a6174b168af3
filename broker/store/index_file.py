"""IndexFile: commit-log offsets by key hash, as in RocketMQ: hash slots, and entries linked from newest to oldest.

A file (big-endian):

    offset  size
    0       4     magic  "ENIX"
    4       4     crc32c of the rest of the header
    8       4     version (1)
    12      4     slots: their number
    16      4     entry capacity
    20      4     entry count
    24      4     crc32c of the slot table; 0 while the file takes entries
    28      4     crc32c of the entries
    32      8     commit-log offset of the first entry
    40      8     commit-log offset of the last entry
    48      8     base time, epoch milliseconds: the store time of the first entry
    56      8     earliest store time, epoch milliseconds (a clock that was set back makes it differ from the base)
    64      8     latest store time, epoch milliseconds
    72            slot table: for each slot 4 bytes, the number of its newest entry; entries count from 1, 0 is none
    72+4*slots    entries, 20 bytes each, by rising commit-log offset:
                      4  key hash: crc32c of the key.  Its remainder by the number of slots is the slot
                      8  commit-log offset
                      4  seconds of the store time since the base time, held within the field's range
                      4  number of the previous entry of the slot, 0 at the end: always lower than the entry's own

While a file takes entries, its slot table is in memory only and its header only in the checkpoint. Both can be derived
from the entries, which are only ever appended. Sealing a full file writes both; nothing is written after that.

The header is also the file's row in the checkpoint, so the checkpoint decides how much of a file counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from entrepot.broker.store.open_files import OpenFiles
from entrepot.domain.errors import CorruptedError

VERSION: Final = 1
HEADER_SIZE: Final = 72
SLOT_SIZE: Final = 4
ENTRY_SIZE: Final = 20
WALKED_LINKS: Final = 1024
"""Most links followed in a search of a file; a longer chain is left to a scan of the entries as vectors."""
CHUNK_ENTRIES: Final = 65_536
"""Entries read at once where many are read."""

_MAGIC = b"ENIX"
_PREFIX = struct.Struct(">4sI")
_HEADER = struct.Struct(">IIIIIIQQqqq")
_SLOT = struct.Struct(">I")
_ENTRY = struct.Struct(">IQII")
_ENTRIES = np.dtype([("hash", ">u4"), ("offset", ">u8"), ("seconds", ">u4"), ("previous", ">u4")])
_MAX_SECONDS = 2**32 - 1
_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)

assert _PREFIX.size + _HEADER.size == HEADER_SIZE
assert _ENTRY.size == _ENTRIES.itemsize == ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """Sizes of new index files: hash slots, and entries after which the next file is begun."""

    slots: int = 500_000
    entries: int = 2_000_000

    def __post_init__(self) -> None:
        if not (0 < self.slots < 2**32 and 0 < self.entries < 2**32):
            raise ValueError("an index file has between 1 and 2^32 - 1 slots, and as many entries")


class IndexFile:
    """One file. It takes entries while it has a slot table in memory, and is sealed when full. Times are epoch
    milliseconds. `is_gone` is set on removal, so that a search under way ends."""

    def __init__(self, files: OpenFiles, number: int, layout: IndexLayout) -> None:
        """Begin a new file; nothing is on disk until `append`."""
        self.name = f"{number:020d}"
        self.path = f"{files.root}/index/{self.name}"
        self.layout = layout
        self.count = 0
        self.first_offset = self.last_offset = 0
        self.min_time_ms = self.max_time_ms = 0
        self.is_gone = False
        self._files = files
        self._base_time_ms = 0
        self._slots_checksum = self._entries_checksum = 0
        self._slots: NDArray[np.uint32] | None = np.zeros(layout.slots, np.uint32)
        self._is_sealed = False
        self._is_checked = False

    @classmethod
    def from_row(cls, files: OpenFiles, name: str, row: bytes) -> IndexFile:
        """Return the sealed file that a checkpoint row describes, without reading it. Raises CorruptedError."""
        if len(row) != HEADER_SIZE or not name.isdecimal():
            raise CorruptedError(f"the checkpoint's row of index file {name!r} cannot be read")
        magic, crc = _PREFIX.unpack_from(row)
        version, slots, capacity, count, *rest = _HEADER.unpack_from(row, _PREFIX.size)
        is_whole = magic == _MAGIC and crc == crc32c(row[_PREFIX.size :]) and version == VERSION
        if not (is_whole and slots and 0 < count <= capacity):
            raise CorruptedError(f"the checkpoint's row of index file {name} cannot be read")
        file = cls(files, int(name), IndexLayout(slots, capacity))
        file.count = count
        file._slots_checksum, file._entries_checksum, file.first_offset, file.last_offset, *times = rest
        file._base_time_ms, file.min_time_ms, file.max_time_ms = times
        file._slots, file._is_sealed = None, True
        return file

    def row(self) -> bytes:
        """Return the header as it would be written now: the checkpoint's row of the file."""
        covered = _HEADER.pack(
            VERSION,
            self.layout.slots,
            self.layout.entries,
            self.count,
            self._slots_checksum,
            self._entries_checksum,
            self.first_offset,
            self.last_offset,
            self._base_time_ms,
            self.min_time_ms,
            self.max_time_ms,
        )
        return _PREFIX.pack(_MAGIC, crc32c(covered)) + covered

    @property
    def room(self) -> int:
        """Entries that still fit."""
        return self.layout.entries - self.count

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, hashes: NDArray[np.uint32], offsets: NDArray[np.int64], times_ms: NDArray[np.int64]) -> None:
        """Write entries, at most as many as there is room for. On OSError the file is as before."""
        table = self._table()
        base = self._base_time_ms if self.count else int(times_ms[0])
        slots = hashes % np.uint32(self.layout.slots)
        entries = np.empty(len(hashes), _ENTRIES)
        entries["hash"] = hashes
        entries["offset"] = offsets
        entries["seconds"] = np.clip((times_ms - base) // 1000, 0, _MAX_SECONDS)
        entries["previous"] = _previous(table, slots, self.count + 1)
        data = entries.tobytes()
        self._files.write(self.path, data, self._place(self.count + 1))
        _link(table, slots, self.count + 1)
        earliest, latest = int(times_ms.min()), int(times_ms.max())
        if self.count:
            earliest, latest = min(earliest, self.min_time_ms), max(latest, self.max_time_ms)
        else:
            self.first_offset = int(offsets[0])
        self.last_offset = int(offsets[-1])
        self._base_time_ms, self.min_time_ms, self.max_time_ms = base, earliest, latest
        self._entries_checksum = crc32c_extend(self._entries_checksum, data)
        self.count += len(hashes)

    def seal(self) -> None:
        """Write slot table and header, and free the table. On OSError it can be tried again."""
        table = self._table().astype(">u4").tobytes()
        self._slots_checksum = crc32c(table)
        try:
            self._files.write(self.path, self.row() + table, 0)
        except OSError:
            self._slots_checksum = 0  # it still takes entries: its row must say so
            raise
        self._slots, self._is_sealed, self._is_checked = None, True, True

    def remove(self) -> None:
        """Remove the file; fine if it is not there."""
        self.is_gone = True
        self._files.remove(self.path)

    # -- opening and checking ----------------------------------------------------------------------------------

    def resume(self) -> None:
        """Make the last file of a checkpoint take entries again, if its entries match its row."""
        self._is_sealed, self._slots_checksum = False, 0
        table = np.zeros(self.layout.slots, np.uint32)
        number = 1
        for data in self._intact_entries():
            _link(table, _slots_of(data, self.layout), number)
            number += len(data) // ENTRY_SIZE
        self._slots = table if number > self.count else None

    def is_intact(self, *, every_byte: bool) -> bool:
        """True if the file matches its row. Of a sealed file only header and length are read, unless `every_byte`."""
        if not self._is_sealed:
            return self._slots is not None and (not every_byte or self._are_entries_intact())
        if not self._files.exists(self.path):  # reading would make it
            return False
        if self._files.read(self.path, HEADER_SIZE, 0) != self.row():
            return False
        if len(self._files.read(self.path, ENTRY_SIZE, self._place(self.count))) != ENTRY_SIZE:
            return False
        if not every_byte:
            return True
        table = self._files.read(self.path, self.layout.slots * SLOT_SIZE, HEADER_SIZE)
        return crc32c(table) == self._slots_checksum and self._are_entries_intact()

    def _are_entries_intact(self) -> bool:
        return sum(len(data) for data in self._intact_entries()) == self.count * ENTRY_SIZE

    def _intact_entries(self) -> Iterator[bytes]:
        """Yield all entries in chunks. Stops early where they fail the checksum, at the latest at the last chunk."""
        if not self._files.exists(self.path):
            return
        found, number = 0, 1
        while number <= self.count:
            count = min(CHUNK_ENTRIES, self.count + 1 - number)
            data = self._files.read(self.path, count * ENTRY_SIZE, self._place(number))
            found = crc32c_extend(found, data)
            number += count
            is_last = number > self.count
            if len(data) != count * ENTRY_SIZE or (is_last and found != self._entries_checksum):
                return
            yield data

    # -- searching ---------------------------------------------------------------------------------------------

    def candidates(self, hashed: int, below: int, from_ms: int, until_ms: int) -> Iterator[int]:
        """Yield commit-log offsets below `below` of entries with this key hash, newest first; one may come twice. Times
        are compared to the second: nothing is lost, and the caller does the rest. Raises CorruptedError."""
        is_outside = self.min_time_ms > until_ms or self.max_time_ms < from_ms or self.first_offset >= below
        if self.is_gone or is_outside:
            return
        if self._is_sealed and not self._is_checked:
            self._is_checked = self.is_intact(every_byte=True)
            if not self._is_checked:
                raise CorruptedError(f"the index file {self.path} is corrupted")
        # An entry at either end of its field may be from any time before or after.
        low = min((from_ms - self._base_time_ms) // 1000, _MAX_SECONDS)
        high = max((until_ms - self._base_time_ms) // 1000, 0)
        number = self._newest(hashed % self.layout.slots)
        for _ in range(WALKED_LINKS):
            if number == 0 or self.is_gone:
                return
            found, offset, seconds, previous = self._entry(number)
            if previous >= number:
                raise CorruptedError(f"entry {number} of the index file {self.path} leads to {previous}")
            if found == hashed and offset < below and low <= seconds <= high:
                yield offset
            number = previous
        yield from self._scanned(number, hashed, below, low, high)

    def _scanned(self, last: int, hashed: int, below: int, low: int, high: int) -> Iterator[int]:
        """As `candidates`, by looking at every entry up to `last`: the cost is the same for a chain of any length."""
        high = min(high, _MAX_SECONDS)
        while last > 0 and not self.is_gone:
            count = min(last, CHUNK_ENTRIES)
            last -= count
            entries = np.frombuffer(self._read(last + 1, count), _ENTRIES)
            found = entries[entries["hash"] == hashed]
            seconds = found["seconds"]
            found = found[(seconds >= max(low, 0)) & (seconds <= high)]
            offsets: list[int] = found["offset"].tolist()
            for offset in reversed(offsets):
                if offset < below:
                    yield offset

    def _newest(self, slot: int) -> int:
        if not self._is_sealed:
            return int(self._table()[slot])
        data = self._files.read(self.path, SLOT_SIZE, HEADER_SIZE + slot * SLOT_SIZE)
        if len(data) != SLOT_SIZE:
            raise CorruptedError(f"the index file {self.path} is cut short on disk")
        number: int = _SLOT.unpack(data)[0]
        return number

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        return _ENTRY.unpack(self._read(number, 1))

    def _read(self, number: int, count: int) -> bytes:
        data = b"" if number > self.count else self._files.read(self.path, count * ENTRY_SIZE, self._place(number))
        if len(data) != count * ENTRY_SIZE:
            raise CorruptedError(f"the index file {self.path} has no entry {number + count - 1}")
        return data

    def _table(self) -> NDArray[np.uint32]:
        if self._slots is None:
            raise CorruptedError(f"the index file {self.path} is corrupted")
        return self._slots

    def _place(self, number: int) -> int:
        return HEADER_SIZE + self.layout.slots * SLOT_SIZE + (number - 1) * ENTRY_SIZE


def _slots_of(entries: bytes, layout: IndexLayout) -> NDArray[np.uint32]:
    found: NDArray[Any] = np.frombuffer(entries, _ENTRIES)
    return found["hash"].astype(np.uint32) % np.uint32(layout.slots)


def _previous(table: NDArray[np.uint32], slots: NDArray[np.uint32], first_number: int) -> NDArray[np.uint32]:
    """Return for each new entry the one before it in its slot: in the table, or among the new ones themselves."""
    # Slot and place in one number: sorts without a key, several times faster than a stable argsort.
    ranked = slots.astype(np.uint64) << _HALF | np.arange(len(slots), dtype=np.uint64)
    ranked.sort()
    places = (ranked & _LOW_HALF).astype(np.uint32)
    ranked >>= _HALF
    follows = np.flatnonzero(ranked[1:] == ranked[:-1])
    previous = table[slots]
    previous[places[follows + 1]] = places[follows] + np.uint32(first_number)
    return previous


def _link(table: NDArray[np.uint32], slots: NDArray[np.uint32], first_number: int) -> None:
    """Point slots to their newest entry: of several for one slot, numpy keeps the last."""
    table[slots] = np.arange(first_number, first_number + len(slots), dtype=np.uint32)
