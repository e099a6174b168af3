"""Measurement: durations, counted in fixed buckets."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
"""Upper bounds of the buckets, inclusive, in seconds; one more bucket holds longer durations."""


class Histogram:
    """Durations by bucket (`counts`, one more than there are `BOUNDS`) and their sum.  For one thread."""

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total_seconds = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Record `count` operations of this duration each."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.total_seconds += seconds * count

    def add(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total_seconds += other.total_seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Return (upper bound, count of durations up to it) per bucket, the last one with infinity."""
        found, total = [], 0
        for bound, count in zip((*BOUNDS, float("inf")), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found
