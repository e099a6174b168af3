"""An event loop whose time passes when nobody has anything to do: hours of timers in a moment."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
START_SECONDS = 1_000_000.0


class _NoWaiting(selectors.DefaultSelector):
    """What would wait for the next timer goes there at once."""

    now = START_SECONDS

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits, and no timer runs")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Also a clock (`domain.clock.Clock`) of the same time."""

    def __init__(self) -> None:
        self._waiting = _NoWaiting()
        super().__init__(self._waiting)

    def time(self) -> float:
        return self._waiting.now

    def now_ms(self) -> int:
        return round(self._waiting.now * 1000)


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run it on such a loop to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
