"""The clock of a simulation: one heap of (time, number, event), and the trace of the last events.

Nothing else knows the true time: machines have drifting clocks.  Each concern has a `Random` of its own, so that
another fault leaves the rest as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

TRACE_LENGTH: Final = 80
MAX_TEXT: Final = 260


class Clock:
    """`now` in milliseconds.  `seed` decides all chances."""

    def __init__(self, seed: int) -> None:
        self.seed, self.now = seed, 0.0
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0
        self._trace: deque[tuple[float, str, Any]] = deque(maxlen=TRACE_LENGTH)

    def chance(self, concern: str) -> Random:
        """Random choices of one concern."""
        return Random(f"{self.seed}/{concern}")

    def after(self, delay: float, act: Callable[..., Any], *arguments: Any) -> None:
        """Have something happen later."""
        self._count += 1
        heappush(self._heap, (self.now + delay, self._count, act, arguments))

    def step(self) -> None:
        """The next event."""
        self.now, _, act, arguments = heappop(self._heap)
        act(*arguments)

    def run_until(self, end: float) -> None:
        while self._heap and self._heap[0][0] <= end:
            self.step()
        self.now = max(self.now, end)

    # -- trace ---------------------------------------------------------------------------------------------------

    def note(self, who: str, what: Any) -> None:
        """Remember an event.  `what` becomes text when it is shown: it does not change."""
        self._trace.append((self.now, who, what))

    def tail(self) -> list[str]:
        """The last events as lines."""
        return [f"{time:9.2f}  {who:12}  {str(what)[:MAX_TEXT]}" for time, who, what in self._trace]


class DriftingClock:
    """The clock of a machine, beside the true time `now`.  `offset` is set by whoever sets it; `drift`: its share."""

    def __init__(self, now: Callable[[], float], offset: float = 0.0, drift: float = 0.0) -> None:
        self.now, self.offset, self.drift = now, offset, drift

    def time(self) -> float:
        """Return the shown time."""
        return self.now() * (1 + self.drift) + self.offset
