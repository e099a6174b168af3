"""The store, put together out of its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.clock import Clock
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
from domain.timing import TimedMessage, TimerCursor
from domain.topic import QueueBounds, Topic, TopicQueues, TopicStatus
from domain.transaction import TransactionEnd
from store_client.memory.consumption import Consumption
from store_client.memory.finder import Finder
from store_client.memory.key_values import KeyValues
from store_client.memory.messages import Messages
from store_client.memory.retry import Retry
from store_client.memory.state import State
from store_client.memory.timers import Timers
from store_client.memory.topology import Topology
from store_client.memory.transactions import Transactions


class MemoryStore:
    """Implements `domain.ports.Store`; each of its parts does one of the ports."""

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
        self._messages = Messages(state, self._timers, max_message_bytes)
        self._topology = Topology(state, group_defaults or ConsumerGroup("defaults"))
        self._consumption = Consumption(state, self._topology, Retry(state, hold_back_limit))
        self._transactions = Transactions(
            state,
            self._messages,
            self._timers,
            check_after_ms=check_after_ms,
            check_interval_ms=check_interval_ms,
            max_checks=max_checks,
        )
        self._topology.on_topic_dropped += [self._timers.drop_topic, self._transactions.drop_topic]
        self._facts = KeyValues()
        self._finder = Finder(state)

    # -- messages -----------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        return self._messages.append(messages)

    @property
    def backlogged(self) -> bool:
        return self._messages.backlogged

    def when_relieved(self, callback: Callable[[], None]) -> None:
        self._messages.when_relieved(callback)

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        return await self._messages.read(topic, queue_id, from_offset, max_messages)

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        return await self._messages.pull(topic, queue_id, from_offset, max_messages, filter)

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        return await self._messages.matching_offsets(topic, queue_id, topic_filter, from_offset, limit)

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        return await self._messages.offset_at(topic, queue_id, position)

    async def bounds(self, topic: str) -> list[QueueBounds]:
        return await self._messages.bounds(topic)

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        return self._messages.tail(topic, queue_id, start, on_messages)

    # -- consumption --------------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> list[Delivery]:
        return await self._consumption.pop(request)

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        return await self._consumption.acknowledge(topic, group, receipt_handles)

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
        return await self._consumption.change_invisible_duration(
            topic, group, receipt_handles, invisible_ms, release=release, suspend=suspend
        )

    async def reject(
        self, topic: str, group: str, receipt_handles: Sequence[str], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        return await self._consumption.reject(topic, group, receipt_handles, reason)

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        return await self._consumption.reset_group(group, topic, position, queue_id)

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        return await self._consumption.resend_dead_letters(group, queue_offsets, queue_id)

    def release_waiting(self) -> None:
        self._consumption.release_waiting()

    # -- topology -----------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self._topology.topic(name)

    def is_arriving(self, name: str) -> bool:
        return False

    def topics(self) -> list[Topic]:
        return self._topology.topics()

    def queues(self, topic: Topic) -> TopicQueues:
        return self._topology.queues(topic)

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

    # -- key-values ---------------------------------------------------------------------------------------------------

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return await self._facts.get(keys)

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        return await self._facts.scan(prefix, after=after, limit=limit)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        return await self._facts.write(changes)

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        return self._facts.watch(prefix, on_events, on_begun)

    # -- finder -------------------------------------------------------------------------------------------------------

    async def query(self, query: MessageQuery) -> MessagePage:
        return await self._finder.query(query)

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        return await self._finder.messages_by_id(message_id)

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        return await self._finder.message_at(commit_log_offset)

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        return await self._finder.message_consumers(message)

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        return await self._finder.message_trace(message_id)

    # -- timers -------------------------------------------------------------------------------------------------------

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        await self._timers.recall(topic, message_id, deliver_at_ms)

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        await self._timers.retime(topic, message_id, deliver_at_ms, new_deliver_at_ms)

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        return await self._timers.timed_messages(topic, after=after, limit=limit)

    # -- transactions -------------------------------------------------------------------------------------------------

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._transactions.append_half(messages)

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        return await self._transactions.end_transactions(ends)

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        return await self._transactions.take_checks(topics, max_messages)

    # -- the whole ----------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> EntrepotError | None:
        return None

    @property
    def damage(self) -> list[str]:
        return []

    async def measurements(self) -> dict[str, Histogram]:
        return {}

    async def gauges(self) -> dict[str, float]:
        return {"timing_messages": self._timers.count, "half_messages": self._transactions.count}

    async def close(self) -> None:
        self._timers.close()
        self._consumption.release_waiting()
