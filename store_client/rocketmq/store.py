"""RocketMqStore: a RocketMQ 5 cluster behind the ports, spoken to as one of its gRPC clients.

What each call of the ports becomes, and which of them the protocol cannot carry, is told in docs/rocketmq-cluster.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.clock import Clock
from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import Code, EntrepotError
from domain.expression.filter import FilterExpression
from domain.measurement import Histogram
from domain.message import Delivery, Message, StoredMessage
from domain.names import DEFAULT_NAMESPACE, check_group_name, split_name
from domain.ports import REJECTED, PopRequest, Pulled, Store, Tail
from domain.position import Position
from domain.topic import QueueBounds, Topic, TopicQueues, TopicStatus, own_queues
from domain.transaction import TransactionEnd
from store_client.rocketmq.absent import NoMessageFinder, SideKeyValues, refuse
from store_client.rocketmq.cluster import Cluster
from store_client.rocketmq.pending import Pending
from store_client.rocketmq.reading import Reading
from store_client.rocketmq.receiving import Receiving
from store_client.rocketmq.sending import Sending
from store_client.rocketmq.settings import RocketMqSettings
from store_client.rocketmq.settling import Settling


class RocketMqStore(NoMessageFinder, SideKeyValues):
    """Implements `domain.ports.Store`, as far as the protocol goes: the rest raises UNSUPPORTED.

    It must be made on a running event loop.  `side` serves the key-values, and is closed with it.  `group_defaults` is
    what is thought of groups that nobody has put: the cluster's own definition of a group cannot be read.
    """

    def __init__(
        self,
        settings: RocketMqSettings,
        clock: Clock,
        *,
        side: Store | None = None,
        group_defaults: ConsumerGroup | None = None,
    ) -> None:
        SideKeyValues.__init__(self, side)
        self._cluster = Cluster(settings, clock, group_defaults or ConsumerGroup("defaults"))
        self._pending = Pending(self._cluster)
        self._sending = Sending(self._cluster, self._pending.note_sent)
        self._settling = Settling(self._cluster)
        self._receiving = Receiving(self._cluster, self._settling)
        self._reading = Reading(self._cluster)
        self._side_store = side

    # -- messages ----------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        """As the port says, and: a topic must be known here (`topic`); UNSUPPORTED for further queues; the refusals of
        the cluster come into the confirmation's list until it is settled."""
        return self._sending.append(messages)

    @property
    def backlogged(self) -> bool:
        return self._sending.backlogged

    def when_relieved(self, callback: Callable[[], None]) -> None:
        self._sending.when_relieved(callback)

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        return await self._reading.read(topic, queue_id, from_offset, max_messages)

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        return await self._reading.pull(topic, queue_id, from_offset, max_messages, filter)

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        return await self._reading.matching_offsets(topic, queue_id, topic_filter, from_offset, limit)

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        return await self._reading.offset_at(topic, queue_id, position)

    async def bounds(self, topic: str) -> list[QueueBounds]:
        return await self._reading.bounds(topic)

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        return self._reading.tail(topic, queue_id, start, on_messages)

    # -- consumption -------------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> list[Delivery]:
        return await self._receiving.pop(request)

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        return await self._settling.acknowledge(topic, group, receipt_handles)

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipt_handles: Sequence[str],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
    ) -> list[EntrepotError | None]:
        return await self._settling.change_invisible_duration(
            topic, group, receipt_handles, invisible_ms, release=release, suspend=suspend
        )

    async def reject(
        self, topic: str, group: str, receipt_handles: Sequence[str], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        return await self._settling.reject(topic, group, receipt_handles)

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        return await self._reading.reset_group(group, topic, position, queue_id)

    def release_waiting(self) -> None:
        self._receiving.release_waiting()

    # -- topology ----------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        """A topic that was asked for before; `put_topic` asks."""
        return self._cluster.topic(name)

    def is_arriving(self, name: str) -> bool:
        return False

    def queues(self, topic: Topic) -> TopicQueues:
        return own_queues(topic.queues, topic.writable_queues)

    def topics(self) -> list[Topic]:
        return [route.definition() for route in self._cluster.routes.all()]

    async def put_topic(self, topic: Topic) -> Topic:
        """Ask the cluster for a topic, which is then known here as the cluster has it, whatever was put.

        Raises UNSUPPORTED where the cluster has none: topics are made with RocketMQ's own tools.
        """
        try:
            return (await self._cluster.routes.refresh(topic.name)).definition()
        except EntrepotError as refusal:
            if refusal.code == Code.TOPIC_NOT_FOUND:
                refuse(f"create topic {topic.name!r}", "make it with mqadmin updateTopic")
            raise

    async def find_topics(self, names: Sequence[str]) -> None:
        """Ask the cluster for topics, which are then known here.  Raises TOPIC_NOT_FOUND, UNAVAILABLE."""
        for name in names:
            await self._cluster.routes.of(name)

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        for topic in topics:
            try:
                await self.put_topic(topic)
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal)
        return outcomes

    async def delete_topic(self, name: str) -> None:
        refuse("delete topics", "use mqadmin deleteTopic")

    async def topic_status(self, name: str) -> TopicStatus:
        return TopicStatus((await self._cluster.routes.of(name)).definition(), await self.bounds(name))

    def namespaces(self) -> list[str]:
        """`default`, and those of topics and groups that are known here."""
        names = [*(topic.name for topic in self.topics()), *self._cluster.groups]
        return [DEFAULT_NAMESPACE, *sorted({split_name(name)[0] for name in names} - {DEFAULT_NAMESPACE})]

    async def put_namespace(self, name: str) -> None:
        refuse("create namespaces", "a namespace is there when topics are in it")

    async def delete_namespace(self, name: str) -> None:
        refuse("delete namespaces")

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Remember a definition here: invisible time, retry delays, filter and attempts are said in calls.  The group
        itself, and whether it is FIFO, is the cluster's (mqadmin updateSubGroup)."""
        check_group_name(split_name(group.name)[1])
        self._cluster.groups[group.name] = group
        return group

    async def delete_group(self, name: str) -> None:
        """Forget what is known here of a group."""
        if self._cluster.groups.pop(name, None) is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {name!r} is not known here")

    def group(self, name: str) -> ConsumerGroup | None:
        return self._cluster.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return [self._cluster.groups[name] for name in sorted(self._cluster.groups)]

    async def group_status(self, name: str) -> GroupStatus:
        return await self._reading.group_status(name)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return self._cluster.routes.watch(callback)

    # -- timers and transactions -------------------------------------------------------------------------------------

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        await self._pending.recall(topic, message_id, deliver_at_ms)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        refusals = self._pending.refuse_unnamed(messages)
        return self._sending.append(messages, is_half=True, refusals=refusals)

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        return await self._pending.end_transactions(ends)

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        return self._pending.take_checks(topics, max_messages)

    # -- the whole ---------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> EntrepotError | None:
        """The side store's; a cluster that is away comes back."""
        return None if self._side_store is None else self._side_store.failure

    @property
    def damage(self) -> list[str]:
        return [] if self._side_store is None else self._side_store.damage

    async def measurements(self) -> dict[str, Histogram]:
        return {"append": self._sending.took, "pop": self._receiving.took}

    async def gauges(self) -> dict[str, float]:
        return {**self._pending.gauges(), "unconfirmed_messages": float(self._sending.waiting)}

    async def close(self) -> None:
        """Answer pops empty, give back what nobody has fetched, wait for sends that are out, say goodbye."""
        self._receiving.release_waiting()
        await self._receiving.close()
        await self._sending.close()
        await self._cluster.close()
        if self._side_store is not None:
            await self._side_store.close()
