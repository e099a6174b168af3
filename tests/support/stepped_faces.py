"""The faces of a broker without an event loop: what they would wait for is left to whoever steps the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

from broker.broker import Broker
from broker.consume.long_polling import LongPolling
from broker.measurements import Measurements
from broker.opening import OpenedStore
from broker.retention.watermarks import DiskState
from broker.settings import BrokerSettings
from domain.clock import Clock
from domain.confirmation import Confirmation

T = TypeVar("T")


class _NoWaiting:
    """In place of the group commit: every wait is over at once."""

    def __init__(self) -> None:
        self.submitted: list[Confirmation] = []

    def submit(self, confirmation: Confirmation, answers: int = 1, taken_at: float = 0.0) -> Confirmation:
        self.submitted.append(confirmation)
        return confirmation

    async def wait(self) -> None:
        pass


class _StandingLoop:
    def time(self) -> float:
        return 0.0


class SteppedFaces(Broker):
    """Decides and appends as a broker does; answers do not wait for durability."""

    def __init__(self, settings: BrokerSettings, clock: Clock, opened: OpenedStore) -> None:
        self.settings, self.clock = settings, clock
        self.engine, self.registry, self.key_values = opened.engine, opened.registry, opened.key_values
        self.consumption = opened.consumption
        self._queues, self._constrained = self.engine.dispatcher.queues, self.registry.constrained
        self._max_message_bytes = settings.max_message_bytes
        self.tracer = opened.consumption.tracer
        self.measured = Measurements()
        self.polling = LongPolling()
        self._unanswered = Counter()
        self.loop: Any = _StandingLoop()
        self.topic_watchers = []
        self.disk_state = DiskState.FINE
        self.commit: Any = _NoWaiting()


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what only ever yields its turn; returns its result, or raises."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as result:
            return result.value  # type: ignore[no-any-return]
