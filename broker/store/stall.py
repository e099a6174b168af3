"""Stall: the time for which an offset short of its goal has not moved. Pure."""

from __future__ import annotations


class Stall:
    """One offset. It is looked at now and then: the time counts from the first look that found it there."""

    def __init__(self) -> None:
        self._at, self._since = -1, 0.0

    def age(self, at: int, goal: int, now: float) -> float:
        """Return the seconds; 0.0 while it moves, or is at its goal."""
        if at >= goal or at != self._at:
            self._at, self._since = at, now
        return now - self._since
