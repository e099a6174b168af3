"""LogBeginning: the start of the commit log after the removals of retention.

A log that begins later has lost records, which nobody else would notice: every record that is left is whole.

Row `b`: u64 commit-log offset. A record of its own states it before a segment is deleted (`restatement.py`), so that
the log alone suffices to know it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.broker.retention.restatement import Row, encode_rows
from entrepot.broker.rows.changed_rows import ChangedRows

BEGINNING_KEY: Final = b"b"


def removal_until(offset: int) -> bytes:
    """Return the payload of the record that announces the removal of everything before an offset."""
    return encode_rows([(BEGINNING_KEY, offset.to_bytes(8, "big"))])


class LogBeginning:
    """The start of the log. `offset`: retention removed nothing from here on. `stated`: its last statement."""

    def __init__(self, rows: ChangedRows, offset: int) -> None:
        self.offset = offset
        self.stated = 0
        self.is_changed = False
        self._rows = rows

    def row(self, as_of: int) -> bytes:
        return self.offset.to_bytes(8, "big")

    def restore(self, key: bytes, row: bytes) -> None:
        """Restore the offset from the row of the state file."""
        self.offset = max(self.offset, int.from_bytes(row, "big"))

    def stale_rows(self, before: int, as_of: int) -> Iterator[Row]:
        if self.offset and self.stated < before:
            yield BEGINNING_KEY, self.row(as_of)

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        self.restore(key, row)
        self.stated = commit_log_offset
        self._rows.mark(BEGINNING_KEY, self, commit_log_offset)
