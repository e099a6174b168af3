"""Restatement: what old records of the log say and is still true, said again, so that the old records can go.

The log alone must be enough to derive everything.  Before its first segment is deleted, every row whose last complete
record lies there is written once more: a record of rows, as the state file has them (msgpack: [[key, row], ...]).
Where it is dispatched and the thing is known, it changes nothing; where nothing is known (the state file was lost), it
is how the thing comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

Row = tuple[bytes, bytes]
RECORD_BYTES: Final = 256 << 10
"""Rows of one record, at most: the event loop stands still while it is made."""
encode_rows: Final = msgspec.msgpack.Encoder().encode
"""The payload of a record of rows."""
decode_rows: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode
"""The rows of a record's payload."""


class Restated(Protocol):
    """Something whose rows can be said again."""

    def stale_rows(self, before: int, as_of: int) -> Iterator[Row]:
        """Rows of what was last said completely in a record before an offset.  Must bear changes between two steps."""
        ...

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        """A record at an offset says the row: remember that, and take it if nothing is known of the thing."""
        ...


class Restatements:
    """All of them, by the first byte of their rows' keys."""

    def __init__(self, owners: Mapping[bytes, Restated]) -> None:
        self._owners = owners

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        for key, row in decode_rows(payload):
            owner = self._owners.get(key[:1])
            if owner is not None:
                owner.restate(key, row, commit_log_offset)

    def say_again(self, before: int, end: Callable[[], int], append: Callable[[bytes], None]) -> Iterator[None]:
        """Append records of all that is stale, a record a step.  `end`: of the log."""
        rows: list[Row] = []
        size = 0
        for owner in dict.fromkeys(self._owners.values()):
            for row in owner.stale_rows(before, end()):
                rows.append(row)
                size += len(row[0]) + len(row[1])
                if size >= RECORD_BYTES or len(rows) >= 1000:
                    append(encode_rows(rows))
                    rows, size = [], 0
                    yield
        if rows:
            append(encode_rows(rows))
