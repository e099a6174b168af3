"""BrokerCore: the parts that all ports of a broker share.

ADR 39: a store is a record of its ports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from entrepot.broker.commit.decision_step import Decided, DecisionStep
from entrepot.broker.commit.group_commit import GroupCommit
from entrepot.broker.commit.measurements import Measurements
from entrepot.broker.consume.consumption import Consumption
from entrepot.broker.consume.long_polling import LongPolling
from entrepot.broker.metadata.key_values import KeyValueTable
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.ports.catalog import Catalog
from entrepot.broker.ports.thawing import Thawing
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.watermarks import DiskState
from entrepot.domain.clock import Clock
from entrepot.domain.names import is_retry_topic
from entrepot.domain.topic import Topic

T = TypeVar("T")


class BrokerCore(Catalog):
    """The parts of an opened store, and short names for them."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, opened: OpenedStore, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(opened.engine, opened.registry, opened.store_id)
        self.settings = settings
        self.clock, self.now_ms = clock, clock.now_ms
        self.key_values: KeyValueTable = opened.key_values
        self.consumption: Consumption = opened.consumption
        self.tracer = opened.consumption.tracer
        self.measured = Measurements()
        self.polling = LongPolling()
        self.step = DecisionStep(opened.consumption.journal, self.now_ms, self.polling, self._wake_taken)
        self.engine.dispatcher.is_awaited = lambda topic: is_retry_topic(topic) or self.polling.is_awaited(topic)
        self.loop = loop
        self.thawing = Thawing(opened.consumption.thawed, loop)
        self.topic_watchers: list[Callable[[str], None]] = []
        self.group_watchers: list[Callable[[str], None]] = []
        self.disk_state = DiskState.FINE
        self.disk_space = (0, 0)
        """Total and free bytes of the disk, as last looked at."""
        self.commit: GroupCommit

    def _wake_taken(self) -> None:
        self.polling.wake_taken(self.engine.dispatcher.taken_topics())

    def follow(self, topic: Topic) -> None:
        """Report growth of the topic's queues from now on: somebody waits for it."""
        dispatcher = self.engine.dispatcher
        for queue_id in range(topic.queues):
            queue = dispatcher.queue(topic.name, queue_id)
            if not queue.is_followed:
                dispatcher.follow(queue)

    async def decided(self, decide: Callable[[], T], *, may_wait: bool = False) -> T:
        """Return a decision made right before the next write, once durable. `may_wait`: as in `GroupCommit.decide`."""
        decision = Decided(decide)
        self.commit.decide(decision, may_wait=may_wait)
        return await decision.outcome()

    async def record(self, kind: RecordKind, payload: bytes) -> int:
        """Append a record for an applier; return its commit-log offset once it is durable."""
        offset = self.engine.append_record(kind, payload, self.now_ms())
        await self.commit.wait()
        return offset
