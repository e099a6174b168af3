"""The reference store: dictionaries and lists, obviously right, nothing kept.

Property tests run it beside the real one, and examples use it.  It confirms at once: to be in memory is all the
durability it has.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from domain.clock import Clock
from domain.confirmation import Confirmation
from domain.consumer_group import EARLIEST, LATEST, ConsumerGroup, GroupStatus, QueueProgress, parse_start
from domain.errors import Code, EntrepotError
from domain.message import Delivery, Message, StoredMessage, SystemProperty
from domain.names import check_group_name, check_topic_name, dead_letter_group, dead_letter_topic
from domain.ports import PopRequest, Tail
from domain.topic import QueueBounds, Topic, TopicStatus


@dataclass(slots=True)
class _Progress:
    """What a group knows of one message."""

    attempt: int = 0
    deadline_ms: int = 0
    handle: str = ""
    is_settled: bool = False


class _GroupQueue:
    """A group on one queue: where it began, and one entry per message it has met."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.messages: dict[int, _Progress] = {}

    def committed(self) -> int:
        offset = self.start
        while (entry := self.messages.get(offset)) is not None and entry.is_settled:
            offset += 1
        return offset


class _ListTail:
    def __init__(self, store: MemoryStore, key: tuple[str, int], start: int, on_messages: _OnMessages) -> None:
        self._store, self._key, self._on_messages = store, key, on_messages
        self.next_offset = start
        store.tails.append(self)

    def close(self) -> None:
        if self in self._store.tails:
            self._store.tails.remove(self)

    def hand_over(self) -> None:
        messages = self._store.queues.get(self._key, [])[self.next_offset :]
        if messages and self in self._store.tails:
            self.next_offset += len(messages)
            self._on_messages(messages)


_OnMessages = Callable[[list[StoredMessage]], None]


