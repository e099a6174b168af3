"""BrokerCore: the parts that all ports of a broker share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker.consume.consumption import Consumption
from broker.consume.decision_step import Decided, DecisionStep
from broker.consume.long_polling import LongPolling
from broker.consume.places import bounds_of
from broker.group_commit import GroupCommit
from broker.measurements import Measurements
from broker.metadata.key_values import KeyValueTable
from broker.metadata.registry import Registry
from broker.opening import OpenedStore
from broker.retention.watermarks import DiskState
from broker.settings import BrokerSettings
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind
from domain.clock import Clock
from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.names import is_retry_topic
from domain.topic import QueueBounds, Topic

T = TypeVar("T")


class BrokerCore:
    """The parts of an opened store, and the short words that the ports use."""

    def __init__(
        self, settings: BrokerSettings, clock: Clock, opened: OpenedStore, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.engine: StorageEngine = opened.engine
        self.store_id = opened.store_id
        self.registry: Registry = opened.registry
        self.key_values: KeyValueTable = opened.key_values
        self.consumption: Consumption = opened.consumption
        self.tracer = opened.consumption.tracer
        self.measured = Measurements()
        self.polling = LongPolling()
        self.step = DecisionStep(opened.consumption.journal, self.now_ms, self._wake_taken)
        self.engine.dispatcher.is_awaited = self._is_awaited
        self.loop = loop
        self.topic_watchers: list[Callable[[str], None]] = []
        self.group_watchers: list[Callable[[str], None]] = []
        self.disk_state = DiskState.FINE
        self.commit: GroupCommit

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def _wake_taken(self) -> None:
        if self.polling.count:
            self.polling.wake_taken(self.engine.dispatcher.taken_topics())

    def follow(self, topic: Topic) -> None:
        """Have it told of when the topic's queues grow: somebody waits for that."""
        dispatcher = self.engine.dispatcher
        for queue_id in range(topic.queues):
            queue = dispatcher.queue(topic.name, queue_id)
            if not queue.is_followed:
                dispatcher.follow(queue)

    def _is_awaited(self, topic: str) -> bool:
        return is_retry_topic(topic) or self.polling.is_awaited(topic)

    async def decided(self, decide: Callable[[], T], *, may_wait: bool = False) -> T:
        """Result of a decision right before the next write, once it is durable.  `may_wait`: `GroupCommit.decide`."""
        decision = Decided(decide)
        self.commit.decide(decision, may_wait=may_wait)
        return await decision.outcome()

    async def record(self, kind: RecordKind, payload: bytes) -> int:
        """Append a record of an applier's; returns its commit-log offset when it is durable."""
        offset = self.engine.append_record(kind, payload, self.now_ms())
        await self.commit.wait()
        return offset

    def existing_topic(self, name: str) -> Topic:
        """The topic.  Raises TOPIC_NOT_FOUND."""
        topic = self.registry.topics.get(name)
        if topic is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        return topic

    def existing_group(self, name: str) -> ConsumerGroup:
        """The group.  Raises CONSUMER_GROUP_NOT_FOUND."""
        group = self.registry.groups.get(name)
        if group is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        return group

    def existing_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue.  Raises TOPIC_NOT_FOUND."""
        definition = self.registry.topics.get(topic)
        if definition is None or not 0 <= queue_id < definition.queues:
            missing = "topic" if definition is None else f"queue {queue_id} of topic"
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no {missing} {topic!r}")
        return self.engine.dispatcher.queue(topic, queue_id)

    def bounds_of(self, topic: Topic) -> list[QueueBounds]:
        """The readable bounds of each queue."""
        return bounds_of(self.engine.dispatcher.queue(topic.name, queue_id) for queue_id in range(topic.queues))
