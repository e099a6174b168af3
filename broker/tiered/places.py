"""Places: where the offsets of each queue of a table are, in little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from entrepot.broker.tiered.segment import Run


class Place(NamedTuple):
    """A run of a queue, and its object. A hole has no `rows`."""

    first: int
    next_offset: int
    path: str
    rows: int


class _Queue:
    """The runs of one queue in order of their first offsets; a column for each value."""

    __slots__ = ("ends", "firsts", "newest_ms", "paths", "rows")

    def __init__(self) -> None:
        self.firsts, self.ends, self.rows, self.newest_ms = array("q"), array("q"), array("q"), array("q")
        self.paths: list[str] = []

    def add(self, run: Run, path: str) -> None:
        at = bisect_right(self.firsts, run.first)
        self.firsts.insert(at, run.first)
        self.ends.insert(at, run.next_offset)
        self.rows.insert(at, run.rows)
        self.newest_ms.insert(at, run.times[1])
        self.paths.insert(at, path)

    def remove(self, run: Run, path: str) -> None:
        at = bisect_left(self.firsts, run.first)
        while self.paths[at] != path or self.firsts[at] != run.first or self.ends[at] != run.next_offset:
            at += 1
        for column in (self.firsts, self.ends, self.rows, self.newest_ms, self.paths):
            del column[at]

    def place(self, at: int) -> Place:
        return Place(self.firsts[at], self.ends[at], self.paths[at], self.rows[at])


class Places:
    """The runs of all queues of a table. Not for several threads at once."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self.missing = 0
        """Offsets without a row, of all runs."""

    def add(self, runs: Iterable[Run], path: str) -> None:
        """Add the runs of a segment."""
        for run in runs:
            self._queues.setdefault(run.queue_id, _Queue()).add(run, path)
            self.missing += run.next_offset - run.first - run.rows

    def remove(self, runs: Iterable[Run], path: str) -> None:
        """Remove the runs of a segment, which are there."""
        for run in runs:
            self._queues[run.queue_id].remove(run, path)
            self.missing -= run.next_offset - run.first - run.rows

    def around(self, queue_id: int, offset: int) -> tuple[Place | None, Place | None]:
        """Return the last run that begins at an offset or before it, and the one after that."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return None, None
        at = bisect_right(queue.firsts, offset)
        return queue.place(at - 1) if at else None, queue.place(at) if at < len(queue.paths) else None

    def within(self, queue_id: int, first: int, end: int) -> list[Place]:
        """Return the runs in a range of offsets, in order."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return []
        found: list[Place] = []
        for at in range(max(bisect_right(queue.firsts, first) - 1, 0), len(queue.paths)):
            if queue.firsts[at] >= end:
                break
            if queue.ends[at] > first:
                found.append(queue.place(at))
        return found

    def all(self, queue_id: int) -> Iterator[Place]:
        """Yield the runs of a queue, in order."""
        queue = self._queues.get(queue_id)
        return iter(()) if queue is None else map(queue.place, range(len(queue.paths)))

    def first_since(self, queue_id: int, time_ms: int) -> int | None:
        """Return the first offset of the first run with a message stored at a time or later; None: all are older."""
        queue = self._queues.get(queue_id)
        if queue is None:
            return None
        return next(
            (first for first, newest in zip(queue.firsts, queue.newest_ms, strict=True) if newest >= time_ms), None
        )
