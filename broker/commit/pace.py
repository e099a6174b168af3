"""CommitPace: the time to gather before the next sync starts.

A sync costs two system calls, two wakings of another process and a pass of the event loop, for any number of messages.
While the loop has time to spare, nobody loses by that. Where it has none, every sync takes time from the messages
waiting in its sockets. Then gathering a little makes all of them earlier.

Invariant: a lone producer that waits for each answer, on a loop that is not busy, never waits longer.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Final

BUSY_LINGER_SECONDS: Final = 0.002
"""Shortest time between the starts of two syncs while the loop is busy, in seconds."""
BUSY_SHARE: Final = 0.7
"""Share of the time since the last sync's start spent computing, from which the loop counts as busy. The rest is not
all idle: others have the processor, too."""
_WEIGHT: Final = 0.2
"""Weight of the newest share in the running mean."""


class CommitPace:
    """The pace of one loop. `linger_seconds`: shortest time between two starts while the last sync confirmed more than
    one answer. `wall` and `cpu` are clocks in seconds; `cpu` counts this thread's computing."""

    def __init__(
        self, linger_seconds: float, wall: Callable[[], float] = perf_counter, cpu: Callable[[], float] = thread_time
    ) -> None:
        self._linger = linger_seconds
        self._wall, self._cpu = wall, cpu
        self._started_at, self._computed = wall(), cpu()
        self._busy = 0.0
        self.last_confirmed = 0
        """Answers that the last sync confirmed."""

    def start(self) -> None:
        """Note that a sync starts."""
        now, computed = self._wall(), self._cpu()
        if now > self._started_at:
            share = (computed - self._computed) / (now - self._started_at)
            self._busy += _WEIGHT * (share - self._busy)
        self._started_at, self._computed = now, computed

    @property
    def is_busy(self) -> bool:
        """True if the loop has no time to spare."""
        return self._busy >= BUSY_SHARE

    def seconds_left(self) -> float:
        """Return the rest of the next sync's wait; 0 for none."""
        if self.is_busy:
            linger = max(self._linger, BUSY_LINGER_SECONDS)
        elif self.last_confirmed > 1:
            linger = self._linger
        else:
            return 0.0
        return max(self._started_at + linger - self._wall(), 0.0)
