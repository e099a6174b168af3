"""ChangedRows: the rows of the state file that lag behind the commit log, each with the offset it lags from.

Each thing derived from the log (a queue, a window, a topic ...) is one row. A checkpoint takes a slice of the changed
rows at one moment, those longest behind first. It writes them once the log up to that moment is durable. So rows differ
in age. Recovery begins at the oldest record that some row lacks (`position`), and applies records again that other rows
already hold.

ADR 10: derived state as rows. Invariant, for every owner of rows: a record older than a row's state changes nothing
(`as_of`), and a record drops only things made before it (`since`).
"""

from __future__ import annotations

from typing import Final, Protocol

Change = tuple[bytes, bytes | None]
"""A row's key with its new value, or None where it is gone."""
MAX_SLICE_ROWS: Final = 1000
MAX_SLICE_BYTES: Final = 1 << 20
"""Limits of one slice, in rows and bytes: the event loop stands still while it is taken, encoded and handed over, for
some milliseconds.  A quarter of it costs an append to 2,000 topics a tenth of its throughput."""


class Saved(Protocol):
    """Something that is kept as a row."""

    is_changed: bool

    def row(self, as_of: int) -> bytes | None:
        """Return its state with all records before the commit-log offset `as_of`, or None if it is gone."""


class Gone:
    """A row to be removed."""

    is_changed = True

    def row(self, as_of: int) -> bytes | None:
        return None


class ChangedRows:
    """The changed rows, by key, in the order in which they fell behind."""

    def __init__(self) -> None:
        self._behind: dict[bytes, tuple[int, Saved]] = {}

    def __len__(self) -> int:
        return len(self._behind)

    def mark(self, key: bytes, saved: Saved, commit_log_offset: int) -> None:
        """Mark a row as lacking the record at this offset. A row marked before keeps its place."""
        saved.is_changed = True
        known = self._behind.get(key)
        self._behind[key] = (known[0] if known else commit_log_offset, saved)

    def drop(self, key: bytes, commit_log_offset: int) -> None:
        """Mark a row for removal."""
        self.mark(key, Gone(), commit_log_offset)

    def position(self, end: int) -> int:
        """Return the offset before which written rows, and those taken, hold everything. `end`: the end of the log."""
        return next(iter(self._behind.values()))[0] if self._behind else end

    def take(self, end: int) -> tuple[list[Change], dict[bytes, tuple[int, Saved]]]:
        """Return some changes, and the rows to `put_back` if they cannot be written. On OSError nothing is taken."""
        changes: list[Change] = []
        taken: dict[bytes, tuple[int, Saved]] = {}
        size = 0
        for key, (since, saved) in self._behind.items():
            value = saved.row(end)
            changes.append((key, value))
            taken[key] = (since, saved)
            size += len(key) + len(value or b"")
            if len(taken) >= MAX_SLICE_ROWS or size >= MAX_SLICE_BYTES:
                break
        for key, (_, saved) in taken.items():
            del self._behind[key]
            saved.is_changed = False
        return changes, taken

    def put_back(self, taken: dict[bytes, tuple[int, Saved]]) -> None:
        """Mark the rows as behind again, ahead of all others. A row that changed meanwhile keeps its newer state."""
        behind = {key: (since, self._behind.pop(key, (since, saved))[1]) for key, (since, saved) in taken.items()}
        for _, saved in behind.values():
            saved.is_changed = True
        self._behind = {**behind, **self._behind}
