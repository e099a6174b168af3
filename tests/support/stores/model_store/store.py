"""The store, made of its parts."""

from __future__ import annotations

from entrepot.domain import ports
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.pin import Pin
from entrepot.domain.tiering import TierStatus
from tests.support.stores.model_store.consumption import Consumption
from tests.support.stores.model_store.finder import Finder
from tests.support.stores.model_store.key_values import KeyValues
from tests.support.stores.model_store.messages import Messages
from tests.support.stores.model_store.retry import Retry
from tests.support.stores.model_store.state import State
from tests.support.stores.model_store.timers import Timers
from tests.support.stores.model_store.topology import Topology
from tests.support.stores.model_store.transactions import Transactions


class MemoryStore:
    """Implements `domain.ports.Store`; each part is one of the ports."""

    def __init__(
        self,
        clock: Clock,
        *,
        max_message_bytes: int = 4 << 20,
        group_defaults: ConsumerGroup | None = None,
        hold_back_limit: int = 32_768,
        check_after_ms: int = 6_000,
        check_interval_ms: int = 30_000,
        max_checks: int = 15,
    ) -> None:
        state = State(clock)
        self._timers = Timers(state)
        messages = Messages(state, self._timers, max_message_bytes)
        topology = Topology(state, group_defaults or ConsumerGroup("defaults"))
        transactions = Transactions(
            state,
            messages,
            self._timers,
            check_after_ms=check_after_ms,
            check_interval_ms=check_interval_ms,
            max_checks=max_checks,
        )
        topology.on_topic_dropped += [self._timers.drop_topic, transactions.drop_topic]
        self.messages: ports.Messages = messages
        self.consumption: ports.Consumption = Consumption(state, topology, Retry(state, hold_back_limit))
        self.topology: ports.Topology = topology
        self.key_values: ports.KeyValues = KeyValues()
        self.finder: ports.MessageFinder = Finder(state)
        self.timers: ports.Timers = self._timers
        self.transactions: ports.Transactions = transactions
        self.condition: ports.Condition = _Condition(self._timers, transactions)

    async def close(self) -> None:
        self._timers.close()
        self.consumption.release_waiting()


class _Condition:
    """The condition of a store that never fails."""

    failure: EntrepotError | None = None

    def __init__(self, timers: Timers, transactions: Transactions) -> None:
        self._timers, self._transactions = timers, transactions
        self.damage: list[str] = []

    async def measurements(self) -> dict[str, Histogram]:
        return {}

    async def gauges(self) -> dict[str, float]:
        return {"timing_messages": self._timers.count, "half_messages": self._transactions.count}

    async def tiering(self) -> list[TierStatus]:
        return []

    async def pins(self) -> list[Pin]:
        return []
