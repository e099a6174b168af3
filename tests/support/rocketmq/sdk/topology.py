"""RocketMqTopology: the cluster's topics, and local definitions of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, UnsettledBytes
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, check_group_name, split_name
from entrepot.domain.topic import Topic, TopicQueues, TopicStatus, own_queues
from tests.support.rocketmq.sdk.absent import refuse
from tests.support.rocketmq.sdk.cluster import Cluster
from tests.support.rocketmq.sdk.reading import Reading

_Status = TypeVar("_Status")


class RocketMqTopology:
    """Implements `domain.ports.Topology`."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster, self._reading = cluster, reading
        self.topic = cluster.topic  # only a known one; `put_topic` asks the cluster
        self.group_status = reading.group_status
        self.watch_topics = cluster.routes.watch

    def is_arriving(self, name: str) -> bool:
        return False

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(topic.queues, topic.writable_queues)

    def made_at(self, name: str, queue_id: int) -> int:
        return 0  # the cluster does not tell

    def topics(self) -> list[Topic]:
        return [route.definition() for route in self._cluster.routes.all()]

    async def put_topic(self, topic: Topic) -> Topic:
        """Ask the cluster for a topic, which is then known here as the cluster has it, whatever was put.  Raises
        UNSUPPORTED if the cluster has none: topics are made with RocketMQ's own tools."""
        try:
            return (await self._cluster.routes.refresh(topic.name)).definition()
        except EntrepotError as refusal:
            if refusal.code == Code.TOPIC_NOT_FOUND:
                refuse(f"create topic {topic.name!r}", "make it with mqadmin updateTopic")
            raise

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        for topic in topics:
            try:
                await self.put_topic(topic)
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    async def delete_topic(self, name: str) -> None:
        refuse("delete topics", "use mqadmin deleteTopic")

    async def topic_status(self, name: str) -> TopicStatus:
        return TopicStatus((await self._cluster.routes.of(name)).definition(), await self._reading.bounds(name))

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        return await _told(names, self.topic_status)

    def namespaces(self) -> list[str]:
        """Return `default`, and the namespaces of topics and groups known here."""
        names = [*(topic.name for topic in self.topics()), *self._cluster.groups]
        return [DEFAULT_NAMESPACE, *sorted({split_name(name)[0] for name in names} - {DEFAULT_NAMESPACE})]

    async def put_namespace(self, name: str) -> None:
        refuse("create namespaces", "a namespace is there when topics are in it")

    async def delete_namespace(self, name: str) -> None:
        refuse("delete namespaces")

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Keep a definition here: calls carry its invisible time, retry delays, filter and attempts.  The group itself,
        and its FIFO flag, are the cluster's (mqadmin updateSubGroup)."""
        check_group_name(split_name(group.name)[1])
        self._cluster.groups[group.name] = group
        return group

    async def delete_group(self, name: str) -> None:
        """Delete the local definition of a group."""
        if self._cluster.groups.pop(name, None) is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {name!r} is not known here")

    def group(self, name: str) -> ConsumerGroup | None:
        return self._cluster.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return [self._cluster.groups[name] for name in sorted(self._cluster.groups)]

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        return await _told(names, self.group_status)

    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        return None


async def _told(names: Sequence[str], ask: Callable[[str], Awaitable[_Status]]) -> list[_Status]:
    """Ask for each name at once.  Raises why none is told, unless all are gone."""
    refusals: list[EntrepotError] = []

    async def tell(name: str) -> _Status | None:
        try:
            return await ask(name)
        except EntrepotError as refusal:
            if refusal.code not in NOT_THERE:
                refusals.append(refusal)
            return None

    told = [each for each in await asyncio.gather(*map(tell, names)) if each is not None]
    if refusals and not told:
        raise refusals[0]
    return told
