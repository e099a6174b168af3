"""`domain.ports.Messages` on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from broker.consume.places import check_inside, place_of
from broker.consume.runs import read_run
from broker.consume.scan import scan_filtered
from broker.consume.tail import QueueTail
from broker.ports.core import BrokerCore
from broker.retention.watermarks import DiskState
from broker.store.consume_queue import ConsumeQueue
from broker.store.record_runs import bytes_between
from domain.acceptance import lacks_key, too_large
from domain.confirmation import Confirmation
from domain.errors import Code, CorruptedError, EntrepotError, StorageFullError
from domain.expression.filter import FilterExpression, FilterKind, compile_filter
from domain.message import Message, StoredMessage, compaction_key
from domain.ports import Pulled, Tail
from domain.position import Position
from domain.topic import QueueBounds, Topic

MAX_READ_BYTES: Final = 16 << 20
"""How much of the log one read takes into memory: a longer answer ends early."""


class Messages:
    """Appending, reading by offset, tails."""

    _backlogs: dict[str, int]

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._engine, self._registry = core.engine, core.registry
        # looked at for every message that is appended
        self._queues = core.engine.dispatcher.queues
        self._constrained = core.registry.constrained
        self._max_message_bytes = core.settings.max_message_bytes
        self.when_relieved = core.commit.when_relieved

    def append(self, messages: Sequence[Message]) -> Confirmation:
        self._backlogs = {}
        if self._core.disk_state >= DiskState.REFUSE:
            return Confirmation([StorageFullError() for _ in messages]).settled_now()
        if self._registry.compacted and not all(map(self._has_needed_key, messages)):
            return self._append_keyed(messages)
        taken_at, now_ms = perf_counter(), self._core.now_ms()
        ends = self._core.tracer.ends_of(messages) if self._registry.traced else None
        refusals = self._engine.append_messages(messages, self._queue_for, now_ms)
        if ends:
            self._core.tracer.stored(messages, refusals, ends, now_ms)
        return self._submit(messages, refusals, taken_at)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        self._backlogs = {}
        if self._core.disk_state >= DiskState.REFUSE:
            return Confirmation([StorageFullError() for _ in messages]).settled_now()
        taken_at = perf_counter()
        keyed = [message for message in messages if self._has_needed_key(message)]
        found = iter(self._engine.append_half(keyed, self._queue_for, self._core.now_ms()) or [None] * len(keyed))
        refusals = [next(found) if self._has_needed_key(message) else lacks_key() for message in messages]
        return self._submit(messages, refusals if any(refusals) else None, taken_at)

    def _submit(
        self, messages: Sequence[Message], refusals: list[EntrepotError | None] | None, taken_at: float
    ) -> Confirmation:
        taken = len(messages) if refusals is None else refusals.count(None)
        return self._core.commit.submit(Confirmation(refusals), taken, taken_at)

    def _has_needed_key(self, message: Message) -> bool:
        compacted = self._registry.compacted
        needs_one = message.topic in compacted or any(topic in compacted for topic, _ in message.further_queues)
        return not needs_one or bool(compaction_key(message))

    def _append_keyed(self, messages: Sequence[Message]) -> Confirmation:
        """Append those that do not lack a key."""
        refusals: list[EntrepotError | None] = [
            None if self._has_needed_key(message) else lacks_key() for message in messages
        ]
        places = [place for place, refusal in enumerate(refusals) if refusal is None]
        confirmation = self.append([messages[place] for place in places])
        for place, refusal in zip(places, confirmation.refusals or (), strict=False):
            refusals[place] = refusal
        confirmation.refusals = refusals
        return confirmation

    def _queue_for(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        queue = self._queues.get((topic, queue_id))
        if queue is None or body_bytes > self._max_message_bytes or topic in self._constrained:
            return self._queue_with_limits(topic, queue_id, body_bytes)
        return queue

    def _queue_with_limits(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        """What is looked at more closely: most messages are not."""
        queue = self._engine.existing_queue(topic, queue_id)
        if body_bytes > self._max_message_bytes:
            raise too_large(body_bytes, self._max_message_bytes)
        constrained = self._constrained.get(topic)
        refusal = None if constrained is None else self._refusal_of(constrained, queue_id, body_bytes)
        if refusal is not None:
            raise refusal
        return queue

    def _refusal_of(self, topic: Topic, queue_id: int, body_bytes: int) -> EntrepotError | None:
        """Why a message may not be appended to a topic that has limits of its own."""
        if not topic.permission.writable:
            return EntrepotError(Code.FORBIDDEN, f"topic {topic.name!r} is not writable")
        if queue_id >= topic.queues:
            return EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic.name!r}")
        if queue_id >= topic.writable_queues:
            return EntrepotError(Code.FORBIDDEN, f"queue {queue_id} of topic {topic.name!r} is not writable")
        if topic.max_message_bytes is not None and body_bytes > topic.max_message_bytes:
            return too_large(body_bytes, topic.max_message_bytes)
        if topic.max_backlog is not None:
            backlog = self._backlogs.get(topic.name)
            if backlog is None:
                backlog = self._backlogs[topic.name] = self._core.consumption.backlog(topic)
            if backlog >= topic.max_backlog:
                return EntrepotError(
                    Code.TOO_MANY_REQUESTS,
                    f"a group of topic {topic.name!r} is {backlog} messages behind, the limit is {topic.max_backlog}",
                )
        return None

    @property
    def backlogged(self) -> bool:
        return self._core.commit.backlogged

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        queue = self._core.existing_queue(topic, queue_id)
        check_inside(queue, from_offset)
        return self._read(queue, from_offset, max_messages)

    def _read(self, queue: ConsumeQueue, from_offset: int, max_messages: int) -> list[StoredMessage]:
        entries = queue.entries(from_offset, max_messages)
        size = 0
        places: list[tuple[int, tuple[int, int, int]]] = []
        for queue_offset, entry in enumerate(entries, from_offset):
            size += entry[1]
            if places and size > MAX_READ_BYTES:
                break
            places.append((queue_offset, entry))
        messages: list[StoredMessage] = []
        for item in self._engine.read_places(queue, places):
            if isinstance(item, CorruptedError):
                if messages:
                    break  # what precedes the damage is good; the next read meets it first
                raise item
            messages.append(item)
        return messages

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        queue = self._core.existing_queue(topic, queue_id)
        check_inside(queue, from_offset)
        compiled = None if filter is None else compile_filter(filter)
        if compiled is None or compiled.accepts_all:
            messages = self._read(queue, from_offset, max_messages)
            next_offset = from_offset + len(messages)
        else:
            found = scan_filtered(self._engine, queue, from_offset, queue.visible_offset, compiled, max_messages)
            messages, next_offset = found.messages, found.next_offset
            if found.corrupted:
                if not messages or messages[0].queue_offset > found.corrupted[0]:
                    raise CorruptedError(f"message {found.corrupted[0]} of {topic}/{queue_id} is harmed")
                messages = [message for message in messages if message.queue_offset < found.corrupted[0]]
                next_offset = found.corrupted[0]
        return Pulled(messages, next_offset, queue.min_offset, queue.visible_offset)

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> bytes:
        """The records from an offset up to another, in the form of `protocols.remoting.records`.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), ILLEGAL_FILTER_EXPRESSION,
        MESSAGE_CORRUPTED (a filter cannot look at a harmed message).
        """
        queue = self._core.existing_queue(topic, queue_id)
        return read_run(self._engine, queue, from_offset, to_offset, max_bytes, filter)

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """About how many bytes of the log the messages from an offset up to another have.  Raises TOPIC_NOT_FOUND."""
        queue = self._core.existing_queue(topic, queue_id)
        return bytes_between(queue, max(from_offset, queue.min_offset), min(to_offset, queue.visible_offset))

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        queue = self._core.existing_queue(topic, queue_id)
        check_inside(queue, from_offset)
        compile_filter(FilterExpression(FilterKind.SUB_TOPIC, topic_filter))
        return self._engine.lookup.matching_offsets(queue, topic_filter, from_offset, limit)

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        return place_of(self._engine, self._core.existing_queue(topic, queue_id), position)

    async def bounds(self, topic: str) -> list[QueueBounds]:
        return self._core.bounds_of(self._core.existing_topic(topic))

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        queue = self._core.existing_queue(topic, queue_id)
        if start is None:
            start = queue.visible_offset
        elif isinstance(start, Position):
            start = place_of(self._engine, queue, start)
        return QueueTail(self._engine, queue, start, on_messages)
