"""`domain.ports.Topology`: namespaces, topics and groups, kept as metadata records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.broker.metadata import registry as changes
from entrepot.broker.ports.consumption import Consumption
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.store.record import RecordKind
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.definitions.revision import revised
from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    check_group_name,
    check_namespace,
    check_stored_name,
    check_topic_name,
    split_name,
)
from entrepot.domain.topic import Topic, TopicQueues, TopicStatus, own_queues

TOPICS_PER_RECORD: Final = 500


class Topology:
    """Namespaces, topics and groups of a broker."""

    def __init__(self, core: BrokerCore, consumption: Consumption) -> None:
        self._core = core
        self._engine, self._registry = core.engine, core.registry
        self.group_status, self.group_statuses = consumption.group_status, consumption.group_statuses
        self.unsettled_bytes = consumption.unsettled_bytes

    def topic(self, name: str) -> Topic | None:
        return self._registry.topics.get(name)

    def is_arriving(self, name: str) -> bool:
        return False

    def topics(self) -> list[Topic]:
        return sorted(self._registry.topics.values(), key=lambda topic: topic.name)

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(topic.queues, topic.writable_queues)

    def made_at(self, name: str, queue_id: int) -> int:
        found = self._registry.topics.get(name)
        return 0 if found is None else found.made_at

    async def put_topic(self, topic: Topic) -> Topic:
        raise_if((await self.put_topics([topic]))[0])
        return topic

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        wanted: dict[str, Topic] = {}
        for topic in topics:
            if topic.name in wanted or len(wanted) >= TOPICS_PER_RECORD:
                self._put_topics(wanted)
            try:
                kept = revised(topic, self._registry.topics.get(topic.name))
                if kept is not None:
                    self.check_topic(kept)
                    wanted[topic.name] = kept
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal.with_traceback(None))
        self._put_topics(wanted)
        await self._core.commit.wait()
        return outcomes

    def _put_topics(self, wanted: dict[str, Topic]) -> None:
        if wanted:
            payload = changes.put_topics(list(wanted.values()))
            self._engine.append_record(RecordKind.METADATA, payload, self._core.now_ms())
            wanted.clear()

    def check_topic(self, topic: Topic) -> None:
        """Raise an error for an illegal topic."""
        existing = self._registry.topics.get(topic.name)
        check_stored_name(topic.name, Code.ILLEGAL_TOPIC)
        check_topic_name(split_name(topic.name)[1], system_allowed=existing is not None, feed_allowed=True)
        self._check_namespace_of(topic.name)
        origin = self._registry.origin_of(topic.name)
        if origin is not None and origin.is_attached and (topic.permission.writable or topic.tier_seconds):
            text = f"topic {topic.name!r} is another cluster's table: it can be read alone, and has no tierSeconds"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
        if existing is not None and topic.queues < existing.queues:
            for queue_id in range(topic.queues, existing.queues):
                if not self._core.consumption.is_drained(existing, queue_id):
                    raise EntrepotError(
                        Code.PRECONDITION_FAILED,
                        f"queue {queue_id} of topic {topic.name!r} is not drained: lower write_queues, let every group "
                        "settle what is in it, then lower queues",
                    )

    def _check_namespace_of(self, name: str) -> None:
        if not self._registry.has_namespace_of(name):
            raise EntrepotError(Code.BAD_REQUEST, f"there is no namespace {split_name(name)[0]!r}")

    async def delete_topic(self, name: str) -> None:
        self._core.existing_topic(name)
        for found in (*sorted(self._registry.retries_of_topic.get(name, ())), name):
            self._engine.append_record(RecordKind.METADATA, changes.drop_topic(found), self._core.now_ms())
        self._core.polling.wake(name)
        await self._core.commit.wait()

    async def topic_status(self, name: str) -> TopicStatus:
        topic = self._core.existing_topic(name)
        return TopicStatus(topic, self._core.bounds_of(topic))

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        found = (self._registry.topics.get(name) for name in names)
        return [TopicStatus(topic, self._core.bounds_of(topic)) for topic in found if topic is not None]

    def namespaces(self) -> list[str]:
        return [DEFAULT_NAMESPACE, *sorted(self._registry.namespaces)]

    async def put_namespace(self, name: str) -> None:
        check_namespace(name)
        if name != DEFAULT_NAMESPACE and name not in self._registry.namespaces:
            await self._core.record(RecordKind.METADATA, changes.put_namespace(name))

    async def delete_namespace(self, name: str) -> None:
        if name == DEFAULT_NAMESPACE:
            raise EntrepotError(Code.PRECONDITION_FAILED, "the namespace 'default' is always there")
        if name not in self._registry.namespaces:
            raise EntrepotError(Code.BAD_REQUEST, f"there is no namespace {name!r}")
        for owned in (*self._registry.topics, *self._registry.groups):
            if split_name(owned)[0] == name:
                raise EntrepotError(Code.PRECONDITION_FAILED, f"namespace {name!r} is not empty: {owned!r} is in it")
        await self._core.record(RecordKind.METADATA, changes.drop_namespace(name))

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        kept = revised(group, self._registry.groups.get(group.name))
        if kept is not None:
            check_stored_name(group.name, Code.ILLEGAL_CONSUMER_GROUP)
            check_group_name(split_name(group.name)[1])
            self._check_namespace_of(group.name)
            await self._core.record(RecordKind.METADATA, changes.put_group(kept))
        return group

    async def delete_group(self, name: str) -> None:
        self._core.existing_group(name)
        for topic in sorted(self._registry.retries_of_group.get(name, ())):
            self._engine.append_record(RecordKind.METADATA, changes.drop_topic(topic), self._core.now_ms())
        await self._core.record(RecordKind.METADATA, changes.drop_group(name))

    def group(self, name: str) -> ConsumerGroup | None:
        return self._registry.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return sorted(self._registry.groups.values(), key=lambda group: group.name)

    def watch_groups(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._core.group_watchers.append(callback)
        return lambda: self._core.group_watchers.remove(callback)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._core.topic_watchers.append(callback)
        return lambda: self._core.topic_watchers.remove(callback)
