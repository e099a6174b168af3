"""PullMessage, UpdateOffset, GetOffset, QueryOffset: reading by offset, with progress kept or given by the client."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import check_same_namespace
from entrepot.domain.ports import Pulled
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.gateway.rocketmq.caller import Caller, Write
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.names import NAMESPACES, group_of, topic_of
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.delivered import delivered
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError
from entrepot.protocols.rocketmq.filters import filter_of
from entrepot.protocols.rocketmq.names import milliseconds

PART: Final = "rocketmq pull"
ANSWER_MS: Final = 500
"""Part of a client's time limit that is left for the answer itself, in milliseconds."""


class Offsets:
    """The four calls."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self._frontend = frontend

    async def pull(self, question: v2.PullMessageRequest, caller: Caller, write: Write) -> None:
        """Send messages from an offset on, then the next offset."""
        topic, queue_id = self._queue(question.message_queue, caller)
        if question.group.name:
            self._frontend.access.check_group(caller, group_of(question.group))
        wanted = filter_of(question.filter_expression)
        limit = min(max(question.batch_size, 1), self._frontend.settings.max_receive_messages)
        wait_ms = min(
            milliseconds(question.long_polling_timeout), int(self._frontend.settings.long_polling_seconds * 1000)
        )
        if caller.remaining_ms is not None:
            wait_ms = min(wait_ms, caller.remaining_ms - ANSWER_MS)
        self._frontend.check_room_to_wait()
        self._frontend.counters.waiting += 1
        try:
            pulled = await self._pulled(topic, queue_id, question.offset, limit, wanted, wait_ms)
        finally:
            self._frontend.counters.waiting -= 1
        status = OK_STATUS if pulled.messages else v2.Status(code=v2.MESSAGE_NOT_FOUND, message="no new message")
        await write(v2.PullMessageResponse(status=status))
        for answer in self._frontend.sender.incidents.encoded(PART, pulled.messages, _answer, lambda message: message):
            await write(answer)
        await write(v2.PullMessageResponse(next_offset=pulled.next_offset))

    async def _pulled(
        self, topic: str, queue_id: int, offset: int, limit: int, wanted: FilterExpression | None, wait_ms: int
    ) -> Pulled:
        """Return the messages that are there, or come within the time."""
        store, loop = self._frontend.store, asyncio.get_running_loop()
        pulled = await store.messages.pull(topic, queue_id, offset, limit, wanted)
        end = loop.time() + wait_ms / 1000
        while not pulled.messages and loop.time() < end and not self._frontend.is_stopping:
            offset = max(offset, pulled.next_offset)
            grown = asyncio.Event()
            tail = store.messages.tail(topic, queue_id, offset, partial(_wake, grown))
            try:
                await self._frontend.wait_for(grown.wait(), end - loop.time())
            finally:
                tail.close()
            pulled = await store.messages.pull(topic, queue_id, offset, limit, wanted)
        return pulled

    async def update(self, question: v2.UpdateOffsetRequest, caller: Caller) -> v2.UpdateOffsetResponse:
        """Set a group's offset in one queue."""
        topic, queue_id = self._queue(question.message_queue, caller)
        group = self._group(question.group, topic, caller)
        store = self._frontend.store
        bounds = {queue.queue_id: queue for queue in await store.messages.bounds(topic)}
        end = bounds[queue_id].max_offset
        if not 0 <= question.offset <= end:
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"offset {question.offset} is outside of 0 to {end}")
        await self._frontend.ensure_group(group)
        await store.consumption.reset_group(group, topic, Position(PositionKind.OFFSET, question.offset), queue_id)
        return v2.UpdateOffsetResponse(status=OK_STATUS)

    async def get(self, question: v2.GetOffsetRequest, caller: Caller) -> v2.GetOffsetResponse:
        """Return a group's offset in one queue."""
        topic, queue_id = self._queue(question.message_queue, caller)
        group = self._group(question.group, topic, caller)
        store = self._frontend.store
        if store.topology.group(group) is not None:
            for progress in (await store.topology.group_status(group)).progress:
                if (progress.topic, progress.queue_id) == (topic, queue_id):
                    return v2.GetOffsetResponse(status=OK_STATUS, offset=progress.committed_offset)
        raise WireError(v2.OFFSET_NOT_FOUND, "the group has not read that queue")

    async def query(self, question: v2.QueryOffsetRequest, caller: Caller) -> v2.QueryOffsetResponse:
        """Return the offset of an end of a queue, or of a time."""
        topic, queue_id = self._queue(question.message_queue, caller)
        position = EARLIEST_POSITION
        if question.query_offset_policy == v2.END:
            position = LATEST_POSITION
        elif question.query_offset_policy == v2.TIMESTAMP:
            if not question.HasField("timestamp"):
                raise WireError(v2.BAD_REQUEST, "the policy TIMESTAMP needs a timestamp")
            position = Position(PositionKind.TIME, max(milliseconds(question.timestamp), 0))
        elif question.query_offset_policy != v2.BEGINNING:
            raise WireError(v2.BAD_REQUEST, f"there is no policy {question.query_offset_policy}")
        offset = await self._frontend.store.messages.offset_at(topic, queue_id, position)
        return v2.QueryOffsetResponse(status=OK_STATUS, offset=offset)

    def _queue(self, queue: v2.MessageQueue, caller: Caller) -> tuple[str, int]:
        """Return an existing queue. Raises TOPIC_NOT_FOUND, BAD_REQUEST, FORBIDDEN."""
        store = self._frontend.store
        name = topic_of(queue.topic, is_read=True)
        self._frontend.access.check_read(caller, name)
        topic = store.topology.topic(name)
        if topic is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        if not topic.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        if queue.id not in store.topology.queues(topic).readable:
            raise EntrepotError(Code.BAD_REQUEST, f"topic {name!r} has no queue {queue.id}")
        return name, queue.id

    def _group(self, resource: v2.Resource, topic: str, caller: Caller) -> str:
        group = group_of(resource)
        self._frontend.access.check_group(caller, group)
        check_same_namespace(topic, group)
        return group


def _wake(grown: asyncio.Event, messages: list[StoredMessage]) -> None:
    grown.set()


def _answer(message: StoredMessage) -> v2.PullMessageResponse:
    return v2.PullMessageResponse(message=delivered(message, NAMESPACES))
