"""Read by offset, and the offsets of groups: PullMessage, QueryOffset, GetOffset, UpdateOffset.  Not every server has
these calls: the Java proxy of RocketMQ 5.3 answers UNIMPLEMENTED, which is UNSUPPORTED here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from entrepot.domain.callbacks import call_each, hand_over
from entrepot.domain.definitions.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import check_same_namespace
from entrepot.domain.ports import Pulled
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import SUCCESSES, refusal_of
from entrepot.protocols.rocketmq.names import duration, timestamp
from tests.support.rocketmq.sdk.calls import GET_OFFSET, PULL, QUERY_OFFSET, UPDATE_OFFSET
from tests.support.rocketmq.sdk.cluster import Cluster, wire_filter
from tests.support.rocketmq.sdk.messages import from_wire
from tests.support.rocketmq.sdk.routes import RouteQueue

log = logging.getLogger(__name__)

TAIL_MESSAGES: Final = 256
PAUSE_SECONDS: Final = 1.0

OnMessages = Callable[[list[StoredMessage]], None]


class Reading:
    """Implements `domain.ports.MessageReader`, and the offsets of groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def pull(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        max_messages: int,
        filter: FilterExpression | None = None,
        poll_ms: int = 0,
    ) -> Pulled:
        """Implements `MessageReader.pull`, and may wait for the first message."""
        matches = None if filter is None else compile_filter(filter).matches
        route = await self._cluster.routes.of(topic)
        queue = route.queue(queue_id)
        bounds = await self._bounds(queue)
        if not bounds.min_offset <= from_offset <= bounds.max_offset:
            raise EntrepotError(
                Code.ILLEGAL_OFFSET, f"offset {from_offset} is outside of {bounds.min_offset} to {bounds.max_offset}"
            )
        if max_messages <= 0:
            return Pulled([], from_offset, bounds.min_offset, bounds.max_offset)
        found, next_offset = await self._pull(queue, from_offset, max_messages, filter, poll_ms)
        if filter is not None and filter.kind is FilterKind.SUB_TOPIC and matches is not None:
            found = [message for message in found if matches(message)]
        return Pulled(found, next_offset, bounds.min_offset, max(bounds.max_offset, next_offset))

    async def _pull(
        self, queue: RouteQueue, from_offset: int, max_messages: int, filter: FilterExpression | None, poll_ms: int
    ) -> tuple[list[StoredMessage], int]:
        settings = self._cluster.settings
        question = v2.PullMessageRequest(
            group=self._cluster.namespaces.resource(settings.reader_group),
            message_queue=queue.message_queue(),
            offset=from_offset,
            batch_size=max_messages,
            filter_expression=wire_filter(filter),
            long_polling_timeout=duration(poll_ms),
        )
        found: list[StoredMessage] = []
        next_offset = from_offset
        seconds = (max(poll_ms, settings.least_poll_ms) + settings.request_timeout_ms) / 1000
        connection = self._cluster.connection(queue.places)
        async for answer in self._cluster.producer.stream(connection, PULL, question, seconds):
            content = answer.WhichOneof("content")
            if content == "message":
                found.append(from_wire(answer.message, self._cluster.namespaces, queue.queue_id))
            elif content == "next_offset":
                next_offset = answer.next_offset
            elif answer.status.code not in (*SUCCESSES, v2.MESSAGE_NOT_FOUND):
                raise refusal_of(answer.status) or EntrepotError(Code.INTERNAL_ERROR, "a status that says nothing")
        if found:
            next_offset = max(next_offset, found[-1].queue_offset + 1)
        return found, next_offset

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        """Implements `MessageReader.read`."""
        return (await self.pull(topic, queue_id, from_offset, max_messages)).messages

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        """Implements `MessageReader.matching_offsets` by reading, since the protocol has no index of names."""
        wanted = FilterExpression(FilterKind.SUB_TOPIC, topic_filter)
        pulled = await self.pull(topic, queue_id, from_offset, limit, wanted)
        return [message.queue_offset for message in pulled.messages], pulled.next_offset

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def bounds(self, topic: str) -> list[QueueBounds]:
        """Implements `MessageReader.bounds`."""
        route = await self._cluster.routes.of(topic)
        return list(await asyncio.gather(*map(self._bounds, route.queues)))

    async def _bounds(self, queue: RouteQueue) -> QueueBounds:
        least, end = await asyncio.gather(self._offset(queue, v2.BEGINNING), self._offset(queue, v2.END))
        return QueueBounds(queue.queue_id, least, end)

    async def _offset(self, queue: RouteQueue, policy: v2.QueryOffsetPolicy.ValueType, at_ms: int | None = None) -> int:
        question = v2.QueryOffsetRequest(
            message_queue=queue.message_queue(),
            query_offset_policy=policy,
            timestamp=None if at_ms is None else timestamp(at_ms),
        )
        connection = self._cluster.connection(queue.places)
        return (await self._cluster.producer.call(connection, QUERY_OFFSET, question)).offset

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Implements `MessageReader.offset_at`."""
        return await self._offset_at((await self._cluster.routes.of(topic)).queue(queue_id), position)

    async def _offset_at(self, queue: RouteQueue, position: Position) -> int:
        if position.kind is PositionKind.EARLIEST:
            return await self._offset(queue, v2.BEGINNING)
        if position.kind is PositionKind.LATEST:
            return await self._offset(queue, v2.END)
        if position.kind is PositionKind.TIME:
            return await self._offset(queue, v2.TIMESTAMP, position.value)
        bounds = await self._bounds(queue)
        return min(max(position.value, bounds.min_offset), bounds.max_offset)

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        """Implements `Consumption.reset_group` for committed offsets.  The cluster keeps messages in flight and in
        retry topics."""
        check_same_namespace(topic, group)
        route = await self._cluster.routes.of(topic)
        session = await self._cluster.consumer_for_settling(group, topic)
        for queue in route.queues if queue_id is None else [route.queue(queue_id)]:
            question = v2.UpdateOffsetRequest(
                group=self._cluster.namespaces.resource(group),
                message_queue=queue.message_queue(),
                offset=await self._offset_at(queue, position),
            )
            await session.call(self._cluster.connection(queue.places), UPDATE_OFFSET, question)
        return await self.group_status(group)

    async def group_status(self, group: str) -> GroupStatus:
        """Implements `Topology.group_status`, for topics that the group has read through this store.  The protocol does
        not tell the number of messages in flight."""
        if group not in self._cluster.groups and not self._cluster.topics_read_by(group):
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {group!r} is not known here")
        progress: list[QueueProgress] = []
        for topic in self._cluster.topics_read_by(group):
            route = await self._cluster.routes.of(topic)
            progress += await asyncio.gather(*(self._progress(group, topic, queue) for queue in route.queues))
        return GroupStatus(self._cluster.group(group), progress)

    async def _progress(self, group: str, topic: str, queue: RouteQueue) -> QueueProgress:
        session = await self._cluster.consumer_for_settling(group, topic)
        bounds = await self._bounds(queue)
        resource = self._cluster.namespaces.resource(group)
        question = v2.GetOffsetRequest(group=resource, message_queue=queue.message_queue())
        try:
            answer = await session.call(self._cluster.connection(queue.places), GET_OFFSET, question)
            committed = answer.offset
        except EntrepotError as refusal:
            if refusal.code is not Code.OFFSET_NOT_FOUND:
                raise
            committed = bounds.min_offset  # it has never committed one
        end = bounds.max_offset
        return QueueProgress(topic, queue.queue_id, committed, end, 0, max(end - committed, 0))

    # -- tails -------------------------------------------------------------------------------------------------------

    def tail(self, topic: str, queue_id: int, start: int | Position | None, on_messages: OnMessages) -> QueueTail:
        """Implements `MessageReader.tail` by long polls; the end is that at the cluster's answer.  Raises
        TOPIC_NOT_FOUND if the topic is not known here or has no such queue."""
        route = self._cluster.routes.known(topic)
        if route is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {topic!r} is not known here")
        route.queue(queue_id)
        return QueueTail(self, self._cluster, topic, queue_id, start, on_messages)


class QueueTail:
    """Implements `domain.ports.Tail`.  It ends, with a log entry, if the cluster cannot read by offset."""

    def __init__(
        self,
        reading: Reading,
        cluster: Cluster,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: OnMessages,
    ) -> None:
        self._reading, self._place = reading, (topic, queue_id)
        self._poll_ms = cluster.settings.most_poll_ms
        self._start = start
        self.next_offset = start if isinstance(start, int) else 0
        self._when_begun: list[Callable[[], None]] = []
        self._on_messages = on_messages
        self._is_open = True
        self._task = cluster.keep("tails of the RocketMQ cluster", self._run)

    def when_begun(self, callback: Callable[[], None]) -> None:
        if isinstance(self._start, int) or not self._is_open:
            callback()
        else:
            self._when_begun.append(callback)

    def _tell_begun(self) -> None:
        waiting, self._when_begun = self._when_begun, []
        for fault in call_each(waiting):
            log.error("a callback of a tail's start failed", exc_info=fault)

    def close(self) -> None:
        self._is_open = False
        self._task.cancel()
        self._tell_begun()

    async def _run(self) -> None:
        topic, queue_id = self._place
        while self._is_open:
            try:
                if not isinstance(self._start, int):
                    position = self._start or Position(PositionKind.LATEST)
                    self._start = self.next_offset = await self._reading.offset_at(topic, queue_id, position)
                    self._tell_begun()
                pulled = await self._reading.pull(
                    topic, queue_id, self.next_offset, TAIL_MESSAGES, poll_ms=self._poll_ms
                )
            except EntrepotError as refusal:
                self._tell_begun()  # it will begin later, or not at all
                if refusal.code in (Code.UNSUPPORTED, Code.TOPIC_NOT_FOUND):
                    log.error("the tail of %s/%d ends: %s", topic, queue_id, refusal.message)
                    return
                if refusal.code is Code.ILLEGAL_OFFSET and await self._go_on(topic, queue_id):
                    continue
                log.warning("the tail of %s/%d waits: %s", topic, queue_id, refusal.message)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self.next_offset = pulled.next_offset
            if pulled.messages and self._is_open:
                for message, fault in hand_over(list(pulled.messages), self._on_messages):
                    log.error("a message could not be handed on: %s@%d", topic, message.queue_offset, exc_info=fault)

    async def _go_on(self, topic: str, queue_id: int) -> bool:
        """Move to the nearest existing offset; returns True if that is another one."""
        before = self.next_offset
        try:
            nearest = Position(PositionKind.OFFSET, max(before, 0))
            self.next_offset = await self._reading.offset_at(topic, queue_id, nearest)
        except EntrepotError:
            return False
        return self.next_offset != before
