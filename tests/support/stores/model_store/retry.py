"""Retries: retry topics, which keep one message from holding back progress, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty, SystemValue
from entrepot.domain.names import dead_letter_topic, is_retry_topic, retry_topic
from entrepot.domain.query import MOVED, RESENT, HopKind
from entrepot.domain.topic import Topic
from tests.support.stores.model_store.progress import Entry, GroupQueue
from tests.support.stores.model_store.state import Queue, State, as_message

Place = tuple[str, int, int]
"""(topic, queue id, queue offset)"""

RETRY_PLACE = (SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET)
DEAD_LETTER_PLACE = (
    SystemProperty.DEAD_LETTER_TOPIC,
    SystemProperty.DEAD_LETTER_QUEUE,
    SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
)
DEAD_LETTER_FACTS = (
    *DEAD_LETTER_PLACE,
    SystemProperty.DEAD_LETTER_MESSAGE_ID,
    SystemProperty.DEAD_LETTER_REASON,
    SystemProperty.DEAD_LETTER_ATTEMPTS,
    SystemProperty.DEAD_LETTER_TIME_MS,
)


class Retry:
    """Implements `domain.ports.Consumption.resend_dead_letters`, and the moves of a pop to retry and dead-letter
    topics."""

    def __init__(self, state: State, hold_back_limit: int) -> None:
        self._state = state
        self._hold_back_limit = hold_back_limit

    def move_pending(self, group: ConsumerGroup, topic: str, queue: Queue, progress: GroupQueue) -> None:
        """Move the first unsettled messages to the retry topic, with their attempts and deadlines.  It does so while
        too much was delivered behind them and no consumer holds them."""
        now = self._state.clock.now_ms()
        while progress.frontier - progress.committed >= self._hold_back_limit:
            offset = progress.committed
            entry, message = progress.entries.get(offset), queue.at(offset)
            if entry is None or message is None or entry.is_in_flight(now):
                return
            place = first_place(message) if is_retry_topic(queue.topic) else (message.topic, queue.queue_id, offset)
            moved = self._append(group, topic, message, place)
            states = self._state.group_queues.setdefault((group.name, moved.topic), {})
            states.setdefault(0, GroupQueue(0)).entries[moved.queue_offset] = Entry(entry.attempt, entry.deadline_ms)
            entry.is_settled = True
            self._trace(group, message, place, entry.attempt, MOVED)

    def _trace(self, group: ConsumerGroup, message: StoredMessage, place: Place, attempt: int, why: str) -> None:
        first = replace(message, queue_id=place[1], queue_offset=place[2])
        self._state.trace(HopKind.RETRIED, place[0], first, group.name, attempt, why)

    def _append(self, group: ConsumerGroup, topic: str, message: StoredMessage, place: Place) -> StoredMessage:
        name = retry_topic(group.name, topic)
        self._state.put_topic(self._state.topics.get(name) or Topic(name, queues=1))
        system = {**message.system, **dict(zip(RETRY_PLACE, map(str, place), strict=True))}
        self._state.store(as_message(message, topic=name, queue_id=0, system=system))
        self._state.announce_soon()
        return self._state.queue(name, 0).messages[-1]

    def bury(self, group: ConsumerGroup, topic: str, message: StoredMessage, entry: Entry, why: str) -> None:
        """Settle a message of `topic`, and store it as a dead letter."""
        entry.is_settled = True
        self._state.trace(HopKind.DEAD_LETTERED, topic, message, group.name, entry.attempt, why)
        name = dead_letter_topic(group.name)
        self._state.put_topic(self._state.topics.get(name) or Topic(name, queues=1))
        system = {
            **message.system,
            SystemProperty.DEAD_LETTER_TOPIC: topic,
            SystemProperty.DEAD_LETTER_QUEUE: str(message.queue_id),
            SystemProperty.DEAD_LETTER_QUEUE_OFFSET: str(message.queue_offset),
            SystemProperty.DEAD_LETTER_MESSAGE_ID: message.message_id.hex().upper(),
            SystemProperty.DEAD_LETTER_REASON: why,
            SystemProperty.DEAD_LETTER_ATTEMPTS: str(entry.attempt),
            SystemProperty.DEAD_LETTER_TIME_MS: self._state.clock.now_ms(),
        }
        self._state.store(as_message(message, topic=name, queue_id=0, system=system))
        self._state.announce_soon()

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        definition = self._state.group(group)
        return [self._resend(definition, queue_id, offset) for offset in queue_offsets]

    def _resend(self, group: ConsumerGroup, queue_id: int, offset: int) -> EntrepotError | None:
        name = dead_letter_topic(group.name)
        queue = self._state.queues.get((name, queue_id))
        message = None if queue is None else queue.at(offset)
        place = None if message is None else dead_letter_place(message)
        if message is None or place is None:
            return EntrepotError(Code.ILLEGAL_OFFSET, f"there is no dead letter at offset {offset} of {name!r}")
        if place[0] not in self._state.topics:
            return EntrepotError(Code.TOPIC_NOT_FOUND, f"topic {place[0]!r}, where it came from, is gone")
        self._append(group, place[0], replace(message, system=_without(message, DEAD_LETTER_FACTS)), place)
        self._trace(group, message, place, 0, RESENT)
        return None


def first_place(message: StoredMessage) -> Place:
    """Return the place where a message of a retry topic was read first, with the topic it was sent to."""
    topic, queue_id, offset = (str(message.system_text(name)) for name in RETRY_PLACE)
    return topic, int(queue_id), int(offset)


def as_first(message: StoredMessage) -> StoredMessage:
    """Return a message of a retry topic as first stored."""
    topic, queue_id, offset = first_place(message)
    system = _without(message, RETRY_PLACE)
    return replace(message, topic=topic, queue_id=queue_id, queue_offset=offset, system=system)


def dead_letter_place(message: StoredMessage) -> Place | None:
    """Return the place that a dead letter came from; None for other messages."""
    texts = [message.system_text(name) for name in DEAD_LETTER_PLACE]
    if None in texts:
        return None
    topic, queue_id, offset = map(str, texts)
    return topic, int(queue_id), int(offset)


def _without(message: StoredMessage, names: Sequence[str]) -> dict[str, SystemValue]:
    return {name: value for name, value in message.system.items() if name not in names}
