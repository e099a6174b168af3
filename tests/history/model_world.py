"""Clients of the model store at one time: calls that begin, take effect and end at moments of a seed, or are lost."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

from tests.history.model_store import ModelStore
from tests.history.operations import AnyOperation, Outcome

T = TypeVar("T")
MILLISECOND = 1_000_000
LOST, FAILED = 0.06, 0.03
"""Shares of calls whose answer is lost, and of those that never leave."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`perform`: takes effect at one moment, by the store's clock.  `note`: the operations of what became of it.

    `refused`: what is to happen in place of it where it fails.
    """

    perform: Callable[[int], T]
    note: Callable[[dict[str, Any], T | None], list[AnyOperation]]
    refused: Callable[[], None] = lambda: None


class Answer(NamedTuple):
    outcome: Outcome
    value: Any = None


Client = Generator["Call[Any] | float", Answer, None]
"""Yields calls, and pauses in milliseconds."""


class World:
    """`history`: what has ended.  `is_calm`: nothing is lost any more."""

    def __init__(self, store: ModelStore, chance: Random) -> None:
        self.store, self.chance = store, chance
        self.history: list[AnyOperation] = []
        self.is_calm = False
        self.now = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, delay_ms: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + int(delay_ms * MILLISECOND), next(self._number), act))

    def run(self) -> None:
        """Until nothing is to happen any more."""
        while self._due:
            self.now, _, act = heapq.heappop(self._due)
            act()

    @property
    def now_ms(self) -> int:
        return self.now // MILLISECOND

    def start(self, name: str, client: Client) -> None:
        self.at(self.chance.uniform(0, 5), lambda: self._go_on(name, client, None))

    def _go_on(self, name: str, client: Client, answer: Answer | None) -> None:
        try:
            wanted = next(client) if answer is None else client.send(answer)
        except StopIteration:
            return
        if isinstance(wanted, Call):
            self._begin(name, client, wanted)
        else:
            self.at(wanted, lambda: self._go_on(name, client, Answer(Outcome.OK)))

    def _begin(self, name: str, client: Client, call: Call[Any]) -> None:
        begun, begun_ms = self.now, self.now_ms
        fate = self.chance.random() + (1.0 if self.is_calm else 0.0)
        out, back = self.chance.expovariate(0.5), self.chance.expovariate(0.5)

        def end(outcome: Outcome, value: Any = None) -> None:
            times = {"client": name, "begun": begun, "ended": self.now, "begun_ms": begun_ms, "ended_ms": self.now_ms}
            self.history += call.note({**times, "outcome": outcome}, value)
            self._go_on(name, client, Answer(outcome, value))

        def perform() -> None:
            value = call.perform(self.now_ms)
            self.at(back, lambda: end(Outcome.OK, value))

        def fail() -> None:
            call.refused()
            end(Outcome.FAILED)

        if fate < LOST:
            self.at(out, lambda: end(Outcome.UNKNOWN))
            if self.chance.random() < 0.6:
                self.at(self.chance.expovariate(0.3), lambda: call.perform(self.now_ms))
        elif fate < LOST + FAILED:
            self.at(out, fail)
        else:
            self.at(out, perform)
