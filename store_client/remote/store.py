"""RemoteStore: the ports of a store, over the brokers of a cluster.

Nothing of a message stays here: a gateway that holds this can be killed, and any other goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import EntrepotError
from domain.expression.filter import FilterExpression
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from domain.measurement import Histogram
from domain.message import Delivery, Message, StoredMessage
from domain.ports import REJECTED, PopRequest, Pulled, Tail
from domain.position import Position
from domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery
from domain.shard import local_queue
from domain.timing import TimedMessage, TimerCursor
from domain.topic import QueueBounds, Topic, TopicQueues, TopicStatus
from domain.transaction import TransactionEnd
from protocols.remoting import operations as wire
from protocols.remoting.records import RecordRun, decode_run
from store_client.remote.appending import Appending
from store_client.remote.broker_client import BrokerClient
from store_client.remote.cluster import Cluster
from store_client.remote.consumption import RemoteSettling
from store_client.remote.finder import RemoteFinder
from store_client.remote.key_values import RemoteKeyValues
from store_client.remote.operating import ClusterOperations
from store_client.remote.popping import Popping
from store_client.remote.tails import Tails
from store_client.remote.topology import RemoteTopology, ask_all


class RemoteStore:
    """Implements `domain.ports.Store`; each of its parts does one of the ports.

    `group_defaults`: of groups that come into being by a pop.
    """

    def __init__(self, cluster: Cluster, tails: Tails, group_defaults: ConsumerGroup) -> None:
        self.cluster = cluster
        self._tails = tails
        self._group_defaults = group_defaults
        self._topology = RemoteTopology(cluster)
        self._appending = Appending(cluster)
        self._popping = Popping(cluster)
        self._settling = RemoteSettling(cluster, self._topology)
        self._facts = RemoteKeyValues(cluster)
        self._finder = RemoteFinder(cluster)
        self.operations: ClusterOperations | None = None
        """What operators do with the brokers, where they are found by routes."""

    # -- messages ------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        return self._appending.append(messages)

    @property
    def backlogged(self) -> bool:
        return any(client.link.is_congested for client in self.cluster.clients.values())

    def when_relieved(self, callback: Callable[[], None]) -> None:
        for client in self.cluster.clients.values():
            if client.link.is_congested:
                client.link.when_relieved(lambda: self.when_relieved(callback))
                return
        callback()

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        client = self.cluster.of_queue(topic, queue_id)
        return await client.ask_messages(wire.READ, topic, local_queue(queue_id), from_offset, max_messages)

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        client = self.cluster.of_queue(topic, queue_id)
        found, next_offset, min_offset, max_offset = await client.ask(
            wire.PULL, topic, local_queue(queue_id), from_offset, max_messages, filter
        )
        return Pulled(client.decode(found), next_offset, min_offset, max_offset)

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        client = self.cluster.of_queue(topic, queue_id)
        found: tuple[list[int], int] = await client.ask(
            wire.MATCHING_OFFSETS, topic, local_queue(queue_id), topic_filter, from_offset, limit
        )
        return found

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """The records from an offset up to another that the filter wants (`protocols.remoting.records`)."""
        client = self.cluster.of_queue(topic, queue_id)
        arguments = (topic, local_queue(queue_id), from_offset, to_offset, max_bytes, filter)
        return decode_run(await client.ask(wire.RECORDS, *arguments))

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """About how many bytes of the log they have."""
        client = self.cluster.of_queue(topic, queue_id)
        found: int = await client.ask(wire.BYTES_BETWEEN, topic, local_queue(queue_id), from_offset, to_offset)
        return found

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        client = self.cluster.of_queue(topic, queue_id)
        offset: int = await client.ask(wire.OFFSET_AT, topic, local_queue(queue_id), position)
        return offset

    async def bounds(self, topic: str) -> list[QueueBounds]:
        found: list[QueueBounds] = []
        answers = await ask_all(self.cluster.of_topic(topic), lambda c: c.ask(wire.BOUNDS, topic))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            raise refusals[0]
        for client, told in answers:
            if not isinstance(told, EntrepotError):
                found += client.world_bounds(told)
        return found

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        return self._tails.tail(topic, queue_id, start, on_messages)

    # -- consumption ---------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> list[Delivery]:
        brokers = self.cluster.ready
        if request.topic in self.cluster.topics:
            await self._topology.ensure_group(request.group, self._group_defaults, brokers)
        return await self._popping.pop(request)

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
            topic, group, receipt_handles, invisible_ms, release, suspend
        )

    async def reject(
        self, topic: str, group: str, receipt_handles: Sequence[str], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        return await self._settling.reject(topic, group, receipt_handles, reason)

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        return await self._settling.reset_group(group, topic, position, queue_id)

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        return await self._settling.resend_dead_letters(group, queue_offsets, queue_id)

    def release_waiting(self) -> None:
        self._popping.release()

    # -- topology ------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self.cluster.topics.get(name)

    def is_arriving(self, name: str) -> bool:
        return name not in self.cluster.topics and self.cluster.definition(name) is not None

    def topics(self) -> list[Topic]:
        return self._topology.topics()

    def queues(self, topic: Topic) -> TopicQueues:
        return self.cluster.queues(topic)

    async def put_topic(self, topic: Topic) -> Topic:
        return await self._topology.put_topic(topic)

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        return await self._topology.put_topics(topics)

    async def delete_topic(self, name: str) -> None:
        await self._topology.delete_topic(name)

    async def topic_status(self, name: str) -> TopicStatus:
        return await self._topology.topic_status(name)

    def namespaces(self) -> list[str]:
        return self._topology.namespaces()

    async def put_namespace(self, name: str) -> None:
        await self._topology.put_namespace(name)

    async def delete_namespace(self, name: str) -> None:
        await self._topology.delete_namespace(name)

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        return await self._topology.put_group(group)

    async def delete_group(self, name: str) -> None:
        await self._topology.delete_group(name)

    def group(self, name: str) -> ConsumerGroup | None:
        return self._topology.group(name)

    def groups(self) -> list[ConsumerGroup]:
        return self._topology.groups()

    async def group_status(self, name: str) -> GroupStatus:
        return await self._topology.group_status(name)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        return self._topology.watch_topics(callback)

    # -- key-values ----------------------------------------------------------------------------------------------

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return await self._facts.get(keys)

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        return await self._facts.scan(prefix, after=after, limit=limit)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        return await self._facts.write(changes)

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        return self._facts.watch(prefix, on_events, on_begun)

    # -- finder, timers, transactions ----------------------------------------------------------------------------

    async def query(self, query: MessageQuery) -> MessagePage:
        return await self._finder.query(query)

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        return await self._finder.messages_by_id(message_id, everywhere)

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        return await self._finder.message_at(commit_log_offset)

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        return await self._finder.message_consumers(message)

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        return await self._finder.message_trace(message_id)

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        await self._finder.recall(topic, message_id, deliver_at_ms)

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        await self._finder.retime(topic, message_id, deliver_at_ms, new_deliver_at_ms)

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        return await self._finder.timed_messages(topic, after, limit)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._appending.append(messages, wire.APPEND_HALF)

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        return await self._finder.end_transactions(list(ends))

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        return await self._finder.take_checks(list(topics), max_messages)

    # -- the whole -----------------------------------------------------------------------------------------------

    @property
    def failure(self) -> EntrepotError | None:
        """Brokers may fail; a gateway goes on without them."""
        return None

    @property
    def damage(self) -> list[str]:
        told = (client.info for client in self.cluster.clients.values())
        return [f"broker {info.name!r}: {info.damage}" for info in told if info is not None and info.damage]

    async def measurements(self) -> dict[str, Histogram]:
        found: dict[str, Histogram] = {}
        for _, (measured, _, _) in await self._measured():
            for name, histogram in measured.items():
                if name in found:
                    found[name].add(histogram)
                else:
                    found[name] = histogram
        return found

    async def gauges(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for _, (_, gauges, _) in await self._measured():
            for name, value in gauges.items():
                found[name] = max(found.get(name, 0.0), value) if name == "disk_state" else found.get(name, 0.0) + value
        return found

    async def _measured(
        self,
    ) -> list[tuple[BrokerClient, tuple[dict[str, Histogram], dict[str, float], EntrepotError | None]]]:
        answers = await ask_all(self.cluster.ready, lambda c: c.ask(wire.MEASURE))
        return [(client, told) for client, told in answers if not isinstance(told, EntrepotError)]

    async def close(self) -> None:
        self.release_waiting()
        await self._appending.settle()
        self._facts.close()
        if self.operations is not None:
            await self.operations.close()
        await self.cluster.close()
