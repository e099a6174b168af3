"""LogBeginning: where the commit log begins as far as retention has removed what was before.

A log that begins later has lost something, which nobody else would notice: every record that is left is whole.

Row `b`: u64 commit-log offset.  It is said in a record of its own before a segment is deleted (`restatement.py`), so
that it is known from the log alone, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.retention.restatement import Row, encode_rows
from broker.store.changed_rows import ChangedRows

BEGINNING_KEY: Final = b"b"


def removal_until(offset: int) -> bytes:
    """The payload of the record that says that retention removes what is before an offset."""
    return encode_rows([(BEGINNING_KEY, offset.to_bytes(8, "big"))])


class LogBeginning:
    """`offset`: no retention has removed what is at it, or behind it.  `stated`: where a record said so last."""

    def __init__(self, rows: ChangedRows, offset: int) -> None:
        self.offset = offset
        self.stated = 0
        self.is_changed = False
        self._rows = rows

    def row(self, as_of: int) -> bytes:
        return self.offset.to_bytes(8, "big")

    def restore(self, key: bytes, row: bytes) -> None:
        """Take the row of the state file."""
        self.offset = max(self.offset, int.from_bytes(row, "big"))

    def stale_rows(self, before: int, as_of: int) -> Iterator[Row]:
        if self.offset and self.stated < before:
            yield BEGINNING_KEY, self.row(as_of)

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        self.restore(key, row)
        self.stated = commit_log_offset
        self._rows.mark(BEGINNING_KEY, self, commit_log_offset)
