"""The shared state of the store's parts: queues, topics, groups and their watchers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, Final

import structlog

from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import DEFAULT_NAMESPACE, is_system_topic
from entrepot.domain.query import HopKind, MessageHop, is_failure, is_traced
from entrepot.domain.topic import Topic
from tests.support.stores.model_store.progress import GroupQueue

log = structlog.get_logger(__name__)

ABSENT_QUEUE: Final = "there is no queue {} of topic {!r}"


class Queue:
    """One message queue.  `min_offset` is above 0 for a queue that was removed once and came back."""

    def __init__(self, topic: str, queue_id: int, min_offset: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = min_offset
        self.messages: list[StoredMessage] = []

    @property
    def end(self) -> int:
        return self.min_offset + len(self.messages)

    def since(self, offset: int) -> list[StoredMessage]:
        """Return the messages from an offset on."""
        return self.messages[max(offset - self.min_offset, 0) :]

    def at(self, offset: int) -> StoredMessage | None:
        return self.messages[offset - self.min_offset] if self.min_offset <= offset < self.end else None


class State:
    """The state of a store.  `log`: every readable message by its place in the log, as it lies in the queue it was sent
    to.  `ended`: ends of removed queues.  `numbers`: those of topics (`Topology.made_at`).  `hops`: hops of traced
    messages.  `catch_up` delivers due timers: calls begin with it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.namespaces: set[str] = {DEFAULT_NAMESPACE}
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, ConsumerGroup] = {}
        self.queues: dict[tuple[str, int], Queue] = {}
        self.ended: dict[tuple[str, int], int] = {}
        self.log: dict[int, StoredMessage] = {}
        self.log_end = 0
        self.numbers = count(1)
        self.hops: dict[bytes, list[MessageHop]] = {}
        self.group_queues: dict[tuple[str, str], dict[int, GroupQueue]] = {}
        self.topic_watchers: list[Callable[[str], None]] = []
        self.growth_watchers: list[Callable[[], None]] = []
        self.changed = asyncio.Event()
        self.is_draining = False
        self.catch_up: Callable[[], None] = lambda: None

    # -- look-up -------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        return self.topics[name]

    def queue(self, topic: str, queue_id: int) -> Queue:
        if (topic, queue_id) not in self.queues:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, ABSENT_QUEUE.format(queue_id, topic))
        return self.queues[topic, queue_id]

    def queues_of(self, topic: str) -> list[Queue]:
        return [self.queues[topic, queue_id] for queue_id in range(self.topics[topic].queues)]

    def group(self, name: str) -> ConsumerGroup:
        if name not in self.groups:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        return self.groups[name]

    def lag(self, group: str, topic: str) -> int:
        """Return the number of messages of a topic that a group has not settled."""
        states = self.group_queues[group, topic]
        return sum(
            states[queue.queue_id].lag(queue.end) if queue.queue_id in states else len(queue.messages)
            for queue in self.queues_of(topic)
        )

    # -- storing -------------------------------------------------------------------------------------------------

    def next_place(self) -> int:
        """Return a new place in the log."""
        self.log_end += 1
        return self.log_end - 1

    def store(self, message: Message) -> None:
        """Store one record: an entry in its queue, and in each further one that still exists."""
        place, now = self.next_place(), self.clock.now_ms()
        for topic, queue_id in ((message.topic, message.queue_id), *message.further_queues):
            queue = self.queues.get((topic, queue_id))
            if queue is not None:
                stored = as_stored(message, queue_id=queue_id, queue_offset=queue.end, commit_log_offset=place)
                stored.store_time_ms = now
                queue.messages.append(stored)
                self.log.setdefault(place, stored)
                self.trace(HopKind.STORED, topic, stored)

    def trace(
        self,
        kind: HopKind,
        topic: str,
        message: StoredMessage,
        group: str = "",
        attempt: int = 0,
        detail: str = "",
        consumer: str = "",
        *,
        is_kept: bool = True,
    ) -> None:
        """Note a hop of a message, as first stored in a topic, if it is traced, or a failure that is kept."""
        found = self.topics.get(topic)
        if found is None or is_system_topic(topic) or not message.message_id:
            return
        if not is_traced(message.message_id, found.trace) and not (is_kept and is_failure(kind, attempt)):
            return
        place = topic, message.queue_id, message.queue_offset
        hop = MessageHop(kind, self.clock.now_ms(), *place, group, attempt, detail, consumer)
        self.hops.setdefault(message.message_id, []).append(hop)

    def drop_queue(self, topic: str, queue_id: int) -> None:
        """Delete a queue's messages, and the progress of groups on it."""
        queue = self.queues.pop((topic, queue_id))
        for message in queue.messages:
            if message.topic == topic and self.log.get(message.commit_log_offset) is message:
                del self.log[message.commit_log_offset]
        for (_, read), states in self.group_queues.items():
            if read == topic:
                states.pop(queue_id, None)
        self.ended[topic, queue_id] = queue.end

    # -- topics --------------------------------------------------------------------------------------------------

    def put_topic(self, topic: Topic) -> None:
        """Set the definition of a topic; nothing is checked."""
        previous = self.topics.get(topic.name)
        if previous == topic:
            return
        made_at = next(self.numbers) if previous is None else previous.made_at
        self.topics[topic.name] = replace(topic, made_at=made_at)
        for queue_id in range(topic.queues):
            place = (topic.name, queue_id)
            if place not in self.queues:
                self.queues[place] = Queue(*place, self.ended.get(place, 0))
        for queue_id in range(topic.queues, previous.queues if previous else 0):
            self.drop_queue(topic.name, queue_id)
        self.tell(topic.name)

    def drop_topic(self, name: str) -> None:
        for queue_id in range(self.topics.pop(name).queues):
            self.drop_queue(name, queue_id)
        self.ended = {place: end for place, end in self.ended.items() if place[0] != name}
        self.group_queues = {key: states for key, states in self.group_queues.items() if key[1] != name}
        self.tell(name)

    # -- watchers ------------------------------------------------------------------------------------------------

    def tell(self, topic: str) -> None:
        for fault in call_each(tuple(self.topic_watchers), topic):
            log.error("a watcher of topics failed", topic=topic, exc_info=fault)
        self.wake()

    def wake(self) -> None:
        """Wake those who wait, to look again."""
        self.changed.set()

    def announce(self) -> None:
        """Tell that queues have grown."""
        self.wake()
        for fault in call_each(tuple(self.growth_watchers)):
            log.error("a watcher of queues failed", exc_info=fault)

    def announce_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.announce)


def as_stored(message: Message, **changes: Any) -> StoredMessage:
    content = {name: getattr(message, name) for name in Message.__slots__}
    return StoredMessage(**{**content, **changes})


def as_message(message: Message, **changes: Any) -> Message:
    """Return a new message with the same content, in one queue only."""
    content = {name: getattr(message, name) for name in Message.__slots__}
    return Message(**{**content, "further_queues": (), **changes})
