"""A message, before and after it is stored.  One is made per message on the hottest path, hence `slots` and no
freezing; treat messages as values all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

PropertyValue = str | bytes
SystemValue = str | bytes | int
"""Value of a well-known property: a number for a time."""
Properties = tuple[tuple[str, PropertyValue], ...]
Destinations = tuple[tuple[str, int], ...]
"""Message queues, as (topic, queue id)."""
Place = tuple[str, int, int]
"""A place in a message queue, as (topic, queue id, queue offset)."""
MAX_FURTHER_QUEUES: Final = 20_000
MAX_TAG_BYTES: Final = 255
MAX_MESSAGE_ID_BYTES: Final = 255
MAX_MESSAGE_GROUP_BYTES: Final = 65_535
MAX_TIME_DIGITS: Final = 19
MAX_KEYS_BYTES: Final = 65_535
"""Limit of all keys of a message together, with one byte between two."""


class _NoProperties(dict[str, SystemValue]):
    """The empty mapping that messages share: hashable for use as a dataclass default, and immutable."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __setitem__(self, name: str, value: SystemValue) -> None:
        raise TypeError("the shared empty properties cannot be changed")


NO_SYSTEM_PROPERTIES: Final[Mapping[str, SystemValue]] = _NoProperties()


class SharedProperties(dict[str, SystemValue]):
    """Well-known properties shared by many messages, together with the user's; immutable.  `encoded`: both as the store
    that first encoded them writes them.  It holds for messages with this very mapping as `system` and these very `user`
    properties; changed properties are other objects."""

    __slots__ = ("encoded", "user")

    def __init__(self, system: Mapping[str, SystemValue], user: Properties = ()) -> None:
        super().__init__(system)
        self.user = user
        self.encoded = b""

    def __setitem__(self, name: str, value: SystemValue) -> None:
        raise TypeError("shared properties cannot be changed")


ROUND_ROBIN: Final = -1
"""`Message.queue_id` of a message without a chosen queue."""
BY_SUB_TOPIC: Final = -2
"""`Message.queue_id` of a message for the queue of its whole sub-topic, even where that is the topic alone."""


class SystemProperty:
    """Names of the well-known properties, which survive a change of protocol.  Values are text unless noted; times are
    numbers, in epoch milliseconds."""

    CONTENT_TYPE: Final = "content_type"
    CORRELATION_ID: Final = "correlation_id"  # bytes
    REPLY_TO: Final = "reply_to"
    EXPIRES_AT_MS: Final = "expires_at_ms"  # a time
    PAYLOAD_IS_TEXT: Final = "payload_is_text"  # producer's declaration of the body: "1" UTF-8, "0" bytes
    RETAIN: Final = "retain"  # "1": published to be kept as the last of its name (MQTT)
    PUBLISHER: Final = "publisher"  # the sending MQTT client, if it wants none of its own messages back (No Local)
    BORN_HOST: Final = "born_host"
    PROTOCOL: Final = "protocol"  # protocol of the producer: mqtt, http
    DEAD_LETTER_TOPIC: Final = "dead_letter_topic"  # of a dead letter: place where the group read it first
    DEAD_LETTER_QUEUE: Final = "dead_letter_queue"
    DEAD_LETTER_QUEUE_OFFSET: Final = "dead_letter_queue_offset"
    DEAD_LETTER_MESSAGE_ID: Final = "dead_letter_message_id"
    DEAD_LETTER_REASON: Final = "dead_letter_reason"
    DEAD_LETTER_ATTEMPTS: Final = "dead_letter_attempts"
    DEAD_LETTER_TIME_MS: Final = "dead_letter_time_ms"  # a time
    FED_FROM: Final = "fed_from"  # of a message for a subscription's sink: queue, offset, topic it was sent to
    RETRY_TOPIC: Final = "retry_topic"  # of a message in a retry: the topic it was sent to
    RETRY_QUEUE: Final = "retry_queue"  # and the place where the group read it first
    RETRY_QUEUE_OFFSET: Final = "retry_queue_offset"
    SENT_TO: Final = "sent_to"  # topic a retry was sent to, if other than RETRY_TOPIC
    PRIORITY: Final = "priority"  # decimal, 0 is the lowest
    DELIVER_AT_MS: Final = "deliver_at_ms"  # a time: not to be delivered before
    TRANSACTION_ID: Final = "transaction_id"
    CHECK_AFTER_MS: Final = "check_after_ms"  # milliseconds: allowed silence of a half message's producer
    PLAIN_NAMES: Final = "plain_names"  # "1": ce_ before names of user properties is the MQTT publisher's own
    AMQP: Final = "amqp"  # bytes: exchange, routing key and properties as an AMQP client published them
    AMQP_BCC: Final = "amqp_bcc"  # bytes: routing keys of an AMQP client's BCC header, which consumers do not get
    BRIDGE: Final = "bridge"  # the bridge that the message came by
    TAKEN_IN: Final = "taken_in"  # of a traced topic's message: door, gateway and client that took it


