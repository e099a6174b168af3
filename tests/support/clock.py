"""A clock that stands still until it is told to move."""

from __future__ import annotations


class ManualClock:
    """Implements `domain.clock.Clock`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms
