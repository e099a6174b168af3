"""ChangedRows: which rows of the state file are behind, and since where in the log.

Each thing that is derived from the log (a queue, a window, a topic ...) is one row.  A checkpoint takes some of the
changed ones, those longest behind first, at one moment, and writes them when the log up to that moment is durable.
Rows may so be of different ages: recovery begins at the oldest record that some row lacks (`position`) and applies
records again that others have already, hence the rule for all that keeps rows:

    a record older than a row's state changes nothing (`as_of`), and what is dropped by a record is what was made
    before it (`since`)
"""

from __future__ import annotations

from typing import Final, Protocol

from broker.store.state_file import Change

MAX_SLICE_ROWS: Final = 2000
MAX_SLICE_BYTES: Final = 8 << 20
"""Named limit: of one checkpoint, as the event loop stands still while it is encoded."""


class Saved(Protocol):
    """Something that is kept as a row."""

    is_changed: bool

    def row(self, as_of: int) -> bytes | None:
        """Its state, which has all records before the commit-log offset `as_of`; None if it is gone."""
        ...


class Gone:
    """A row that is to be removed."""

    is_changed = True

    def row(self, as_of: int) -> bytes | None:
        return None


class ChangedRows:
    """See the module.  Keys in the order in which they fell behind."""

    def __init__(self) -> None:
        self._behind: dict[bytes, tuple[int, Saved]] = {}

    def __len__(self) -> int:
        return len(self._behind)

    def mark(self, key: bytes, saved: Saved, commit_log_offset: int) -> None:
        """The row lacks the record at this offset.  What is marked already keeps its place."""
        saved.is_changed = True
        known = self._behind.get(key)
        self._behind[key] = (known[0] if known else commit_log_offset, saved)

    def drop(self, key: bytes, commit_log_offset: int) -> None:
        """The row is to go."""
        self.mark(key, Gone(), commit_log_offset)

    def position(self, end: int) -> int:
        """Everything before it is in rows that are written, once those taken are; `end`: of the log."""
        return next(iter(self._behind.values()))[0] if self._behind else end

    def take(self, end: int) -> tuple[list[Change], dict[bytes, tuple[int, Saved]]]:
        """Some changes, and what to `put_back` if they cannot be written.  May raise OSError; then nothing is taken."""
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
        """They are still behind, longer than all others; what has changed again meanwhile counts as it is now."""
        behind = {key: (since, self._behind.pop(key, (since, saved))[1]) for key, (since, saved) in taken.items()}
        for _, saved in behind.values():
            saved.is_changed = True
        self._behind = {**behind, **self._behind}