TIMES: Final = frozenset(
    (
        SystemProperty.EXPIRES_AT_MS,
        SystemProperty.DELIVER_AT_MS,
        SystemProperty.CHECK_AFTER_MS,
        SystemProperty.DEAD_LETTER_TIME_MS,
    )
)
"""Well-known properties with numbers as values."""


_RETRY_PROPERTIES: Final = (
    SystemProperty.RETRY_TOPIC,
    SystemProperty.RETRY_QUEUE,
    SystemProperty.RETRY_QUEUE_OFFSET,
    SystemProperty.SENT_TO,
)


def as_texts(system: Mapping[str, SystemValue]) -> Mapping[str, PropertyValue]:
    """Return well-known properties as stored and sent: times as decimal text."""
    if TIMES.isdisjoint(system):
        return system  # type: ignore[return-value]
    return {name: str(value) if isinstance(value, int) else value for name, value in system.items()}


def of_texts(system: Mapping[str, SystemValue]) -> Mapping[str, SystemValue]:
    """Reverse `as_texts`.  Times that are not numbers stay text and count for nothing."""
    if TIMES.isdisjoint(system):
        return system
    return {name: _number(value) if name in TIMES else value for name, value in system.items()}


def _number(value: SystemValue) -> SystemValue:
    is_number = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= MAX_TIME_DIGITS
    return int(value) if is_number else value


@dataclass(slots=True)
class Message:
    """A message from a producer.

    `sub_topic` is always the full name in MQTT's form with the topic as its first level (`factory/line1/temp`).
    `message_group` is RocketMQ's FIFO key.  `properties` are the user's, in order; names may repeat.  `qos` is the
    strongest delivery that the producer asked for: 0 at most once, 1 at least once, 2 as strong as the subscriber likes
    (default of protocols without the notion).  `message_id` is the client's own, or 16 bytes made by the gateway: 48
    bits of born time in milliseconds, 48 of the gateway process, 32 of a count.

    `further_queues`: queues of other topics that get an entry for the same record (store once, refer many).  A message
    read there keeps the topic it was sent to, and has the queue id and offset of where it is read.
    """

    topic: str
    body: bytes
    sub_topic: str = ""
    queue_id: int = ROUND_ROBIN
    qos: int = 2
    tag: str = ""
    keys: tuple[str, ...] = ()
    message_group: str = ""
    message_id: bytes = b""
    born_time_ms: int = 0
    filter_hash: int = 0
    properties: Properties = ()
    system: Mapping[str, SystemValue] = NO_SYSTEM_PROPERTIES
    further_queues: Destinations = ()

    def system_text(self, name: str) -> str | None:
        """Return the well-known property as text, or None."""
        value = self.system.get(name)
        if value is None or isinstance(value, str):
            return value
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def time_ms(self, name: str) -> int | None:
        """Return the well-known property as a time, or None."""
        value = self.system.get(name) if self.system else None
        return value if isinstance(value, int) else None

    def placed(self, places: Sequence[tuple[str, int]]) -> Message:
        """Return the message for only these of its queues.  If its own queue is not among them, it gets the topic of
        the first, and SENT_TO names the original topic."""
        (topic, queue_id), *further = places
        system = self.system if topic == self.topic else {**self.system, SystemProperty.SENT_TO: self.topic}
        return replace(self, topic=topic, queue_id=queue_id, further_queues=tuple(further), system=system)


