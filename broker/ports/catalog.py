"""Catalog: topics, groups and queues of an opened store, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entrepot.broker.cold.reads import ColdReads
from entrepot.broker.metadata.origin import table_name
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.topic import QueueBounds, Topic, incarnation_of


class Catalog:
    """The catalog of a master's store, or of a slave's as far as it is confirmed."""

    def __init__(self, engine: StorageEngine, registry: Registry, store_id: str) -> None:
        self.engine = engine
        self.registry = registry
        self.store_id = store_id
        self.tier: ColdReads | None = None

    def existing_topic(self, name: str) -> Topic:
        """Return the topic. Raises TOPIC_NOT_FOUND."""
        topic = self.registry.topics.get(name)
        if topic is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        return topic

    def existing_group(self, name: str) -> ConsumerGroup:
        """Return the group. Raises CONSUMER_GROUP_NOT_FOUND."""
        group = self.registry.groups.get(name)
        if group is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        return group

    def existing_queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue. Raises TOPIC_NOT_FOUND."""
        definition = self.registry.topics.get(topic)
        if definition is None or not 0 <= queue_id < definition.queues:
            missing = "topic" if definition is None else f"queue {queue_id} of topic"
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no {missing} {topic!r}")
        return self.engine.dispatcher.queue(topic, queue_id)

    def bounds_of(self, topic: Topic) -> list[QueueBounds]:
        """Return the readable bounds of each queue."""
        return [self._bounds(queue) for queue in self.queues_of(topic)]

    def _bounds(self, queue: ConsumeQueue) -> QueueBounds:
        is_pending = self._is_pending(queue)
        least = 0 if is_pending else self.min_offset(queue)
        return QueueBounds(queue.queue_id, least, queue.visible_offset, is_pending=is_pending)

    def with_incarnation(self, topic: str, bounds: Sequence[QueueBounds]) -> list[QueueBounds]:
        """Return bounds of a topic's queues that tell its incarnation."""
        origin = self.registry.origin_of(topic)
        own = table_name(self.store_id, self.registry.topic_since(topic))
        number = incarnation_of(own if origin is None else origin.table)
        return [replace(each, incarnation=number) for each in bounds]

    def queues_of(self, topic: Topic) -> list[ConsumeQueue]:
        """Return the queues of a topic, by their ids."""
        return self.engine.dispatcher.first_queues(topic.name, topic.queues)

    def _is_pending(self, queue: ConsumeQueue) -> bool:
        return self.tier is not None and self.tier.pending(queue) is not None

    def least_known(self, queue: ConsumeQueue) -> int:
        """Return the first offset that can be read as far as it is known, for counts."""
        return queue.min_offset if self._is_pending(queue) else self.min_offset(queue)

    def min_offset(self, queue: ConsumeQueue) -> int:
        """Return the first offset that can be read, from the disk or from the tier; 0 while it is not known: a read
        there is refused, and skips nothing."""
        return queue.min_offset if self.tier is None else self.tier.min_offset(queue)
