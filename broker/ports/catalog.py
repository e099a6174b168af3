"""Catalog: topics, groups and queues of an opened store, as they are asked for by name."""

from __future__ import annotations

from broker.consume.places import bounds_of
from broker.metadata.registry import Registry
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.topic import QueueBounds, Topic


class Catalog:
    """Of a master's store, or of a slave's as far as it is confirmed."""

    def __init__(self, engine: StorageEngine, registry: Registry) -> None:
        self.engine = engine
        self.registry = registry

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
