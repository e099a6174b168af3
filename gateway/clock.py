"""The real clock.

It runs steadily, and follows the system's: where that is set, it runs a quarter faster or slower until both are one. So
a step makes no deadline come at once and no time stand still, and what NTP sets after the start is followed. A day is
caught up in four; a process that began years off is to be restarted. Retention, expiry, leases and timers may come by a
fifth too soon meanwhile, and an operator is told.

Where the cluster's clocks say that the system's is off, theirs are followed in its place, in the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.domain.clock import SAME, Comparison

MAX_SLEW: Final = 0.25
"""Greatest part by which the clock runs faster or slower than time passes."""
LOOK_SECONDS: Final = 1.0
"""Least time between two looks at the system's clock."""
LEAST_SECONDS: Final = 0.001
"""Least difference that is followed: smaller ones come from asking two clocks in turn."""


steady_seconds: Final = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds of a clock that nobody sets; where the system has it, one that goes on while the machine is suspended."""


class SystemClock:
    """Epoch milliseconds (`domain.clock.ComparedClock`). `wall`, `steady`: the system's clock, and one that nobody
    sets, in seconds."""

    __slots__ = ("_correction", "_looking", "_state", "_steady", "_wall", "comparison")

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = steady_seconds) -> None:
        self._wall, self._steady = wall, steady
        self._looking = threading.Lock()
        self._correction = 0.0
        self.comparison: Comparison = SAME
        self._state = wall(), steady(), 0.0
        """Time at the last look, when that was, and the error found then; one value, as threads ask, too."""

    def now_ms(self) -> int:
        state = base, looked, error = self._state
        passed = self._steady() - looked
        now = base + passed
        if error:
            most = MAX_SLEW * passed
            now += min(max(error, -most), most)
        if passed >= LOOK_SECONDS and self._looking.acquire(blocking=False):
            if self._state is state:  # else another thread has looked since, and later
                error = self._target() - now
                self._state = now, looked + passed, error if abs(error) >= LEAST_SECONDS else 0.0
            self._looking.release()
        return int(now * 1000)

    def _target(self) -> float:
        return self._wall() + self._correction

    @property
    def error_seconds(self) -> float:
        """Time by which the clock that is followed is ahead of this one; below 0 where it is behind."""
        return self._target() - self.now_ms() / 1000

    def system_ms(self) -> int:
        return int(1000 * self._wall())

    def compare(self, comparison: Comparison, *, at_once: bool = False) -> None:
        """Follow the cluster's clocks if the system's is certainly off. `at_once`: nothing was decided by it yet."""
        self.comparison = comparison
        self._correction = comparison.correction_ms / 1000
        if at_once:
            with self._looking:
                self._state = self._target(), self._steady(), 0.0
