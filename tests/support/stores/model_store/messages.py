"""Append and read by offset."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from entrepot.domain.acceptance import fits_a_record, lacks_key, too_large, unfit
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import MAX_FURTHER_QUEUES, Message, StoredMessage, compaction_key
from entrepot.domain.ports import Pulled, Tail
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Cleanup, QueueBounds
from tests.support.stores.model_store.state import ABSENT_QUEUE, Queue, State
from tests.support.stores.model_store.timers import Timers

OnMessages = Callable[[list[StoredMessage]], None]


class Messages:
    """Implements `domain.ports.MessageAppender` and `MessageReader`."""

    def __init__(self, state: State, timers: Timers, max_message_bytes: int) -> None:
        self._state = state
        self._timers = timers
        self._max_message_bytes = max_message_bytes

    # -- appending -----------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        self._state.catch_up()
        refusals = self.refusals(messages)
        for message, refusal in zip(messages, refusals, strict=True):
            if refusal is None:
                self._timers.accept(message)
        return self.confirmation(refusals)

    def confirmation(self, refusals: list[EntrepotError | None]) -> Confirmation:
        """Return a confirmation that is settled soon, and not within the call."""
        confirmation = Confirmation(refusals if any(refusals) else None)
        asyncio.get_running_loop().call_soon(self._confirm, confirmation)
        return confirmation

    def _confirm(self, confirmation: Confirmation) -> None:
        confirmation.settle()
        self._state.announce()

    def refusals(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        """Return a refusal or None for each message.  Backlogs count as they are before the batch."""
        named = {topic for message in messages for topic, _ in _destinations(message)}
        full = {name for name in named if self._is_full(name)}
        return [self._refusal(message, full) for message in messages]

    def _refusal(self, message: Message, full: set[str]) -> EntrepotError | None:
        if not fits_a_record(message):
            return unfit(message)
        if len(message.further_queues) > MAX_FURTHER_QUEUES:
            return EntrepotError(Code.BAD_REQUEST, f"a message goes to {MAX_FURTHER_QUEUES} further queues at most")
        owners = [self._state.topics.get(topic) for topic, _ in _destinations(message)]
        if not compaction_key(message) and any(o is not None and o.cleanup is Cleanup.COMPACT for o in owners):
            return lacks_key()
        for topic, queue_id in _destinations(message):
            refusal = self._refusal_at(topic, queue_id, message)
            if refusal is None and topic in full:
                refusal = EntrepotError(Code.TOO_MANY_REQUESTS, f"the backlog of topic {topic!r} is at its limit")
            if refusal is not None:
                return refusal
        return self._timers.refusal(message)

    def _refusal_at(self, name: str, queue_id: int, message: Message) -> EntrepotError | None:
        if (name, queue_id) not in self._state.queues:
            return EntrepotError(Code.TOPIC_NOT_FOUND, ABSENT_QUEUE.format(queue_id, name))
        topic = self._state.topics[name]
        limit = min(self._max_message_bytes, topic.max_message_bytes or self._max_message_bytes)
        if len(message.body) > limit:
            return too_large(len(message.body), limit)
        if not topic.permission.writable:
            return EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not writable")
        if queue_id >= topic.writable_queues:
            return EntrepotError(Code.FORBIDDEN, f"queue {queue_id} of topic {name!r} takes no new messages")
        return None

    def _is_full(self, name: str) -> bool:
        topic = self._state.topics.get(name)
        if topic is None or topic.max_backlog is None:
            return False
        readers = [group for group, read in self._state.group_queues if read == name]
        return any(self._state.lag(group, name) >= topic.max_backlog for group in readers)

    @property
    def backlogged(self) -> bool:
        return False

    def when_relieved(self, callback: Callable[[], None]) -> None:
        callback()

    # -- reading -------------------------------------------------------------------------------------------------

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        return self._read(self._queue(topic, queue_id), from_offset)[:max_messages]

    def _read(self, queue: Queue, from_offset: int) -> list[StoredMessage]:
        if not queue.min_offset <= from_offset <= queue.end:
            raise EntrepotError(
                Code.ILLEGAL_OFFSET, f"offset {from_offset} is outside of {queue.min_offset} to {queue.end}"
            )
        return queue.since(from_offset)

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        queue = self._queue(topic, queue_id)
        compiled = None if filter is None else compile_filter(filter)
        found: list[StoredMessage] = []
        next_offset = from_offset
        for message in self._read(queue, from_offset):
            if len(found) >= max_messages:
                break
            next_offset = message.queue_offset + 1
            if compiled is None or compiled.matches(message):
                found.append(message)
        return Pulled(found, next_offset, queue.min_offset, queue.end)

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        pulled = await self.pull(
            topic, queue_id, from_offset, limit, FilterExpression(FilterKind.SUB_TOPIC, topic_filter)
        )
        return [message.queue_offset for message in pulled.messages], pulled.next_offset

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        return offset_at(self._queue(topic, queue_id), position)

    async def bounds(self, topic: str) -> list[QueueBounds]:
        self._state.catch_up()
        self._state.topic(topic)
        return [QueueBounds(queue.queue_id, queue.min_offset, queue.end) for queue in self._state.queues_of(topic)]

    def tail(self, topic: str, queue_id: int, start: int | Position | None, on_messages: OnMessages) -> Tail:
        queue = self._queue(topic, queue_id)
        if start is None:
            start = queue.end
        elif isinstance(start, Position):
            start = offset_at(queue, start)
        tail = _QueueTail(self._state, queue, start, on_messages)
        asyncio.get_running_loop().call_soon(tail.hand_over)
        return tail

    def _queue(self, topic: str, queue_id: int) -> Queue:
        self._state.catch_up()
        return self._state.queue(topic, queue_id)


class _QueueTail:
    """Implements `domain.ports.Tail`."""

    def __init__(self, state: State, queue: Queue, start: int, on_messages: OnMessages) -> None:
        self._watchers = state.growth_watchers
        self._queue, self._on_messages = queue, on_messages
        self.next_offset = start
        self._watchers.append(self.hand_over)

    def when_begun(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        if self.hand_over in self._watchers:
            self._watchers.remove(self.hand_over)

    def hand_over(self) -> None:
        messages = self._queue.since(self.next_offset)
        if messages and self.hand_over in self._watchers:
            self.next_offset = self._queue.end
            self._on_messages(messages)


def _destinations(message: Message) -> list[tuple[str, int]]:
    return [(message.topic, message.queue_id), *message.further_queues]


def offset_at(queue: Queue, position: Position) -> int:
    """Return the queue offset of a position."""
    if position.kind is PositionKind.EARLIEST:
        return queue.min_offset
    if position.kind is PositionKind.LATEST:
        return queue.end
    if position.kind is PositionKind.OFFSET:
        return min(max(position.value, queue.min_offset), queue.end)
    return next((m.queue_offset for m in queue.messages if m.store_time_ms >= position.value), queue.end)
