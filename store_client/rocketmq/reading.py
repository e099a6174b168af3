"""Read by offset: PULL_MESSAGE, the bounds of queues, and offsets of times.

A pull names its subscription itself and stores no offset, so one group serves all gateways, without heartbeats.  A
broker answers a bad SQL expression with everything: only tags go to it, to save traffic, and every filter is applied
here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from entrepot.domain.broker_of_queue import broker_number, first_place
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage, as_first_stored
from entrepot.domain.ports import Pulled
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS, Frame
from entrepot.protocols.rocketmq.remoting.messages import EVERYTHING, stored_message, tags_for
from entrepot.protocols.rocketmq.remoting.records import Record, decode_records
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.ends import Ends
from entrepot.store_client.rocketmq.routes import RouteQueue
from entrepot.store_client.rocketmq.tails import OnMessages, QueueTail

MOST_AT_ONCE: Final = 32
"""Most messages that a broker gives in one answer."""
MAX_READ_BYTES: Final = 4 << 20
"""Bodies after which a read goes no further."""
CHECK_SECONDS: Final = 5.0
"""Interval at which a broker looks at held pulls: one may last that much longer than asked."""
MOST_READABLE_SECONDS: Final = 1.0
"""Longest wait of a pop for what was confirmed a moment ago: a broker that needs longer is slow anyway."""
READABLE_STEP_SECONDS: Final = 0.002
TRIES: Final = 11
TRY_SECONDS: Final = 0.2
"""Tries at a message that a broker cannot read, and the pause behind each, before it is passed over as gone."""
_SUSPEND, _SUBSCRIBED = 2, 4
_PULLED: Final = (SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_RETRY, codes.PULL_MOVED)
log = structlog.get_logger(__name__)


class Sent(Protocol):
    """Messages of this gateway on their way to queues (`sending.Sending`)."""

    def in_turn(self, topic: str, queue_id: int, work: Callable[[], Awaitable[int]]) -> asyncio.Future[int]: ...

    @property
    def ends(self) -> Ends: ...


@dataclass(frozen=True, slots=True)
class PulledRecords:
    """The answer to one pull: records from its offset on, those with a fault among them, and the offset to go on.
    `is_found`: the broker says that there are some, which it may not say of a queue that it does not serve."""

    records: list[Record]
    next_offset: int
    min_offset: int
    max_offset: int
    is_found: bool


class Reading:
    """Implements `domain.ports.MessageReader`."""

    def __init__(self, cluster: Cluster, sent: Sent) -> None:
        self._cluster, self._sent = cluster, sent

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        """Implements `MessageReader.read`."""
        return (await self.pull(topic, queue_id, from_offset, max_messages)).messages

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        """Implements `MessageReader.pull`."""
        matches = None if filter is None else compile_filter(filter).matches
        queue = (await self._cluster.routes.of(topic)).queue(queue_id)
        found: list[StoredMessage] = []
        size, at, wanted = 0, from_offset, max(max_messages, 1)
        while True:
            try:
                pulled = await self.pull_once(topic, queue, at, min(wanted - len(found), MOST_AT_ONCE), filter)
            except CorruptedError:
                if at == from_offset:
                    raise
                break
            taken = pulled.messages if matches is None else [each for each in pulled.messages if matches(each)]
            found += taken
            size += sum(len(message.body) for message in pulled.messages)
            is_over = pulled.next_offset <= at or pulled.next_offset >= pulled.max_offset
            at = pulled.next_offset
            if is_over or len(found) >= max_messages or size >= MAX_READ_BYTES:
                break
        if max_messages <= 0:
            return Pulled([], from_offset, pulled.min_offset, pulled.max_offset)
        return Pulled(found, at, pulled.min_offset, pulled.max_offset)

    async def pull_once(
        self,
        topic: str,
        queue: RouteQueue,
        from_offset: int,
        count: int,
        filter: FilterExpression | None = None,
        poll_ms: int = 0,
    ) -> Pulled:
        """Return what one request brings; with `poll_ms` it may wait for the first message.  Raises ILLEGAL_OFFSET,
        TOPIC_NOT_FOUND, MESSAGE_CORRUPTED."""
        pulled = await self.pull_records(topic, queue, from_offset, count, filter, poll_ms)
        found, following = self._stored(topic, queue, pulled.records), pulled.next_offset
        if found and len(found) < len(pulled.records):  # what is left is read next
            following = found[-1].queue_offset + 1
        return Pulled(found, following, pulled.min_offset, max(pulled.max_offset, following))

    async def pull_records(
        self,
        topic: str,
        queue: RouteQueue,
        from_offset: int,
        count: int,
        filter: FilterExpression | None = None,
        poll_ms: int = 0,
    ) -> PulledRecords:
        """Return what one request brings, as `pull_once`.  Raises MESSAGE_CORRUPTED only where the answer falls
        apart."""
        fields = {
            "consumerGroup": self._cluster.settings.reader_group,
            "topic": self._cluster.names.resource(topic),
            "queueId": queue.local_id,
            "queueOffset": from_offset,
            "maxMsgNums": count,
            "sysFlag": _SUBSCRIBED | (_SUSPEND if poll_ms else 0),
            "commitOffset": 0,
            "suspendTimeoutMillis": poll_ms,
            "subVersion": 0,
            "subscription": tags_for(filter),
            "expressionType": "TAG",
            "bname": queue.broker,
        }
        seconds = self._cluster.timeout_seconds + (poll_ms / 1000 + CHECK_SECONDS if poll_ms else 0)
        is_filtered = fields["subscription"] != EVERYTHING
        for _ in range(TRIES):
            answer = await self._pull(queue, fields, seconds)
            if answer.code != codes.PULL_RETRY or is_filtered or not queue.has_master:  # slaves may serve no reads
                break
            await asyncio.sleep(TRY_SECONDS)  # it may read the message a moment later
        least, end = _number(answer, "minOffset"), _number(answer, "maxOffset")
        following = max(_number(answer, "nextBeginOffset"), 0)
        if answer.code == codes.PULL_MOVED or from_offset < least or from_offset > end:
            if from_offset == least == end:  # a queue whose messages have all gone
                return PulledRecords([], from_offset, least, end, is_found=False)
            if not queue.has_master:
                raise EntrepotError(Code.UNAVAILABLE, f"the slave of {queue.broker!r} is behind offset {from_offset}")
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"offset {from_offset} is outside of {least} to {end}")
        if answer.code == codes.PULL_NOT_FOUND:
            return PulledRecords([], max(from_offset, following), least, end, is_found=False)  # maybe behind a gap
        if answer.code == codes.PULL_RETRY and not is_filtered and queue.has_master:
            text = "a broker cannot read messages, which are passed over"
            log.error(text, seldom="rocketmq", topic=topic, queue=queue.queue_id, first=from_offset, next=following)
        is_found = answer.code == SUCCESS
        records = [each for each in decode_records(answer.body) if each.queue_offset >= from_offset] if is_found else []
        if records and not is_filtered:  # behind a message that it cannot read now, a broker passes over all others
            following = records[-1].queue_offset + 1
        return PulledRecords(records, following, least, end, is_found)

    async def _pull(self, queue: RouteQueue, fields: dict[str, object], seconds: float) -> Frame:
        what = f"read topic {fields['topic']!r}"
        try:
            return await self._cluster.ask(queue.address, codes.PULL, fields, what=what, seconds=seconds, good=_PULLED)
        except EntrepotError as refusal:
            if refusal.code is not Code.CONSUMER_GROUP_NOT_FOUND:
                raise
        await self.make_reader_group()
        return await self._cluster.ask(queue.address, codes.PULL, fields, what=what, seconds=seconds, good=_PULLED)

    async def make_reader_group(self) -> None:
        """Make the group of reads by offset at all brokers, where they make none by themselves."""
        definition = json_body({"groupName": self._cluster.settings.reader_group, "consumeEnable": True})

        async def make(address: str) -> Frame:
            return await self._cluster.ask(address, codes.PUT_GROUP, None, definition, what="make a group")

        await self._cluster.ask_all(await self._cluster.masters(), make)

    def _stored(self, topic: str, queue: RouteQueue, records: list[Record]) -> list[StoredMessage]:
        """Return the messages of records, up to the first that cannot be read, or up to a size: bodies may grow when
        they are inflated.  Raises the fault of one that cannot be read if that is the first."""
        found: list[StoredMessage] = []
        size = 0
        for record in records:
            if size >= MAX_READ_BYTES:
                break
            try:
                found.append(self.message_of(topic, queue, record))
            except CorruptedError:
                if not found:
                    raise
                break
            size += len(found[-1].body)
        return found

    def message_of(self, topic: str, queue: RouteQueue, record: Record) -> StoredMessage:
        """Return the message of a record of a queue.  Raises MESSAGE_CORRUPTED."""
        message = stored_message(record, self._cluster.names, queue.queue_id, topic=topic)
        message.commit_log_offset += first_place(broker_number(queue.broker))
        return as_first_stored(message)

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        """Implements `MessageReader.matching_offsets` by reading, since RocketMQ has no index of names."""
        wanted = FilterExpression(FilterKind.SUB_TOPIC, topic_filter)
        pulled = await self.pull(topic, queue_id, from_offset, limit, wanted)
        return [message.queue_offset for message in pulled.messages], pulled.next_offset

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def bounds(self, topic: str) -> list[QueueBounds]:
        """Implements `MessageReader.bounds`."""
        route = await self._cluster.routes.of(topic)
        return list(await asyncio.gather(*(self.bounds_of(topic, queue) for queue in route.queues.values())))

    async def bounds_of(self, topic: str, queue: RouteQueue) -> QueueBounds:
        """Return the bounds of a queue."""
        least, end = await asyncio.gather(
            self._offset(topic, queue, codes.MIN_OFFSET), self._offset(topic, queue, codes.MAX_OFFSET)
        )
        return QueueBounds(queue.queue_id, least, end)

    async def _offset(self, topic: str, queue: RouteQueue, code: int, at_ms: int | None = None) -> int:
        fields: dict[str, object] = {
            "topic": self._cluster.names.resource(topic),
            "queueId": queue.local_id,
            "bname": queue.broker,
        }
        if code == codes.MAX_OFFSET:
            fields["committed"] = True
        if at_ms is not None:
            fields["timestamp"] = at_ms
        answer = await self._cluster.ask(queue.address, code, fields, what=f"tell offsets of topic {topic!r}")
        return max(_number(answer, "offset"), 0)

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Implements `MessageReader.offset_at`."""
        return await self.offset_of(topic, (await self._cluster.routes.of(topic)).queue(queue_id), position)

    async def offset_of(self, topic: str, queue: RouteQueue, position: Position) -> int:
        """Return the offset of a position in a queue."""
        if position.kind is PositionKind.EARLIEST:
            return await self._offset(topic, queue, codes.MIN_OFFSET)
        if position.kind is PositionKind.LATEST:
            return await self._sent.in_turn(topic, queue.queue_id, lambda: self._end(topic, queue))
        if position.kind is PositionKind.TIME:
            return await self._offset(topic, queue, codes.OFFSET_AT_TIME, position.value)
        least, end = await asyncio.gather(self._offset(topic, queue, codes.MIN_OFFSET), self._end(topic, queue))
        return min(max(position.value, least), end)

    async def _end(self, topic: str, queue: RouteQueue) -> int:
        """Return the offset behind all that is stored, as far as it is readable, or was confirmed to this gateway: a
        broker lets a message be read a moment after its confirm."""
        readable = await self._offset(topic, queue, codes.MAX_OFFSET)
        return max(readable, self._sent.ends.of(topic, queue.queue_id))

    async def until_readable(self, topic: str) -> bool:
        """Wait until what was confirmed to this gateway a moment ago is readable, for `MOST_READABLE_SECONDS` at most.
        Return True if there was such."""
        route = self._cluster.routes.known(topic)
        queues = () if route is None else route.queues.values()
        ends = [(queue, self._sent.ends.of(topic, queue.queue_id)) for queue in queues]
        waits = [self._until_readable(topic, queue, end) for queue, end in ends if end]
        with suppress(EntrepotError, TimeoutError):
            async with asyncio.timeout(MOST_READABLE_SECONDS):
                await asyncio.gather(*waits)
        return bool(waits)

    async def _until_readable(self, topic: str, queue: RouteQueue, end: int) -> None:
        while True:
            if await self._offset(topic, queue, codes.MAX_OFFSET) >= end:
                self._sent.ends.read(topic, queue.queue_id, end)
                return
            await asyncio.sleep(READABLE_STEP_SECONDS)

    async def offset_before(self, topic: str, queue: RouteQueue, before_ms: int) -> int:
        """Return the offset behind the last message of a queue that was stored before a time."""
        return await self._offset(topic, queue, codes.OFFSET_AT_TIME, before_ms)

    # -- tails -------------------------------------------------------------------------------------------------------

    def tail(self, topic: str, queue_id: int, start: int | Position | None, on_messages: OnMessages) -> QueueTail:
        """Implements `MessageReader.tail` by long polls.  Raises TOPIC_NOT_FOUND if the topic is not known here or has
        no such queue."""
        route = self._cluster.routes.known(topic)
        if route is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {topic!r} is not known here")
        queue = route.queue(queue_id)
        if start is None or (isinstance(start, Position) and start.kind is PositionKind.LATEST):
            end = self._sent.in_turn(topic, queue_id, lambda: self._end(topic, queue))
            return QueueTail(self, self._cluster, topic, queue_id, end, on_messages)
        return QueueTail(self, self._cluster, topic, queue_id, start, on_messages)


def _number(answer: Frame, name: str) -> int:
    text = answer.fields.get(name, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0
