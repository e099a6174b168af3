"""The wheel of deadlines, on a loop whose time the test sets."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, cast

from entrepot.gateway.deadlines import TICK_SECONDS, DeadlineWheel
from entrepot.protocols.amqp.heartbeats import MISSED, Heartbeats
from tests.support.cases import cases

LATE_SECONDS = 1e-6
"""By how much a timer is late; none is early."""


class Loop:
    """What the wheel asks of an event loop."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + delay, len(self._timers), callback))

    def run_until(self, end: float) -> None:
        while self._timers and self._timers[0][0] <= end:
            at, _, callback = heapq.heappop(self._timers)
            self.now = at + LATE_SECONDS
            callback()


class Silent:
    """A connection on which nothing is said but heartbeats, and nothing heard."""

    def __init__(self, loop: Loop, interval: float) -> None:
        self._heartbeats = Heartbeats(loop.now)
        self._heartbeats.start(interval, loop.now)
        self._heartbeats.has_sent = True  # the answer to connection.open
        self.sent: list[float] = [loop.now]
        self.gone: list[float] = []

    def deadline(self) -> float:
        return float("inf") if self.gone else self._heartbeats.deadline()

    def timed_out(self, now: float) -> None:
        if now >= self._heartbeats.gone_at():
            self.gone.append(now)
        elif self._heartbeats.is_due(now):
            self.sent.append(now)


@cases("begins", [100.0, 100.1, 100.26, 100.499, 100.7, 100.99])
@cases("interval", [1, 2, 10, 60])
def test_a_heartbeat_goes_out_in_every_interval(begins: float, interval: int) -> None:
    """Within the tick: so a client that waits for two intervals is never the first to give up."""
    loop = Loop(begins)
    wheel = DeadlineWheel(cast(Any, loop))
    silent = Silent(loop, interval)
    wheel.add(cast(Any, silent))
    loop.run_until(begins + 10 * interval)
    gaps = [later - sooner for sooner, later in zip(silent.sent, silent.sent[1:], strict=False)]
    assert len(gaps) >= 2 * MISSED - 2, silent.sent
    assert max(gaps) <= interval + TICK_SECONDS + 0.01
    assert max(gaps[1:]) <= interval / 2 + TICK_SECONDS + 0.01, "who looks late does not put off what follows"
    (gone,) = silent.gone
    assert 0 <= gone - begins - MISSED * interval <= 2 * TICK_SECONDS


def test_a_far_deadline_is_met() -> None:
    loop = Loop(5.0)
    wheel = DeadlineWheel(cast(Any, loop))
    silent = Silent(loop, 0)
    asked: list[float] = []
    silent.deadline = lambda: 5000.0 if not asked else float("inf")  # type: ignore[method-assign]
    silent.timed_out = asked.append  # type: ignore[method-assign, assignment]
    wheel.add(cast(Any, silent))
    loop.run_until(6000.0)
    (at,) = asked
    assert 5000.0 <= at <= 5000.0 + 2 * TICK_SECONDS