class MemoryStore:
    """Implements `domain.ports.Store`."""

    def __init__(
        self, clock: Clock, *, max_message_bytes: int = 4 << 20, group_defaults: ConsumerGroup | None = None
    ) -> None:
        self._clock = clock
        self._max_message_bytes = max_message_bytes
        self._group_defaults = group_defaults or ConsumerGroup("defaults")
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, ConsumerGroup] = {}
        self._stored = 0
        self._group_since: dict[str, int] = {}
        self._group_queues: dict[tuple[str, str], dict[int, _GroupQueue]] = {}
        self._handles: dict[str, tuple[str, str, int, int]] = {}
        self._watchers: list[Callable[[str], None]] = []
        self._changed = asyncio.Event()
        self._released = False
        self.queues: dict[tuple[str, int], list[StoredMessage]] = {}
        self.tails: list[_ListTail] = []

    # -- messages ------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[Message]) -> Confirmation:
        refusals: list[EntrepotError | None] = [self._append_one(message) for message in messages]
        confirmation = Confirmation(refusals if any(refusals) else None)
        asyncio.get_running_loop().call_soon(self._confirm, confirmation)
        return confirmation

    def _confirm(self, confirmation: Confirmation) -> None:
        confirmation.settle()
        self._wake()
        for tail in tuple(self.tails):
            tail.hand_over()

    def _append_one(self, message: Message) -> EntrepotError | None:
        queue = self.queues.get((message.topic, message.queue_id))
        if queue is None:
            return EntrepotError(
                Code.TOPIC_NOT_FOUND, f"there is no queue {message.queue_id} of topic {message.topic!r}"
            )
        if len(message.body) > self._max_message_bytes:
            return EntrepotError(
                Code.MESSAGE_BODY_TOO_LARGE,
                f"the body has {len(message.body)} bytes, the limit is {self._max_message_bytes}",
            )
        if not self._topics[message.topic].permission.writable:
            return EntrepotError(Code.FORBIDDEN, f"topic {message.topic!r} is not writable")
        self._store(queue, message)
        return None

    def _store(self, queue: list[StoredMessage], message: Message) -> None:
        content = {name: getattr(message, name) for name in Message.__slots__}
        queue.append(StoredMessage(**content, queue_offset=len(queue), commit_log_offset=self._stored))
        queue[-1].store_time_ms = self._clock.now_ms()
        self._stored += 1

    @property
    def backlogged(self) -> bool:
        return False

    def when_relieved(self, callback: Callable[[], None]) -> None:
        callback()

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        queue = self._queue(topic, queue_id)
        if not 0 <= from_offset <= len(queue):
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"offset {from_offset} is outside of 0 to {len(queue)}")
        return queue[from_offset : from_offset + max_messages]

    async def bounds(self, topic: str) -> list[QueueBounds]:
        return self._bounds(self._topic(topic))

    def _bounds(self, topic: Topic) -> list[QueueBounds]:
        return [QueueBounds(i, 0, len(self.queues[topic.name, i])) for i in range(topic.queues)]

    def tail(self, topic: str, queue_id: int, from_offset: int | None, on_messages: _OnMessages) -> Tail:
        queue = self._queue(topic, queue_id)
        start = len(queue) if from_offset is None else from_offset
        tail = _ListTail(self, (topic, queue_id), start, on_messages)
        asyncio.get_running_loop().call_soon(tail.hand_over)
        return tail

    # -- consumption ---------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> list[Delivery]:
        loop = asyncio.get_running_loop()
        end = loop.time() + request.wait_ms / 1000
        while True:
            topic = self._readable_topic(request.topic)
            group = await self._group_or_new(request.group)
            deliveries = self._pop_now(topic, group, request)
            remaining = end - loop.time()
            if deliveries or remaining <= 0 or self._released:
                return deliveries
            self._changed.clear()
            due = self._next_due(topic, group)
            if due is not None:
                remaining = min(remaining, max(due - self._clock.now_ms(), 1) / 1000)
            try:
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _pop_now(self, topic: Topic, group: ConsumerGroup, request: PopRequest) -> list[Delivery]:
        now = self._clock.now_ms()
        invisible_ms = group.invisible_seconds * 1000 if request.invisible_ms is None else request.invisible_ms
        deliveries: list[Delivery] = []
        for queue_id, state in self._states(topic, group).items():
            for message in self.queues[topic.name, queue_id][state.start :]:
                if len(deliveries) == request.max_messages:
                    return deliveries
                entry = state.messages.setdefault(message.queue_offset, _Progress())
                if entry.is_settled or entry.deadline_ms > now:
                    continue
                if entry.attempt >= group.max_attempts:
                    self._bury(message, entry, group, "max attempts reached")
                    continue
                entry.attempt += 1
                entry.deadline_ms = now + invisible_ms
                entry.handle = secrets.token_urlsafe(24)
                self._handles[entry.handle] = (topic.name, group.name, queue_id, message.queue_offset)
                deliveries.append(Delivery(message, entry.handle, entry.attempt))
        return deliveries

    def _next_due(self, topic: Topic, group: ConsumerGroup) -> int | None:
        deadlines = [
            entry.deadline_ms
            for state in self._states(topic, group).values()
            for entry in state.messages.values()
            if entry.attempt and not entry.is_settled
        ]
        return min(deadlines, default=None)

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        return self._settle(topic, group, receipt_handles, lambda message, entry: setattr(entry, "is_settled", True))

    async def change_invisible_duration(
        self, topic: str, group: str, receipt_handles: Sequence[str], invisible_ms: int | None, *, release: bool
    ) -> list[EntrepotError | None]:
        now = self._clock.now_ms()

        def change(message: StoredMessage, entry: _Progress) -> None:
            entry.deadline_ms = now + (
                self._groups[group].invisible_seconds * 1000 if invisible_ms is None else invisible_ms
            )
            if release:
                entry.handle = ""

        outcomes = self._settle(topic, group, receipt_handles, change)
        self._wake()
        return outcomes

    async def reject(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        return self._settle(
            topic, group, receipt_handles, lambda m, entry: self._bury(m, entry, self._groups[group], "rejected")
        )

    def _settle(
        self, topic: str, group: str, handles: Sequence[str], change: Callable[[StoredMessage, _Progress], None]
    ) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        for handle in handles:
            place = self._handles.get(handle)
            entry = None
            if place is not None and place[:2] == (topic, group):
                entry = self._group_queues.get((group, topic), {})[place[2]].messages[place[3]]
            if place is None or entry is None or entry.handle != handle or entry.is_settled:
                outcomes.append(EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not current"))
            else:
                change(self.queues[topic, place[2]][place[3]], entry)
                outcomes.append(None)
        return outcomes

    def _bury(self, message: StoredMessage, entry: _Progress, group: ConsumerGroup, why: str) -> None:
        entry.is_settled = True
        name = dead_letter_topic(group.name)
        if name not in self._topics:
            self._put_topic(Topic(name, queues=1))
        system = {
            **message.system,
            SystemProperty.DEAD_LETTER_TOPIC: message.topic,
            SystemProperty.DEAD_LETTER_QUEUE: str(message.queue_id),
            SystemProperty.DEAD_LETTER_QUEUE_OFFSET: str(message.queue_offset),
            SystemProperty.DEAD_LETTER_MESSAGE_ID: message.message_id.hex().upper(),
            SystemProperty.DEAD_LETTER_REASON: why,
            SystemProperty.DEAD_LETTER_ATTEMPTS: str(entry.attempt),
        }
        content = {field: getattr(message, field) for field in Message.__slots__}
        dead = Message(**{**content, "topic": name, "queue_id": 0, "system": system})
        self._store(self.queues[name, 0], dead)

    def _states(self, topic: Topic, group: ConsumerGroup) -> dict[int, _GroupQueue]:
        states = self._group_queues.setdefault((group.name, topic.name), {})
        is_new = not states
        for queue_id in range(topic.queues):
            if queue_id not in states:
                start = self._start(topic, queue_id, group) if is_new else 0
                states[queue_id] = _GroupQueue(start)
        return states

    def _start(self, topic: Topic, queue_id: int, group: ConsumerGroup) -> int:
        if group.start == EARLIEST or dead_letter_group(topic.name) is not None:
            return 0
        since_ms = parse_start(group.start)
        queue = self.queues[topic.name, queue_id]
        for message in queue:
            if since_ms is None and message.commit_log_offset >= self._group_since[group.name]:
                return message.queue_offset
            if since_ms is not None and message.store_time_ms >= since_ms:
                return message.queue_offset
        return len(queue)

    def release_waiting(self) -> None:
        self._released = True
        self._changed.set()

    def _wake(self) -> None:
        self._changed.set()

    # -- topology ------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topics(self) -> list[Topic]:
        return sorted(self._topics.values(), key=lambda topic: topic.name)

    async def put_topic(self, topic: Topic) -> Topic:
        existing = self._topics.get(topic.name)
        check_topic_name(topic.name, system_allowed=existing is not None)
        if existing is not None and topic.queues < existing.queues:
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"topic {topic.name!r} has {existing.queues} queues: they can grow, not shrink",
            )
        self._put_topic(topic)
        return topic

    def _put_topic(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        for queue_id in range(topic.queues):
            self.queues.setdefault((topic.name, queue_id), [])
        self._tell(topic.name)

    async def delete_topic(self, name: str) -> None:
        self._topic(name)
        del self._topics[name]
        self.queues = {key: queue for key, queue in self.queues.items() if key[0] != name}
        self._group_queues = {key: state for key, state in self._group_queues.items() if key[1] != name}
        self._handles = {handle: place for handle, place in self._handles.items() if place[0] != name}
        self._tell(name)

    async def topic_status(self, name: str) -> TopicStatus:
        topic = self._topic(name)
        return TopicStatus(topic, self._bounds(topic))

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        check_group_name(group.name)
        previous = self._groups.get(group.name)
        if previous is None or (group.start == LATEST and previous.start != LATEST):
            self._group_since[group.name] = self._stored
        self._groups[group.name] = group
        return group

    async def delete_group(self, name: str) -> None:
        self._group(name)
        del self._groups[name]
        self._group_queues = {key: state for key, state in self._group_queues.items() if key[0] != name}
        self._handles = {handle: place for handle, place in self._handles.items() if place[1] != name}

    def group(self, name: str) -> ConsumerGroup | None:
        return self._groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return sorted(self._groups.values(), key=lambda group: group.name)

    async def group_status(self, name: str) -> GroupStatus:
        group, now = self._group(name), self._clock.now_ms()
        progress = []
        for (owner, topic), states in sorted(self._group_queues.items()):
            for queue_id, state in sorted(states.items()):
                if owner != name:
                    continue
                end = len(self.queues[topic, queue_id])
                settled = sum(entry.is_settled for entry in state.messages.values())
                in_flight = sum(
                    bool(entry.handle) and not entry.is_settled and entry.deadline_ms > now
                    for entry in state.messages.values()
                )
                lag = end - state.start - settled
                progress.append(QueueProgress(topic, queue_id, state.committed(), end, in_flight, lag))
        return GroupStatus(group, progress)

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    @property
    def failure(self) -> EntrepotError | None:
        return None

    async def close(self) -> None:
        self.release_waiting()

    def _tell(self, name: str) -> None:
        for watcher in tuple(self._watchers):
            watcher(name)

    def _topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        return self._topics[name]

    def _readable_topic(self, name: str) -> Topic:
        owner = dead_letter_group(name)
        if name not in self._topics and owner is not None and owner in self._groups:
            self._put_topic(Topic(name, queues=1))
        topic = self._topic(name)
        if not topic.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        return topic

    def _queue(self, topic: str, queue_id: int) -> list[StoredMessage]:
        if (topic, queue_id) not in self.queues:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic!r}")
        return self.queues[topic, queue_id]

    def _group(self, name: str) -> ConsumerGroup:
        if name not in self._groups:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        return self._groups[name]

    async def _group_or_new(self, name: str) -> ConsumerGroup:
        return self._groups.get(name) or await self.put_group(replace(self._group_defaults, name=name))
