"""Reminders: the times when deliveries of a window may come back, by deadline.

A reminder stays until its time, whatever became of its messages: the reader checks them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush


class Reminders:
    """Batches of offsets by deadline."""

    __slots__ = ("_batches", "_timers")

    def __init__(self) -> None:
        self._timers: list[int] = []
        self._batches: dict[int, list[Sequence[int]]] = {}

    def add(self, deadline_ms: int, offsets: Sequence[int]) -> None:
        """Add a reminder of offsets at a time."""
        batches = self._batches.get(deadline_ms)
        if batches is None:
            self._batches[deadline_ms] = [offsets]
            heappush(self._timers, deadline_ms)
        else:
            batches.append(offsets)

    def next_ms(self) -> int | None:
        """Return the first time of all, or None."""
        return self._timers[0] if self._timers else None

    def take_due(self, now_ms: int) -> Iterator[tuple[int, Sequence[int]]]:
        """Take out each batch whose time has come: deadline and offsets."""
        while self._timers and self._timers[0] <= now_ms:
            deadline = heappop(self._timers)
            for offsets in self._batches.pop(deadline):
                yield deadline, offsets

    def clear(self) -> None:
        """Remove all."""
        self._timers.clear()
        self._batches.clear()
