"""Stall: the time for which an offset short of its goal has not moved. Pure."""

from __future__ import annotations


class Stall:
    """One offset. It is looked at now and then: the time counts from the first look that found it short of its goal."""

    def __init__(self) -> None:
        self._at = -1
        self._since: float | None = None

    def age(self, at: int, goal: int, now: float) -> float:
        """Return the seconds; 0.0 while it moves, or is at its goal."""
        if at >= goal or at != self._at:
            self._at, self._since = at, None if at >= goal else now
        elif self._since is None:
            self._since = now
        return 0.0 if self._since is None else now - self._since
