"""Delivered messages: stored messages on the wire for consumers.  Facts with a field of the wire are there and nowhere
else, so a message of a RocketMQ producer has its original user properties.  Other protocols' facts come as
`entrepot_<fact>` (`properties`)."""

from __future__ import annotations

from hashlib import md5
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from entrepot.domain.delivery import Delivery
from entrepot.domain.message import Message, PropertyValue, StoredMessage, SystemProperty, as_texts, dead_letter_origin
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.mapping import (
    BODY_IS_EMPTY,
    MESSAGE_ID_SIZE,
    QOS,
    SUB_TOPIC,
    say_tag_and_keys,
    wire_id,
)
from entrepot.protocols.rocketmq.names import MS_PER_SECOND, NANOS_PER_MS, Namespaces, timestamp
from entrepot.protocols.rocketmq.properties import (
    KEPT_PREFIX,
    PREFIX,
    REFUSED,
    TRACE_CONTEXT,
    carry,
    is_plain,
    is_value,
)
from entrepot.protocols.rocketmq.published import LITE_SEPARATOR, PROTOCOL

_IN_FIELDS: Final = frozenset(
    {
        SystemProperty.BORN_HOST,
        SystemProperty.DELIVER_AT_MS,
        SystemProperty.TRANSACTION_ID,
        SystemProperty.DEAD_LETTER_TOPIC,
        SystemProperty.DEAD_LETTER_MESSAGE_ID,
    }
)
_UNTOLD: Final = _IN_FIELDS | {
    SystemProperty.AMQP,
    SystemProperty.AMQP_BCC,
    SystemProperty.PLAIN_NAMES,
    SystemProperty.RETRY_TOPIC,
    SystemProperty.RETRY_QUEUE,
    SystemProperty.RETRY_QUEUE_OFFSET,
    SystemProperty.SENT_TO,
    SystemProperty.FED_FROM,
    SystemProperty.CHECK_AFTER_MS,
    SystemProperty.TAKEN_IN,
}
"""Properties with a field, and those of other protocols or the store itself."""
_PLAIN_SYSTEM: Final = frozenset({SystemProperty.PROTOCOL, SystemProperty.BORN_HOST})


def message_id_text(message_id: bytes) -> str:
    """Return the text of an id: the published form of 16 bytes, or the text that was sent."""
    if len(message_id) == MESSAGE_ID_SIZE:
        return wire_id(message_id)
    try:
        text = message_id.decode("ascii")
    except UnicodeDecodeError:
        return wire_id(message_id)
    return text if text.isprintable() else wire_id(message_id)


def delivered(message: StoredMessage, namespaces: Namespaces) -> v2.Message:
    """Return a stored message for a consumer."""
    wire = v2.Message()
    deliver_into(wire, message, namespaces)
    return wire


