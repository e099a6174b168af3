"""Broker: the ports, implemented on the storage engine of this process.

Reads like the list of what a store can do; the deciding is in `broker/consume` and `broker/store`, the waiting for
durability in `group_commit`.  Every answer that promises something waits for the watermark first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from broker.consume.consumption import Consumption
from broker.consume.long_polling import LongPolling
from broker.consume.tail import QueueTail
from broker.group_commit import GroupCommit
from broker.metadata import registry as changes
from broker.metadata.registry import Registry
from broker.opening import open_store
from broker.settings import BrokerSettings
from broker.store.consume_queue import ConsumeQueue
from broker.store.record import RecordKind
from broker.store.store_files import DirectoryLock
from domain.clock import Clock
from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus, QueueProgress
from domain.errors import Code, CorruptedError, EntrepotError, StoreFailedError
from domain.message import Delivery, Message, StoredMessage
from domain.names import check_group_name, check_topic_name, dead_letter_group
from domain.ports import PopRequest, Tail
from domain.topic import QueueBounds, Topic, TopicStatus

BACKGROUND_STEP_SECONDS = 0.5

log = structlog.get_logger(__name__)


class Broker:
    """Implements `domain.ports.Store`.  Make one with `await Broker.open(...)` on the event loop it will live on."""

    def __init__(self, settings: BrokerSettings, clock: Clock, lock: DirectoryLock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = lock
        opened = open_store(settings)
        self.engine = opened.engine
        self.registry: Registry = opened.registry
        self.consumption: Consumption = opened.consumption
        self.polling = LongPolling()
        self.commit = GroupCommit(
            self.engine,
            linger_ms=settings.linger_ms,
            max_unconfirmed_bytes=settings.max_unconfirmed_bytes,
            on_grown=self._on_grown,
            on_failure=self._on_failure,
        )
        self._is_closed = False
        self._topic_watchers: list[Callable[[str], None]] = []
        self._background_problem = ""
        opened.on_topic.append(self._on_topic)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.engine.checkpoint_channel.fileno(), self._on_checkpointed)
        self._last_checkpoint = self._loop.time()
        self._background = self._loop.call_later(BACKGROUND_STEP_SECONDS, self._run_background)

    @classmethod
    async def open(cls, settings: BrokerSettings, clock: Clock) -> Broker:
        """Lock the data directory, recover, start.  Raises StoreFailedError or CorruptedError, with the reason."""
        lock = DirectoryLock(str(settings.data_dir))
        try:
            return cls(settings, clock, lock)
        except BaseException:
            lock.release()
            raise

    # -- messages ------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        refusals = self.engine.append_messages(messages, self._queue_for, self._clock.now_ms())
        return self.commit.submit(Confirmation(refusals), len(messages))

    def _queue_for(self, message: Message) -> ConsumeQueue | EntrepotError:
        queue = self.engine.dispatcher.queues.get((message.topic, message.queue_id))
        if queue is None:
            return self.engine.queue_or_refusal(message.topic, message.queue_id)
        if len(message.body) > self._settings.max_message_bytes:
            return EntrepotError(
                Code.MESSAGE_BODY_TOO_LARGE,
                f"the body has {len(message.body)} bytes, the limit is {self._settings.max_message_bytes}",
            )
        if message.topic in self.registry.unwritable:
            return EntrepotError(Code.FORBIDDEN, f"topic {message.topic!r} is not writable")
        return queue

    @property
    def backlogged(self) -> bool:
        return self.commit.backlogged

    def when_relieved(self, callback: Callable[[], None]) -> None:
        self.commit.when_relieved(callback)

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        queue = self.engine.queue_or_refusal(topic, queue_id)
        if isinstance(queue, EntrepotError):
            raise queue
        if not queue.min_offset <= from_offset <= queue.visible_offset:
            raise EntrepotError(
                Code.ILLEGAL_OFFSET,
                f"offset {from_offset} is outside of {queue.min_offset} to {queue.visible_offset}",
            )
        messages: list[StoredMessage] = []
        for item in self.engine.read(queue, from_offset, max_messages):
            if isinstance(item, CorruptedError):
                if messages:
                    break  # what precedes the damage is good; the next read meets it first
                raise item
            messages.append(item)
        return messages

    async def bounds(self, topic: str) -> list[QueueBounds]:
        return self._bounds(self._topic(topic))

    def _bounds(self, topic: Topic) -> list[QueueBounds]:
        queues = (self.engine.dispatcher.queue(topic.name, queue_id) for queue_id in range(topic.queues))
        return [QueueBounds(q.queue_id, q.min_offset, q.visible_offset) for q in queues]

    def tail(
        self, topic: str, queue_id: int, from_offset: int | None, on_messages: Callable[[list[StoredMessage]], None]
    ) -> Tail:
        queue = self.engine.queue_or_refusal(topic, queue_id)
        if isinstance(queue, EntrepotError):
            raise queue
        return QueueTail(self.engine, queue, from_offset, on_messages)

    # -- consumption ---------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> list[Delivery]:
        topic = self._readable_topic(request.topic)
        deadline = self._loop.time() + request.wait_ms / 1000
        while True:
            now_ms = self._clock.now_ms()
            group = self.consumption.group(request.group, now_ms)
            invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
            deliveries = self.consumption.pop(topic, group, request.max_messages, invisible_ms, now_ms)
            if deliveries:
                return await self._hand_out(request, deliveries)
            remaining = deadline - self._loop.time()
            if remaining <= 0 or self.polling.is_released:
                await self.commit.wait()
                return []
            due = min(
                (d for w in self.consumption.windows(topic, group, now_ms).values() if (d := w.next_due()) is not None),
                default=None,
            )
            if due is not None:
                remaining = min(remaining, max(due - now_ms, 1) / 1000)
            await self.polling.wait(request.topic, request.group, remaining)
            topic = self._readable_topic(request.topic)

    async def _hand_out(self, request: PopRequest, deliveries: list[Delivery]) -> list[Delivery]:
        self.polling.wake(request.topic, request.group)
        try:
            await self.commit.wait()
        except asyncio.CancelledError:  # the consumer has gone: give back what it never saw
            handles = [delivery.receipt_handle for delivery in deliveries]
            self.consumption.change_invisible(
                request.topic, request.group, handles, 0, release=True, now_ms=self._clock.now_ms()
            )
            self.commit.submit(Confirmation())
            self.polling.wake(request.topic, request.group)
            raise
        return deliveries

    def _readable_topic(self, name: str) -> Topic:
        topic = self.registry.topics.get(name)
        if topic is None:
            owner = dead_letter_group(name)
            if owner is None or owner not in self.registry.groups:
                raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
            topic = Topic(name, queues=1)
            self.engine.append_record(RecordKind.METADATA, changes.put_topic(topic), self._clock.now_ms())
        if not topic.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        return topic

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        outcomes = self.consumption.acknowledge(topic, group, receipt_handles, self._clock.now_ms())
        await self.commit.wait()
        return outcomes

    async def change_invisible_duration(
        self, topic: str, group: str, receipt_handles: Sequence[str], invisible_ms: int | None, *, release: bool
    ) -> list[EntrepotError | None]:
        outcomes = self.consumption.change_invisible(
            topic, group, receipt_handles, invisible_ms, release=release, now_ms=self._clock.now_ms()
        )
        if release:
            self.polling.wake(topic, group)
        await self.commit.wait()
        return outcomes

    async def reject(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        outcomes = self.consumption.reject(topic, group, receipt_handles, self._clock.now_ms())
        await self.commit.wait()
        return outcomes

    def release_waiting(self) -> None:
        self.polling.release()

    # -- topology ------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self.registry.topics.get(name)

    def topics(self) -> list[Topic]:
        return sorted(self.registry.topics.values(), key=lambda topic: topic.name)

    async def put_topic(self, topic: Topic) -> Topic:
        existing = self.registry.topics.get(topic.name)
        if existing != topic:
            check_topic_name(topic.name, system_allowed=existing is not None)
            if existing is not None and topic.queues < existing.queues:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED,
                    f"topic {topic.name!r} has {existing.queues} queues: they can grow, not shrink",
                )
            await self._change(changes.put_topic(topic))
        return topic

    async def delete_topic(self, name: str) -> None:
        self._topic(name)
        await self._change(changes.drop_topic(name))

    async def topic_status(self, name: str) -> TopicStatus:
        topic = self._topic(name)
        return TopicStatus(topic, self._bounds(topic))

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        if self.registry.groups.get(group.name) != group:
            check_group_name(group.name)
            await self._change(changes.put_group(group))
        return group

    async def delete_group(self, name: str) -> None:
        self._group(name)
        await self._change(changes.drop_group(name))

    def group(self, name: str) -> ConsumerGroup | None:
        return self.registry.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return sorted(self.registry.groups.values(), key=lambda group: group.name)

    async def group_status(self, name: str) -> GroupStatus:
        group, now_ms = self._group(name), self._clock.now_ms()
        progress = []
        for (owner, topic), windows in sorted(self.consumption.progress.windows.items()):
            if owner != name:
                continue
            for queue_id, window in sorted(windows.items()):
                end = self.engine.dispatcher.queue(topic, queue_id).visible_offset
                lag = end - window.frontier + window.unsettled
                in_flight = window.in_flight(now_ms)
                progress.append(QueueProgress(topic, queue_id, window.base, end, in_flight, lag))
        return GroupStatus(group, progress)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._topic_watchers.append(callback)
        return lambda: self._topic_watchers.remove(callback)

    def _topic(self, name: str) -> Topic:
        topic = self.registry.topics.get(name)
        if topic is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        return topic

    def _group(self, name: str) -> ConsumerGroup:
        group = self.registry.groups.get(name)
        if group is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        return group

    async def _change(self, payload: bytes) -> None:
        self.engine.append_record(RecordKind.METADATA, payload, self._clock.now_ms())
        await self.commit.wait()

    # -- what happens by itself ----------------------------------------------------------------------------------

    @property
    def failure(self) -> EntrepotError | None:
        return self.engine.failure

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.polling.release()
        self._background.cancel()
        self.commit.close()
        self._loop.remove_reader(self.engine.checkpoint_channel.fileno())
        self.engine.close()
        self._lock.release()

    def _on_grown(self, queues: list[ConsumeQueue]) -> None:
        for queue in queues:
            self.polling.wake(queue.topic)
            for watcher in tuple(queue.watchers):
                watcher(queue)

    def _on_topic(self, name: str) -> None:
        for watcher in tuple(self._topic_watchers):
            watcher(name)

    def _on_failure(self, failure: StoreFailedError) -> None:
        self.polling.release()

    def _on_checkpointed(self) -> None:
        try:
            self.engine.finish_checkpoint()
        except StoreFailedError as failure:
            self._loop.remove_reader(self.engine.checkpoint_channel.fileno())
            log.critical("the store has stopped", error=failure.message)
            self._on_failure(failure)

    def _run_background(self) -> None:
        """The one table of background steps."""
        if self.engine.failure is not None:
            self._on_failure(self.engine.failure)
            return
        try:
            self.consumption.bury_exhausted(self._clock.now_ms())
            if self.engine.end > self.engine.commit_log.durable_offset:
                self.commit.submit(Confirmation())
            self._checkpoint_if_due()
            self._background_problem = ""
        except Exception as error:  # whatever it was, the other steps go on; said once, not at every step
            if str(error) != self._background_problem:
                self._background_problem = str(error)
                log.exception("a background step failed")
        self._background = self._loop.call_later(BACKGROUND_STEP_SECONDS, self._run_background)

    def _checkpoint_if_due(self) -> None:
        behind = self.engine.end - self.engine.checkpoint_position
        age = self._loop.time() - self._last_checkpoint
        if (
            behind
            and not self.engine.is_checkpointing
            and (
                behind >= self._settings.checkpoint_interval_bytes or age >= self._settings.checkpoint_interval_seconds
            )
        ):
            self._last_checkpoint = self._loop.time()
            self.commit.sync_now(at_rest=self.engine.begin_checkpoint)  # the one sync that the loop waits for
