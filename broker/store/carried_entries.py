"""CarriedEntries: the entries of a queue's first messages, whose records were carried forward to the end of the log.

Few messages of an old segment may keep it, and with it all that was written since. So their records are written once
more (`broker.retention.carrying`). A message keeps its queue and its offset there; its entry alone leads to another
place. These entries are those of the queue's first offsets, one after the other. They stand before the others, which
remain in the order of the log.
"""

from __future__ import annotations

import struct

ENTRY_SIZE = 20
_OFFSET = struct.Struct(">Q")


class CarriedEntries:
    """The entries of the queue offsets from `begin` to `end`, exclusive; `data` has one after the other."""

    __slots__ = ("_data", "_least", "begin")

    def __init__(self, begin: int, data: bytes = b"") -> None:
        self.begin = begin
        self._data = bytearray(data)
        self._least: int | None = None

    @property
    def end(self) -> int:
        """Offset after the last of them."""
        return self.begin + len(self._data) // ENTRY_SIZE

    @property
    def data(self) -> bytes:
        """All entries."""
        return bytes(self._data)

    def put(self, queue_offset: int, entry: bytes) -> None:
        """Take the entry of a record that was carried forward.  Offsets go up, or are carried once more; where some are
        left out, retention has removed everything before."""
        self._least = None
        if self.begin <= queue_offset < self.end:
            at = (queue_offset - self.begin) * ENTRY_SIZE
            self._data[at : at + ENTRY_SIZE] = entry
            return
        if queue_offset != self.end:
            self.begin = queue_offset
            self._data.clear()
        self._data += entry

    def drop_before(self, queue_offset: int) -> None:
        """Forget the entries before an offset."""
        if queue_offset > self.begin:
            del self._data[: (queue_offset - self.begin) * ENTRY_SIZE]
            self.begin, self._least = queue_offset, None

    def raw(self, start: int, end: int) -> bytes:
        """Return the entries of a range of offsets, as far as they are here."""
        first = max(start, self.begin) - self.begin
        return bytes(self._data[first * ENTRY_SIZE : max(end - self.begin, first) * ENTRY_SIZE])

    def places(self) -> list[int]:
        """Return the commit-log offset of each."""
        return [_OFFSET.unpack_from(self._data, at)[0] for at in range(0, len(self._data), ENTRY_SIZE)]

    @property
    def least(self) -> int:
        """First commit-log offset of all."""
        if self._least is None:
            self._least = min(self.places())
        return self._least

    def end_before(self, commit_log_offset: int) -> int:
        """Return the offset after the last entry whose record lies before a commit-log offset; `begin` if none does."""
        if self.least >= commit_log_offset:
            return self.begin
        behind = [at for at, place in enumerate(self.places()) if place < commit_log_offset]
        return self.begin + behind[-1] + 1
