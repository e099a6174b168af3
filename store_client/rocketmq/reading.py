"""Read by offset: PULL_MESSAGE, the bounds of queues, and offsets of times.

A pull names its subscription itself and stores no offset, so one group serves all gateways, without heartbeats.  A
broker answers a bad SQL expression with everything: only tags go to it, to save traffic, and every filter is applied
here.
"""

from __future__ import annotations

import asyncio
from typing import Final

from entrepot.domain.broker_of_queue import broker_number, first_place
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage, as_first_stored
from entrepot.domain.ports import Pulled
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS, Frame
from entrepot.protocols.rocketmq.remoting.messages import stored_message
from entrepot.protocols.rocketmq.remoting.records import Record, decode_records
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.routes import RouteQueue
from entrepot.store_client.rocketmq.tails import OnMessages, QueueTail

MOST_AT_ONCE: Final = 32
"""Most messages that a broker gives in one answer."""
MAX_READ_BYTES: Final = 4 << 20
"""Bodies after which a read goes no further."""
CHECK_SECONDS: Final = 5.0
"""Interval at which a broker looks at held pulls: one may last that much longer than asked."""
_SUSPEND, _SUBSCRIBED = 2, 4
_PULLED: Final = (SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_RETRY, codes.PULL_MOVED)


class Reading:
    """Implements `domain.ports.MessageReader`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

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
        tags = filter is not None and filter.kind is FilterKind.TAG
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
            "subscription": filter.text if tags and filter is not None and filter.text else "*",
            "expressionType": "TAG",
            "bname": queue.broker,
        }
        seconds = self._cluster.timeout_seconds + (poll_ms / 1000 + CHECK_SECONDS if poll_ms else 0)
        answer = await self._pull(queue, fields, seconds)
        least, end = _number(answer, "minOffset"), _number(answer, "maxOffset")
        following = max(_number(answer, "nextBeginOffset"), 0)
        if answer.code == codes.PULL_MOVED or from_offset < least or from_offset > end:
            if from_offset == least == end:  # a queue whose messages have all gone
                return Pulled([], from_offset, least, end)
            if not queue.has_master:
                raise EntrepotError(Code.UNAVAILABLE, f"the slave of {queue.broker!r} is behind offset {from_offset}")
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"offset {from_offset} is outside of {least} to {end}")
        records = decode_records(answer.body) if answer.code == SUCCESS else []
        found = self._stored(topic, queue, [record for record in records if record.queue_offset >= from_offset])
        if found and len(found) < len(records):  # one that cannot be read is the next
            following = found[-1].queue_offset + 1
        elif answer.code == codes.PULL_NOT_FOUND:
            following = from_offset
        return Pulled(found, following, least, max(end, following))

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
        """Return the messages of records, up to the first that cannot be read.  Raises its fault if that is the
        first."""
        found: list[StoredMessage] = []
        for record in records:
            try:
                message = stored_message(record, self._cluster.names, queue.queue_id, topic=topic)
            except CorruptedError:
                if not found:
                    raise
                break
            message.commit_log_offset += first_place(broker_number(queue.broker))
            found.append(as_first_stored(message))
        return found

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
            return await self._offset(topic, queue, codes.MAX_OFFSET)
        if position.kind is PositionKind.TIME:
            return await self._offset(topic, queue, codes.OFFSET_AT_TIME, position.value)
        bounds = await self.bounds_of(topic, queue)
        return min(max(position.value, bounds.min_offset), bounds.max_offset)

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
        route.queue(queue_id)
        return QueueTail(self, self._cluster, topic, queue_id, start, on_messages)


def _number(answer: Frame, name: str) -> int:
    text = answer.fields.get(name, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0
