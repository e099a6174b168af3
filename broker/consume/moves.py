"""Moves: dead letters, and retries moved out of the way of newer messages.

Each is one log record that stores the message again and settles its source, so that it is never lost and never doubled.
`%DLQ%<group>` holds messages that a group gave up. `%RETRY%<group>+<topic>` holds messages that would stop the group's
window on the topic. They wait there with their attempts, and pops of the topic deliver them as the original messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from entrepot.broker.consume.progress import MOVED_QUEUE
from entrepot.broker.consume.trace import Tracer
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.metadata.registry import Registry, put_topic
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_trailer import (
    NOWHERE,
    Move,
)
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, Place, StoredMessage, SystemProperty, SystemValue, as_first_stored
from entrepot.domain.names import dead_letter_topic, retry_topic
from entrepot.domain.query import MOVED, RESENT, HopKind
from entrepot.domain.topic import Cleanup, Topic


@dataclass(slots=True)
class Moves:
    """An appender of moved messages."""

    engine: StorageEngine
    registry: Registry
    tracer: Tracer

    def bury(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        group: ConsumerGroup,
        messages: Sequence[StoredMessage],
        why: str,
        now_ms: int,
    ) -> None:
        """Move messages to the group's dead letters."""
        name = dead_letter_topic(group.name)
        self._ensure_topic(name, now_ms)
        for message in messages:
            move = Move(group.name, queue.topic, queue.queue_id, message.queue_offset)
            place = topic, queue_id, queue_offset = _first_place(message, queue)
            attempts = window.attempt(message.queue_offset)
            system = dict(as_first_stored(message).system)
            system[SystemProperty.DEAD_LETTER_TOPIC] = topic
            system[SystemProperty.DEAD_LETTER_QUEUE] = str(queue_id)
            system[SystemProperty.DEAD_LETTER_QUEUE_OFFSET] = str(queue_offset)
            system[SystemProperty.DEAD_LETTER_MESSAGE_ID] = message.message_id.hex().upper()
            system[SystemProperty.DEAD_LETTER_REASON] = why
            system[SystemProperty.DEAD_LETTER_ATTEMPTS] = str(attempts)
            system[SystemProperty.DEAD_LETTER_TIME_MS] = now_ms
            self.engine.append_moved(RecordKind.DEAD_LETTER, _copy(message, name, system), move, now_ms)
            self.tracer.note(HopKind.DEAD_LETTERED, place, message.message_id, now_ms, group.name, attempts, why)

    def retry_later(
        self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, message: StoredMessage, now_ms: int
    ) -> None:
        """Move a message to the group's retry topic, with its attempts and due time."""
        at = message.queue_offset
        move = Move(group.name, queue.topic, queue.queue_id, at, window.attempt(at), window.deadline(at))
        self._retry(as_first_stored(message), _first_place(message, queue), move, MOVED, now_ms)

    def resend(self, letter: StoredMessage, group: ConsumerGroup, now_ms: int) -> None:
        """Send a dead letter again, from its first attempt on. Raises TOPIC_NOT_FOUND if its source topic is gone."""
        system = letter.system
        topic = str(system[SystemProperty.DEAD_LETTER_TOPIC])
        if topic not in self.registry.topics:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r} any more")
        place = (
            topic,
            int(system[SystemProperty.DEAD_LETTER_QUEUE]),
            int(system[SystemProperty.DEAD_LETTER_QUEUE_OFFSET]),
        )
        kept = {name: value for name, value in system.items() if not name.startswith("dead_letter_")}
        original = replace(letter, topic=topic, system=kept)
        move = Move(group.name, letter.topic, NOWHERE, letter.queue_offset)
        self._retry(original, place, move, RESENT, now_ms)

    def _retry(self, original: StoredMessage, place: Place, move: Move, why: str, now_ms: int) -> None:
        name = retry_topic(move.group, place[0])
        self._ensure_topic(name, now_ms)
        system = dict(original.system)
        system[SystemProperty.RETRY_TOPIC] = place[0]
        system[SystemProperty.RETRY_QUEUE] = str(place[1])
        system[SystemProperty.RETRY_QUEUE_OFFSET] = str(place[2])
        if original.topic != place[0]:
            system[SystemProperty.SENT_TO] = original.topic
        self.engine.append_moved(RecordKind.RETRY, _copy(original, name, system), move, now_ms)
        self.tracer.note(HopKind.RETRIED, place, original.message_id, now_ms, move.group, move.attempts, why)

    def _ensure_topic(self, name: str, now_ms: int) -> None:
        if name not in self.registry.topics:
            topic = Topic(name, queues=1, cleanup=Cleanup.CONSUMED)
            self.engine.append_record(RecordKind.METADATA, put_topic(topic), now_ms)


def _first_place(message: StoredMessage, queue: ConsumeQueue) -> Place:
    """Return the place where the group first met a message read in a queue."""
    system = message.system
    if SystemProperty.RETRY_TOPIC not in system:
        return queue.topic, queue.queue_id, message.queue_offset
    return (
        str(system[SystemProperty.RETRY_TOPIC]),
        int(system[SystemProperty.RETRY_QUEUE]),
        int(system[SystemProperty.RETRY_QUEUE_OFFSET]),
    )


def _copy(message: StoredMessage, topic: str, system: dict[str, SystemValue]) -> Message:
    """Return a copy for another topic, with origin and reason in the system properties."""
    return Message(
        topic=topic,
        body=message.body,
        sub_topic=message.sub_topic,
        queue_id=MOVED_QUEUE,
        qos=message.qos,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        message_id=message.message_id,
        born_time_ms=message.born_time_ms,
        filter_hash=message.filter_hash,
        properties=message.properties,
        system=system,
    )
