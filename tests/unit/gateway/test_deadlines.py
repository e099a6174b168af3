"""The wheel of deadlines, on a loop whose time the test sets."""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Callable
from typing import Any, cast

import structlog

from entrepot.gateway.transport.deadlines import FARTHEST_TICKS, TICK_SECONDS, DeadlineWheel
from entrepot.protocols.amqp.heartbeats import MISSED, Heartbeats
from tests.support.cases import cases

LATE_SECONDS = 1e-6
"""By how much a timer is late; none is early."""


class Timer:
    """One that can be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """What the wheel asks of an event loop."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._count += 1
        heapq.heappush(self._timers, (self.now + delay, self._count, timer))
        return timer

    def run_until(self, end: float) -> None:
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            self.now = max(at + LATE_SECONDS, self.now)
            if timer.callback is not None:
                timer.callback()


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
    assert len(gaps) >= MISSED, silent.sent
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


class Waiting:
    """A connection with a deadline that its test moves; `asked`: when the deadline was asked for."""

    def __init__(self, loop: Loop, at: float) -> None:
        self._loop, self.at = loop, at
        self.asked: list[float] = []
        self.told: list[float] = []
        self.then: Callable[[], object] = lambda: None

    def deadline(self) -> float:
        self.asked.append(self._loop.now)
        return self.at

    def timed_out(self, now: float) -> None:
        self.told.append(now)
        self.at = float("inf")
        self.then()


def wheel_of(loop: Loop, *waiting: Waiting) -> DeadlineWheel:
    wheel = DeadlineWheel(cast(Any, loop))
    for each in waiting:
        wheel.add(each)
    return wheel


@cases("seconds", [0.0, 0.1, 0.25, 0.26, 1.0, 299.0, 301.0, 1000.0])
def test_a_deadline_is_met_within_a_tick_and_never_before(seconds: float) -> None:
    loop = Loop(7.1)
    waiting = Waiting(loop, 7.1 + seconds)
    wheel_of(loop, waiting)
    loop.run_until(2000.0)
    (told,) = waiting.told
    assert waiting.asked[-1] >= 7.1 + seconds
    assert 7.1 + seconds <= told <= 7.1 + seconds + 2 * TICK_SECONDS


def test_a_deadline_that_data_moved_is_looked_at_again() -> None:
    loop = Loop(0.0)
    waiting = Waiting(loop, 10.0)
    wheel_of(loop, waiting)
    loop.run_until(9.0)
    assert len(waiting.asked) == 1, "nobody looks before the time"
    waiting.at = 20.0
    loop.run_until(19.5)
    assert waiting.told == [] and len(waiting.asked) == 2
    loop.run_until(21.0)
    assert len(waiting.told) == 1


def test_one_without_a_deadline_is_looked_at_seldom() -> None:
    loop = Loop(0.0)
    waiting = Waiting(loop, float("inf"))
    wheel_of(loop, waiting)
    loop.run_until(3 * FARTHEST_TICKS * TICK_SECONDS + 1.0)
    assert [round(at / TICK_SECONDS) for at in waiting.asked[1:]] == [n * FARTHEST_TICKS for n in (1, 2, 3)]
    assert waiting.told == []


def test_who_is_taken_out_is_not_called() -> None:
    loop = Loop(0.0)
    waiting = Waiting(loop, 5.0)
    wheel = wheel_of(loop, waiting)
    wheel.remove(waiting)
    wheel.remove(waiting)
    loop.run_until(10.0)
    assert waiting.told == [] and len(waiting.asked) == 1


def test_who_is_taken_out_is_held_no_longer() -> None:
    """Its connection has buffers: they are not to wait for a deadline of minutes."""
    loop = Loop(0.0)
    waiting = Waiting(loop, 200.0)
    wheel = wheel_of(loop, waiting)
    held = weakref.ref(waiting)
    wheel.remove(waiting)
    del waiting
    assert held() is None


def test_who_is_taken_out_by_another_of_the_same_tick_is_not_called() -> None:
    loop = Loop(0.0)
    pair = [Waiting(loop, 5.0), Waiting(loop, 5.0)]
    wheel = wheel_of(loop, *pair)
    for one, other in (pair, pair[::-1]):
        one.then = lambda other=other: wheel.remove(other)  # type: ignore[misc]
    with structlog.testing.capture_logs() as logs:
        loop.run_until(10.0)
    assert logs == []
    assert sorted(len(each.told) for each in pair) == [0, 1]


def test_who_comes_again_in_the_same_tick_waits_for_its_next_deadline() -> None:
    loop = Loop(0.0)
    pair = [Waiting(loop, 5.0), Waiting(loop, 5.0)]
    wheel = wheel_of(loop, *pair)

    def anew(other: Waiting) -> None:
        wheel.remove(other)
        other.at, other.then = 8.0, lambda: None
        wheel.add(other)

    for one, other in (pair, pair[::-1]):
        one.then = lambda other=other: anew(other)  # type: ignore[misc]
    loop.run_until(7.5)
    assert sorted(len(each.told) for each in pair) == [0, 1]
    loop.run_until(9.0)
    assert sorted(len(each.told) for each in pair) == [1, 1]


def test_a_loop_that_was_late_misses_nobody() -> None:
    loop = Loop(0.0)
    waiting = [Waiting(loop, float(at)) for at in range(1, 9)]
    wheel_of(loop, *waiting)
    loop.now = 6.6  # somebody kept it busy
    loop.run_until(6.7)
    assert [len(each.told) for each in waiting] == [1] * 6 + [0] * 2
    loop.run_until(10.0)
    assert [len(each.told) for each in waiting] == [1] * 8


def test_one_that_fails_is_logged_and_the_others_are_called() -> None:
    loop = Loop(0.0)
    mute, failing = Waiting(loop, 5.0), Waiting(loop, 5.0)
    others = [Waiting(loop, 5.0) for _ in range(20)]
    wheel_of(loop, *others[:10], mute, failing, *others[10:])

    def fails(*_: object) -> float:
        raise RuntimeError("a fault of ours")

    failing.then = fails
    mute.deadline = fails  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as logs:
        loop.run_until(5.4)
    assert [len(each.told) for each in (failing, *others)] == [1] * 21
    assert [(entry["event"], entry["seldom"]) for entry in logs] == [
        ("a connection failed at its deadline", "deadline")
    ] * 2
    del mute.deadline  # type: ignore[attr-defined]
    loop.run_until(6.0)
    assert len(mute.told) == 1, "it is asked again"


def test_a_closed_wheel_turns_no_more() -> None:
    loop = Loop(0.0)
    waiting = Waiting(loop, 5.0)
    wheel = wheel_of(loop, waiting)
    loop.run_until(3.0)
    wheel.close()
    loop.run_until(10.0)
    assert waiting.told == []
