"""When others hear that consumers of a queue wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from entrepot.gateway.amqp.feeds.hunger import FED_SECONDS, HUNGRY_SECONDS, Hunger


class Timer:
    """A timer of the loop below."""

    def __init__(self, due: float, call: Callable[[], object]) -> None:
        self.due, self.call = due, call

    def cancel(self) -> None:
        self.due = float("inf")


class Loop:
    """A loop whose time is told."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[Timer]()

    def call_later(self, seconds: float, call: Callable[..., object], *given: Any) -> Timer:
        self.timers.append(Timer(self.now + seconds, lambda: call(*given)))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due, self.timers = (
            [each for each in self.timers if each.due <= self.now],
            [each for each in self.timers if each.due > self.now],
        )
        for each in due:
            each.call()


class Told:
    def __init__(self) -> None:
        self.loop, self.told = Loop(), list[int | None]()
        loop: asyncio.AbstractEventLoop = self.loop  # type: ignore[assignment]
        self.hunger = Hunger(loop, self.told.append)

    def pop(self, seconds: float, priority: int = 10, *, is_enough: bool = True) -> None:
        """A pop that lasts so long."""
        self.hunger.waits(priority)
        self.loop.advance(seconds)
        self.hunger.has_come(priority, is_enough=is_enough)


def test_a_long_wait_is_told_once() -> None:
    on = Told()
    on.pop(HUNGRY_SECONDS / 2)
    on.loop.advance(1)
    assert on.told == []
    for _ in range(3):
        on.pop(2 * HUNGRY_SECONDS)
    assert on.told == [10]


def test_a_busy_consumer_is_fed_after_a_while() -> None:
    on = Told()
    on.pop(2 * HUNGRY_SECONDS)
    on.loop.advance(FED_SECONDS / 2)
    on.pop(2 * HUNGRY_SECONDS)
    assert on.told == [10], "it has waited in between"
    on.loop.advance(FED_SECONDS)
    assert on.told == [10, None]
    on.loop.advance(1)
    assert on.told == [10, None]


def test_pops_that_need_not_wait_feed() -> None:
    on = Told()
    on.pop(2 * HUNGRY_SECONDS)
    for _ in range(int(2 * FED_SECONDS / HUNGRY_SECONDS) + 1):
        on.pop(HUNGRY_SECONDS / 2)
    assert on.told == [10, None]


def test_a_pop_that_finds_too_little_is_told() -> None:
    on = Told()
    on.pop(0, is_enough=False)
    assert on.told == [10]
    on.loop.advance(FED_SECONDS / 2)
    on.pop(0, is_enough=False)
    on.loop.advance(FED_SECONDS / 2)
    assert on.told == [10]
    on.loop.advance(FED_SECONDS / 2)
    assert on.told == [10, None]


def test_another_priority_is_told_anew() -> None:
    on = Told()
    on.pop(2 * HUNGRY_SECONDS)
    on.pop(2 * HUNGRY_SECONDS, priority=5)
    assert on.told == [10, 5]


def test_a_closed_one_is_silent() -> None:
    on = Told()
    on.hunger.waits(10)
    on.hunger.close()
    on.loop.advance(1)
    assert on.told == []
