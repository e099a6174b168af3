"""Moves: dead letters, and retries out of the way of newer messages; each is one log record that stores the message
again and settles the one it was made from, so that it is never lost and never both.

`%DLQ%<group>` holds what a group gave up.  `%RETRY%<group>+<topic>` holds what would keep the group's window on the
topic from moving on: it waits there with its attempts, and pops of the topic deliver it as what it was first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from broker.consume.progress import origin
from broker.consume.window import ConsumeWindow
from broker.metadata.registry import Registry, put_topic
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind
from domain.consumer_group import ConsumerGroup
from domain.message import Message, PropertyValue, StoredMessage, SystemProperty
from domain.names import dead_letter_topic, retry_topic
from domain.topic import Cleanup, Topic

MOVED_QUEUE = 0
_RETRY_PROPERTIES = (
    SystemProperty.RETRY_TOPIC,
    SystemProperty.RETRY_QUEUE,
    SystemProperty.RETRY_QUEUE_OFFSET,
    SystemProperty.RETRY_ATTEMPTS,
    SystemProperty.RETRY_VISIBLE_AT_MS,
    SystemProperty.MOVED_FROM,
)


@dataclass(slots=True)
class Moves:
    """Appends what is moved."""

    engine: StorageEngine
    registry: Registry

    def bury(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        group: ConsumerGroup,
        messages: Sequence[StoredMessage],
        why: str,
        now_ms: int,
    ) -> None:
        """To the group's dead letters."""
        name = dead_letter_topic(group.name)
        self._ensure_topic(name, now_ms)
        for message in messages:
            attempts = window.attempt(message.queue_offset)
            original = _as_first_read(message, queue)
            system = _moving(original, message, group, queue)
            system[SystemProperty.DEAD_LETTER_TOPIC] = original.topic
            system[SystemProperty.DEAD_LETTER_QUEUE] = str(original.queue_id)
            system[SystemProperty.DEAD_LETTER_QUEUE_OFFSET] = str(original.queue_offset)
            system[SystemProperty.DEAD_LETTER_MESSAGE_ID] = message.message_id.hex().upper()
            system[SystemProperty.DEAD_LETTER_REASON] = why
            system[SystemProperty.DEAD_LETTER_ATTEMPTS] = str(attempts)
            system[SystemProperty.DEAD_LETTER_TIME_MS] = str(now_ms)
            self.engine.append_derived(RecordKind.DEAD_LETTER, _copy(message, name, system), now_ms)

    def retry_later(
        self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, message: StoredMessage, now_ms: int
    ) -> None:
        """To the group's retry topic, with its attempts and the time at which it is due."""
        original = _as_first_read(message, queue)
        system = {
            **_moving(original, message, group, queue),
            SystemProperty.RETRY_ATTEMPTS: str(window.attempt(message.queue_offset)),
            SystemProperty.RETRY_VISIBLE_AT_MS: str(window.deadline(message.queue_offset)),
        }
        self._retry(original, group, system, now_ms)

    def resend(self, letter: StoredMessage, group: ConsumerGroup, now_ms: int) -> None:
        """A dead letter, to be tried again from the first attempt on."""
        system = dict(letter.system)
        place = (
            str(system.get(SystemProperty.DEAD_LETTER_TOPIC, letter.topic)),
            int(system.get(SystemProperty.DEAD_LETTER_QUEUE, "0")),
            int(system.get(SystemProperty.DEAD_LETTER_QUEUE_OFFSET, "0")),
        )
        for name in [name for name in system if name.startswith("dead_letter_")]:
            del system[name]
        # what its record settles is the dead letter's place for nobody: no group has a window of that name
        system[SystemProperty.MOVED_FROM] = origin(group.name, letter.topic, -1, letter.queue_offset)
        original = replace(letter, topic=place[0], queue_id=place[1], queue_offset=place[2])
        self._retry(original, group, system, now_ms)

    def _retry(
        self, original: StoredMessage, group: ConsumerGroup, system: dict[str, PropertyValue], now_ms: int
    ) -> None:
        name = retry_topic(group.name, original.topic)
        self._ensure_topic(name, now_ms)
        system[SystemProperty.RETRY_TOPIC] = original.topic
        system[SystemProperty.RETRY_QUEUE] = str(original.queue_id)
        system[SystemProperty.RETRY_QUEUE_OFFSET] = str(original.queue_offset)
        self.engine.append_derived(RecordKind.RETRY, _copy(original, name, system), now_ms)

    def _ensure_topic(self, name: str, now_ms: int) -> None:
        if name not in self.registry.topics:
            topic = Topic(name, queues=1, cleanup=Cleanup.CONSUMED)
            self.engine.append_record(RecordKind.METADATA, put_topic(topic), now_ms)


def as_first_stored(message: StoredMessage) -> StoredMessage:
    """What a message of a retry topic was first: with the topic, queue and offset it had."""
    topic = message.system.get(SystemProperty.RETRY_TOPIC)
    if topic is None:
        return message
    return replace(
        message,
        topic=str(topic),
        queue_id=int(message.system[SystemProperty.RETRY_QUEUE]),
        queue_offset=int(message.system[SystemProperty.RETRY_QUEUE_OFFSET]),
        system={name: value for name, value in message.system.items() if name not in _RETRY_PROPERTIES},
    )


def _as_first_read(message: StoredMessage, queue: ConsumeQueue) -> StoredMessage:
    """What it was first, with the place where the group read it: one of its further queues, perhaps."""
    if SystemProperty.RETRY_TOPIC in message.system:
        return as_first_stored(message)
    return message if message.topic == queue.topic else replace(message, topic=queue.topic)


def _moving(
    original: StoredMessage, message: StoredMessage, group: ConsumerGroup, queue: ConsumeQueue
) -> dict[str, PropertyValue]:
    """Its system properties, with the place that the new record settles where that is not the original's.

    What a dead letter or retry itself says of that is about the record that made it, and goes.
    """
    system = dict(original.system)
    system.pop(SystemProperty.MOVED_FROM, None)
    if SystemProperty.RETRY_TOPIC in message.system:
        system[SystemProperty.MOVED_FROM] = origin(group.name, queue.topic, queue.queue_id, message.queue_offset)
    return system


def _copy(message: StoredMessage, topic: str, system: dict[str, PropertyValue]) -> Message:
    """The same content for another topic; origin and reason are in the system properties."""
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
