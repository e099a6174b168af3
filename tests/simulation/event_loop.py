"""As much of asyncio's event loop on the simulation's clock as callbacks at a time need."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.simulation.clock import Clock


class EventLoop:
    """Of one process; once that has died, nothing of it comes any more.  `units`: time of the simulation that is a
    second here."""

    def __init__(self, clock: Clock, units: float) -> None:
        self._clock, self._units = clock, units
        self.is_dead = False

    def time(self) -> float:
        return self._clock.now / self._units

    def call_at(self, when: float, act: Callable[..., Any], *arguments: Any) -> SimpleNamespace:
        handle = SimpleNamespace(is_cancelled=False)
        handle.cancel = lambda: setattr(handle, "is_cancelled", True)

        def due() -> None:
            if not (self.is_dead or handle.is_cancelled):
                act(*arguments)

        self._clock.after(max(0.0, when * self._units - self._clock.now), due)
        return handle