def deliver_into(wire: v2.Message, message: StoredMessage, namespaces: Namespaces, lite_parent: str = "") -> None:
    """Write a stored message into an empty one of the wire, which saves a copy.  `lite_parent`: the parent topic of its
    consumer's lite topics."""
    body = message.body
    wire.body = body
    namespace, plain = split_name(message.topic)
    topic = wire.topic
    topic.name = plain
    if namespace != DEFAULT_NAMESPACE:
        topic.resource_namespace = namespaces.resource(message.topic).resource_namespace
    system = wire.system_properties
    system.message_id = message_id_text(message.message_id)
    digest = system.body_digest
    digest.type = v2.MD5
    digest.checksum = md5(body, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = v2.IDENTITY
    system.message_type = v2.NORMAL
    _say_time(system.born_timestamp, message.born_time_ms)
    _say_time(system.store_timestamp, message.store_time_ms)
    system.queue_id = message.queue_id
    system.queue_offset = message.queue_offset
    facts: dict[str, PropertyValue] = {}
    if message.tag or message.keys:
        say_tag_and_keys(message, system, facts)
    if message.system:
        _say_system(message, system, facts)
    if message.message_group:
        system.message_group = message.message_group
        if system.message_type == v2.NORMAL:
            system.message_type = v2.FIFO
    if lite_parent:
        system.lite_topic = message.sub_topic[len(lite_parent) + len(LITE_SEPARATOR) :]
        system.message_type = v2.LITE
    elif message.sub_topic and message.sub_topic != plain:
        facts[SUB_TOPIC] = message.sub_topic
    if message.qos != 2:
        facts[QOS] = str(message.qos)
    if not body:
        facts[BODY_IS_EMPTY] = "1"
    if message.properties or facts:
        _say_properties(message, facts, wire)
        if trace_context := wire.user_properties.get(TRACE_CONTEXT):
            system.trace_context = trace_context


def _say_time(into: Timestamp, epoch_ms: int) -> None:
    into.seconds, rest = divmod(epoch_ms, MS_PER_SECOND)
    if rest:
        into.nanos = rest * NANOS_PER_MS


def _say_system(message: Message, system: v2.SystemProperties, facts: dict[str, PropertyValue]) -> None:
    own = message.system
    if born_host := own.get(SystemProperty.BORN_HOST):
        text = message.system_text(SystemProperty.BORN_HOST) or ""
        system.born_host = text if born_host and is_plain(text) else ""
    if own.keys() <= _PLAIN_SYSTEM and own.get(SystemProperty.PROTOCOL) == PROTOCOL:
        return
    facts |= {name: value for name, value in as_texts(own).items() if name not in _UNTOLD}
    correlation_id = facts.get(SystemProperty.CORRELATION_ID)
    if isinstance(correlation_id, bytes) and (shown := _plain_text(correlation_id)) is not None:
        facts[SystemProperty.CORRELATION_ID] = shown
    if facts.get(SystemProperty.PROTOCOL) == PROTOCOL:
        del facts[SystemProperty.PROTOCOL]
    if SystemProperty.TRANSACTION_ID in own:
        system.message_type = v2.TRANSACTION
    deliver_at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
    if deliver_at_ms is not None:
        system.message_type = v2.DELAY
        system.delivery_timestamp.CopyFrom(timestamp(deliver_at_ms))
    priority = message.system_text(SystemProperty.PRIORITY)
    if priority is not None and priority.isascii() and priority.isdecimal() and len(priority) < 10:
        facts.pop(SystemProperty.PRIORITY, None)
        system.priority = int(priority)
        system.message_type = v2.PRIORITY
    origin = dead_letter_origin(message)
    if origin is not None:
        system.dead_letter_queue.topic = origin[0]
        system.dead_letter_queue.message_id = _id_of_hex(
            message.system_text(SystemProperty.DEAD_LETTER_MESSAGE_ID) or ""
        )


def _plain_text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if is_plain(text) else None


def _id_of_hex(text: str) -> str:
    try:
        return message_id_text(bytes.fromhex(text))
    except ValueError:
        return text


def _say_properties(message: Message, facts: dict[str, PropertyValue], wire: v2.Message) -> None:
    properties = message.properties
    if not facts and all(_is_ordinary(name, value) for name, value in properties):
        carried = wire.user_properties
        last = ""
        for name, value in properties:
            if name <= last:
                break
            carried[name] = value  # type: ignore[assignment]
            last = name
        else:
            return
        carried.clear()
    kept = {name[len(KEPT_PREFIX) :]: value for name, value in properties if name.startswith(KEPT_PREFIX)}
    if kept:
        properties = tuple((name, value) for name, value in properties if not name.startswith(KEPT_PREFIX))
        facts = {**kept, **facts}
    wire.user_properties.update(carry(properties, facts, REFUSED, (PREFIX,), is_value))


def _is_ordinary(name: str, value: PropertyValue) -> bool:
    return isinstance(value, str) and is_plain(name) and is_value(value) and not name.startswith(PREFIX)


def add_delivery(system: v2.SystemProperties, delivery: Delivery, invisible_ms: int | None) -> None:
    """Add the delivery's receipt handle, attempt and invisible time."""
    system.receipt_handle = delivery.receipt_handle
    system.delivery_attempt = delivery.attempt
    if invisible_ms is not None:
        system.invisible_duration.seconds, rest = divmod(invisible_ms, MS_PER_SECOND)
        if rest:
            system.invisible_duration.nanos = rest * NANOS_PER_MS