@dataclass(slots=True)
class MessageInDoubt(Message):
    """A message that an earlier try of its producer may have stored, or may store yet: brokers take it if they lack
    it."""


def in_doubt(message: Message) -> MessageInDoubt:
    """Return a message as one that may be stored."""
    return MessageInDoubt(*(getattr(message, each.name) for each in fields(Message)))


@dataclass(slots=True)
class StoredMessage(Message):
    """A message with its place: its permanent queue offset, and its record's offset in the commit log.
    `further_places`: its places in further queues."""

    queue_offset: int = 0
    commit_log_offset: int = 0
    store_time_ms: int = 0
    further_places: tuple[Place, ...] = ()


def is_over(message: Message, now_ms: int, lifetime_ms: int | None) -> bool:
    """True if the message has expired, or was born at least `lifetime_ms` ago."""
    if lifetime_ms is not None and now_ms - message.born_time_ms >= lifetime_ms:
        return True
    expires_at_ms = message.time_ms(SystemProperty.EXPIRES_AT_MS)
    return expires_at_ms is not None and expires_at_ms <= now_ms


def ordering_key(message: Message) -> str:
    """Return the message group, else a sub-topic below the topic: messages with one key are kept in order.  Empty for
    none."""
    if message.message_group:
        return message.message_group
    return message.sub_topic if "/" in message.sub_topic else ""


def compaction_key(message: Message) -> str:
    """Return the key under which messages of a compacted topic replace each other; empty if there is none.  It is the
    message group, else the sub-topic below the topic, else the first key.  (An event's first key is its unique id.)"""
    if message.message_group:
        return message.message_group
    if message.sub_topic and message.sub_topic != message.topic:
        return message.sub_topic
    return message.keys[0] if message.keys else ""


def dead_letter_origin(message: Message) -> tuple[str, str, str] | None:
    """Return the topic, queue and offset that a dead letter came from, as texts; None for other messages.  A dead
    letter of a subscription came from the subscribed topic, not from the subscription's feed."""
    topic = message.system_text(SystemProperty.DEAD_LETTER_TOPIC)
    if topic is None:
        return None
    fed_from = (message.system_text(SystemProperty.FED_FROM) or "").split(" ", 2)
    if len(fed_from) == 3:
        return fed_from[2], fed_from[0], fed_from[1]
    return (
        topic,
        message.system_text(SystemProperty.DEAD_LETTER_QUEUE) or "",
        message.system_text(SystemProperty.DEAD_LETTER_QUEUE_OFFSET) or "",
    )


def as_first_stored(message: StoredMessage) -> StoredMessage:
    """Return a message of a retry topic as first stored: with its topic, queue and offset then.  A message for queues
    of several brokers carries SENT_TO on all but one of them, without being a retry."""
    system = message.system
    topic = system.get(SystemProperty.SENT_TO) or system.get(SystemProperty.RETRY_TOPIC)
    if topic is None:
        return message
    if SystemProperty.RETRY_TOPIC not in system:
        kept = {name: value for name, value in system.items() if name != SystemProperty.SENT_TO}
        return replace(message, topic=str(topic), system=kept)
    return replace(
        message,
        topic=str(topic),
        queue_id=int(system[SystemProperty.RETRY_QUEUE]),
        queue_offset=int(system[SystemProperty.RETRY_QUEUE_OFFSET]),
        system={name: value for name, value in system.items() if name not in _RETRY_PROPERTIES},
    )


def place_of(topic: str, queue_id: int, offset: int) -> str:
    """Return the place of a stored message, as operators write it: `topic/queue@offset`."""
    return f"{topic}/{queue_id}@{offset}"


def place_of_message(message: Message) -> str:
    """Return the place of a message; its topic alone before it is stored."""
    if isinstance(message, StoredMessage):
        return place_of(message.topic, message.queue_id, message.queue_offset)
    return message.topic
