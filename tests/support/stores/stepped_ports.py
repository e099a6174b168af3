"""The ports of a broker without an event loop: what they would wait for is left to whoever steps the store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from entrepot.broker.commit.decision_step import Decision
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.ports.consumption import Consumption
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.finder import Finder
from entrepot.broker.ports.key_values import KeyValues
from entrepot.broker.ports.messages import Messages
from entrepot.broker.ports.timers import Timers
from entrepot.broker.ports.topology import Topology
from entrepot.broker.ports.transactions import Transactions
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation

T = TypeVar("T")


class _NoWaiting:
    """In place of the group commit: every wait is over at once."""

    def __init__(self, core: BrokerCore) -> None:
        self.submitted: list[Confirmation] = []
        self._core = core

    def submit(
        self, confirmation: Confirmation, answers: int = 1, taken_at: float = 0.0, *, here: bool = False
    ) -> Confirmation:
        self.submitted.append(confirmation)
        return confirmation

    async def wait(self) -> None:
        pass

    def decide(self, decision: Decision, *, may_wait: bool = False) -> None:
        """A step of its own, and the write behind it: what it claimed can be read, as if it were durable."""
        self._core.step.add(decision)
        for confirmation in self._core.step.run():
            self._core.engine.commit_log.write()
            confirmation.settle()

    def when_relieved(self, callback: Callable[[], None]) -> None:
        callback()


class _StandingLoop:
    def time(self) -> float:
        return 0.0


class SteppedPorts:
    """Decide and append as a broker's do; answers do not wait for durability."""

    def __init__(self, settings: BrokerSettings, clock: Clock, opened: OpenedStore) -> None:
        loop: Any = _StandingLoop()
        self.core = core = BrokerCore(settings, clock, opened, loop)
        commit: Any = _NoWaiting(core)
        core.commit = commit
        self.messages = Messages(core)
        self.consumption = Consumption(core)
        self.topology = Topology(core, self.consumption)
        self.key_values = KeyValues(core)
        self.finder = Finder(core)
        self.timers = Timers(core)
        self.transactions = Transactions(core, self.messages, self.timers)


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what only ever yields its turn; returns its result, or raises."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as result:
            return result.value  # type: ignore[no-any-return]
