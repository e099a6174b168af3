"""QueueRow: the row of a consume queue in the state file.

Big-endian: as-of offset (8), since (8), min offset (8), flushed end (8), number of files (4), their crc32c (4 each, of
their entries so far).  With the highest bit of the number of files: first offset (8) and number (4) of carried entries,
and these.  Then the tail's entries.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from entrepot.broker.store.carried_entries import ENTRY_SIZE, CarriedEntries

_HEAD: Final = struct.Struct(">QQQQI")
_CARRIED: Final = struct.Struct(">QI")
_HAS_CARRIED: Final = 1 << 31


class QueueRow(NamedTuple):
    """A row.  `checksums`: of the files, by their order; `tail`: entries that are in no file."""

    as_of: int
    since: int
    min_offset: int
    flushed_entries: int
    checksums: Sequence[int] = ()
    carried: CarriedEntries | None = None
    tail: bytes | bytearray = b""

    def encode(self) -> bytes:
        """Return the row's bytes."""
        sums = array("I", self.checksums)
        sums.byteswap()
        files, carried = len(sums), b""
        if self.carried is not None:
            data = self.carried.data
            carried = _CARRIED.pack(self.carried.begin, len(data) // ENTRY_SIZE) + data
            files |= _HAS_CARRIED
        head = _HEAD.pack(self.as_of, self.since, self.min_offset, self.flushed_entries, files)
        return b"".join((head, sums.tobytes(), carried, self.tail))

    @classmethod
    def decode(cls, row: bytes) -> QueueRow:
        """Read a row."""
        as_of, since, min_offset, flushed_entries, files = _HEAD.unpack_from(row)
        count, carried = files & ~_HAS_CARRIED, None
        sums, at = struct.unpack_from(f">{count}I", row, _HEAD.size), _HEAD.size + 4 * count
        if files & _HAS_CARRIED:
            begin, number = _CARRIED.unpack_from(row, at)
            at += _CARRIED.size
            carried = CarriedEntries(begin, row[at : at + number * ENTRY_SIZE])
            at += number * ENTRY_SIZE
        return cls(as_of, since, min_offset, flushed_entries, sums, carried, bytearray(row[at:]))
