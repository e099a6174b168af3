"""Progress: a group's state of the messages of one queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Entry:
    """A group's state of one message."""

    attempt: int = 0
    """Deliveries so far that count."""
    deadline_ms: int = 0
    handle: str = ""
    is_settled: bool = False
    is_uncounted: bool = False
    """True if the last delivery was suspended, and is no attempt."""

    def deliver(self, handle: str, deadline_ms: int) -> None:
        """Note a delivery to a consumer."""
        self.attempt += 1
        self.handle, self.deadline_ms, self.is_uncounted = handle, deadline_ms, False

    def uncount(self) -> None:
        """Do not count the last delivery."""
        if not self.is_uncounted:
            self.attempt, self.is_uncounted = self.attempt - 1, True

    def is_in_flight(self, now_ms: int) -> bool:
        """True while a consumer holds it: not settled, not given back, within its invisible time."""
        return bool(self.handle) and not self.is_settled and self.deadline_ms > now_ms


class GroupQueue:
    """A group on one queue: its start, and one entry per message it has met.  `frontier` is behind the last message
    that was delivered or skipped."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.frontier = start
        self.entries: dict[int, Entry] = {}
        self._committed = start

    @property
    def committed(self) -> int:
        """Offset before which everything is settled."""
        while (entry := self.entries.get(self._committed)) is not None and entry.is_settled:
            self._committed += 1
        return self._committed

    def lag(self, end: int) -> int:
        """Return the number of unsettled messages up to `end`."""
        return end - self.start - sum(entry.is_settled for entry in self.entries.values())

    def in_flight(self, now_ms: int) -> int:
        return sum(entry.is_in_flight(now_ms) for entry in self.entries.values())
