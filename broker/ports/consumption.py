"""`domain.ports.Consumption`: the deciding is in `broker.consume`, the waiting is here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter

from broker.consume.availability import AvailabilityWatch
from broker.consume.consumption import PopTerms
from broker.consume.places import place_of
from broker.metadata.registry import put_topic
from broker.ports.core import BrokerCore
from broker.store.record import RecordKind
from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus, QueueProgress
from domain.errors import Code, CorruptedError, EntrepotError
from domain.expression.filter import compile_filter
from domain.message import Delivery, StoredMessage
from domain.names import check_same_namespace, dead_letter_group, dead_letter_topic
from domain.ports import REJECTED, PopRequest
from domain.position import Position
from domain.query import HopKind
from domain.topic import Topic
from protocols.remoting.stored_record import Decode, decode_message, recorded_message


class Consumption:
    """Pop and what follows it, positions, dead letters."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._engine, self._registry = core.engine, core.registry
        self.release_waiting = core.polling.release
        self._unanswered: Counter[tuple[str, str, int]] = Counter()
        """Deliveries whose pop waits for the log, by group, topic and message queue: no consumer has them yet."""

    async def pop(self, request: PopRequest) -> list[Delivery]:
        return await self._pop(request, decode_message)

    async def pop_records(self, request: PopRequest) -> list[Delivery]:
        """The same for who hands records on: each message is a `RecordedMessage`."""
        return await self._pop(request, recorded_message)

    async def _pop(self, request: PopRequest, decode: Decode) -> list[Delivery]:
        topic = self._readable_topic(request.topic)
        deadline = self._core.loop.time() + request.wait_ms / 1000
        while True:
            now_ms, claimed_at = self._core.now_ms(), perf_counter()
            group = self._core.consumption.group(request.group, topic.name, now_ms)
            deliveries = self._core.consumption.pop(topic, _terms(request, group, now_ms, decode))
            if deliveries:
                await self._hand_out(request, deliveries)
                self._core.measured.pop.observe(perf_counter() - claimed_at)
                if topic.name in self._registry.traced:
                    self._core.tracer.delivered(topic.name, group.name, deliveries, now_ms)
                return deliveries
            if request.is_again or request.only_over:
                await self._core.commit.wait()
                return []
            if self._core.consumption.has_more(topic, group, now_ms):
                await asyncio.sleep(0)  # a filter passed over much: others have their turn, then it looks on
                topic = self._readable_topic(request.topic)
                continue
            remaining = deadline - self._core.loop.time()
            if remaining <= 0 or self._core.polling.is_released:
                await self._core.commit.wait()
                return []
            due = self._core.consumption.next_due(topic, group, now_ms)
            if due is not None:
                remaining = min(remaining, max(due - now_ms, 1) / 1000)
            await self._core.polling.wait(request.topic, request.group, remaining)
            topic = self._readable_topic(request.topic)

    def watch_available(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when it may be worth while to pop: something came, was given back, or is due; returns the way to
        stop that."""
        return AvailabilityWatch(self._core, topic, group, callback).close

    async def _hand_out(self, request: PopRequest, deliveries: list[Delivery]) -> None:
        """Wait until the deliveries may be told of."""
        self._core.polling.wake(request.topic, request.group)
        claimed = Counter((request.group, each.message.topic, each.message.queue_id) for each in deliveries)
        self._unanswered.update(claimed)
        try:
            await self._core.commit.wait()
        except asyncio.CancelledError:  # the consumer has gone: give back what it never saw
            handles = [delivery.receipt_handle for delivery in deliveries]
            self._core.consumption.change_invisible(
                request.topic, request.group, handles, 0, release=True, suspend=True, now_ms=self._core.now_ms()
            )
            self._core.commit.submit(Confirmation())
            self._core.polling.wake(request.topic, request.group)
            raise
        finally:
            self._unanswered.subtract(claimed)
            for place in claimed:
                if not self._unanswered[place]:
                    del self._unanswered[place]

    def _readable_topic(self, name: str) -> Topic:
        topic = self._registry.topics.get(name)
        if topic is None:
            owner = dead_letter_group(name)
            if owner is None or owner not in self._registry.groups:
                raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
            topic = Topic(name, queues=1)
            self._engine.append_record(RecordKind.METADATA, put_topic(topic), self._core.now_ms())
        if not topic.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        return topic

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        held, now_ms = self._traced(topic, group, receipt_handles), self._core.now_ms()
        outcomes = self._core.consumption.acknowledge(topic, group, receipt_handles, now_ms)
        if held:
            self._core.tracer.settled(HopKind.ACKNOWLEDGED, topic, group, held, now_ms)
        self._wake_fifo(topic, group)
        await self._core.commit.wait()
        return outcomes

    def _traced(self, topic: str, group: str, handles: Sequence[str]) -> list[tuple[StoredMessage, int]]:
        """What the handles stand for where the topic is traced: handles do not say which message, so all are read."""
        return self._core.consumption.held(topic, group, handles) if topic in self._registry.traced else []

    def _wake_fifo(self, topic: str, group: str) -> None:
        """What is settled may free a message group."""
        definition = self._registry.groups.get(group)
        if definition is not None and definition.fifo:
            self._core.polling.wake(topic, group)

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
        held, now_ms = self._traced(topic, group, receipt_handles) if release else [], self._core.now_ms()
        outcomes = self._core.consumption.change_invisible(
            topic, group, receipt_handles, invisible_ms, release=release, suspend=suspend, now_ms=now_ms
        )
        if held:
            self._core.tracer.settled(HopKind.RETRIED, topic, group, held, now_ms, "given back")
        if release:
            self._core.polling.wake(topic, group)
        await self._core.commit.wait()
        return outcomes

    async def reject(
        self, topic: str, group: str, receipt_handles: Sequence[str], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        outcomes = self._core.consumption.reject(topic, group, receipt_handles, self._core.now_ms(), reason)
        self._wake_fifo(topic, group)
        await self._core.commit.wait()
        return outcomes

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        check_same_namespace(topic, group)
        definition = self._core.existing_group(group)
        queue_ids = range(self._core.existing_topic(topic).queues) if queue_id is None else (queue_id,)
        queues = [self._core.existing_queue(topic, found) for found in queue_ids]
        self._core.consumption.windows(self._core.existing_topic(topic), definition, self._core.now_ms())
        for queue in queues:
            self._core.consumption.reset(
                definition, queue, place_of(self._engine, queue, position), self._core.now_ms()
            )
        if queue_id is None:
            self._core.consumption.drop_retries(definition, topic, self._core.now_ms())
        self._core.polling.wake(topic, group)
        await self._core.commit.wait()
        return await self.group_status(group)

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        definition = self._core.existing_group(group)
        outcomes: list[EntrepotError | None] = []
        queue = self._engine.dispatcher.queues.get((dead_letter_topic(group), queue_id))
        for queue_offset in queue_offsets:
            found = (
                [] if queue is None or queue_offset < queue.min_offset else self._engine.read(queue, queue_offset, 1)
            )
            if not found:
                outcomes.append(
                    EntrepotError(Code.ILLEGAL_OFFSET, f"group {group!r} has no dead letter at offset {queue_offset}")
                )
            elif isinstance(found[0], CorruptedError):
                outcomes.append(found[0])
            else:
                try:
                    self._core.consumption.moves.resend(found[0], definition, self._core.now_ms())
                    outcomes.append(None)
                except EntrepotError as refusal:
                    outcomes.append(refusal)
        await self._core.commit.wait()
        return outcomes

    async def group_status(self, name: str) -> GroupStatus:
        group, now_ms = self._core.existing_group(name), self._core.now_ms()
        progress = []
        for topic, windows in sorted(self._core.consumption.windows_of(name).items()):
            for queue_id, window in sorted(windows.items()):
                queue = self._engine.dispatcher.queue(topic, queue_id)
                end = queue.visible_offset
                lag = end - max(window.frontier, queue.min_offset) + window.unsettled
                in_flight = max(window.in_flight(now_ms) - self._unanswered[name, topic, queue_id], 0)
                progress.append(QueueProgress(topic, queue_id, window.base, end, in_flight, lag))
        return GroupStatus(group, progress)


def _terms(request: PopRequest, group: ConsumerGroup, now_ms: int, decode: Decode) -> PopTerms:
    """The request with what it leaves to the group."""
    invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
    expression = request.filter or group.filter
    wanted = None if expression is None else compile_filter(expression)
    if wanted is not None and wanted.accepts_all:
        wanted = None
    return PopTerms(
        group,
        request.max_messages,
        now_ms + invisible_ms,
        now_ms,
        wanted,
        request.attempt_id,
        request.is_again,
        request.only_over,
        request.lifetime_ms,
        decode,
    )
