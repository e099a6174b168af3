"""EpochTable: the starts of masters, from the EPOCH records of the log.

Row `e` has all of them (`domain.replication.epochs`). A store that never had replicas has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.replication.epochs import (
    BEGINNING,
    MAX_EPOCHS,
    EpochStart,
    decode_starts,
    encode_starts,
    read_epoch,
)

EPOCHS_KEY: Final = b"e"


class EpochTable:
    """The masters' starts. `starts`: by rising offset, as far as the log is applied. `written`: on a replica, those
    that recovery met after that. `on_start` is told of each start as it is applied."""

    def __init__(self, rows: ChangedRows, on_start: Callable[[EpochStart], None]) -> None:
        self.starts: list[EpochStart] = []
        self.written: list[EpochStart] = []
        self.stated = 0
        self.is_changed = False
        self._rows = rows
        self._on_start = on_start

    def history(self) -> tuple[EpochStart, ...]:
        """Return the starts of the whole log, with the beginning that precedes them."""
        known = [*self.starts, *self.written]
        return tuple(known) if known and known[0].start == 0 else (BEGINNING, *known)

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Take an EPOCH record."""
        start = read_epoch(payload, commit_log_offset)
        if self.starts and commit_log_offset <= self.starts[-1].start:
            return
        self.starts = [*self.starts, start][-MAX_EPOCHS:]
        self.written = [each for each in self.written if each.start > commit_log_offset]  # this one is applied now
        self.stated = commit_log_offset
        self._rows.mark(EPOCHS_KEY, self, commit_log_offset)
        self._on_start(start)

    def row(self, as_of: int) -> bytes:
        return encode_starts(self.starts)

    def restore(self, key: bytes, row: bytes) -> None:
        """Take the row of the state file."""
        self.starts = decode_starts(row)
        for start in self.starts[-1:]:
            self.stated = start.start
            self._on_start(start)

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes]]:
        if self.starts and self.stated < before:
            yield EPOCHS_KEY, self.row(as_of)

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        """Add the starts not known yet, which are from before the log begins."""
        known = {start.name for start in self.starts}
        lacking = [start for start in decode_starts(row) if start.name not in known]
        self.stated = commit_log_offset
        if lacking:
            self.starts = sorted([*self.starts, *lacking], key=lambda start: start.start)[-MAX_EPOCHS:]
            self._rows.mark(EPOCHS_KEY, self, commit_log_offset)
            self._on_start(self.starts[-1])
