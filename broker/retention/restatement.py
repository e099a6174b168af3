"""Restatement: facts from old records of the log that still hold, stated again so that the old records can go.

The log alone must be enough to derive everything. So before its first segment is deleted, every row whose last complete
record lies there is written once more. The record has rows as in the state file (msgpack: [[key, row], ...]). When
dispatched it changes nothing that is known. Where nothing is known (the state file was lost), it restores the thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

Row = tuple[bytes, bytes]
RECORD_BYTES: Final = 256 << 10
"""Most bytes of rows in one record: the event loop stands still while it is made."""
STEP_ROWS: Final = 1000
"""Most rows that one step looks at."""
encode_rows: Final = msgspec.msgpack.Encoder().encode
"""Encoder of the payload of a record of rows."""
decode_rows: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode
"""Decoder of the rows of a record's payload."""


class Restated(Protocol):
    """An owner of rows that can be stated again."""

    def stale_rows(self, before: int, as_of: int) -> Iterator[Row | None]:
        """Yield, for each of its rows, the row if the last complete record of it is before an offset, else None. Must
        allow changes between two steps."""

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        """Note that the record at an offset states the row, and take the row if nothing is known of it."""


class Restatements:
    """All owners, by the first byte of their rows' keys."""

    def __init__(self, owners: Mapping[bytes, Restated]) -> None:
        self._owners = owners

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        for key, row in decode_rows(payload):
            owner = self._owners.get(key[:1])
            if owner is not None:
                owner.restate(key, row, commit_log_offset)

    def say_again(self, before: int, end: Callable[[], int], append: Callable[[bytes], None]) -> Iterator[None]:
        """Append records of all stale rows; a step looks at some rows, and appends one record at most. `end`: the end
        of the log."""
        rows: list[Row] = []
        size = looked_at = 0
        for owner in dict.fromkeys(self._owners.values()):
            for row in owner.stale_rows(before, end()):
                looked_at += 1
                if row is not None:
                    rows.append(row)
                    size += len(row[0]) + len(row[1])
                if size >= RECORD_BYTES or looked_at >= STEP_ROWS:
                    if rows:
                        append(encode_rows(rows))
                    rows, size, looked_at = [], 0, 0
                    yield
        if rows:
            append(encode_rows(rows))
