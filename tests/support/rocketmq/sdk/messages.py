"""Messages as a client of RocketMQ's gRPC protocol sends and reads them, for tests of the door."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message, PropertyValue, StoredMessage, SystemProperty, as_texts, of_texts
from entrepot.domain.names import split_name
from entrepot.domain.routing.queue_selector import priority_of
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.mapping import (
    BODY_IS_EMPTY,
    EMPTY_BODY,
    KEYS,
    MESSAGE_GROUP,
    MESSAGE_ID,
    MESSAGE_ID_SIZE,
    QOS,
    SUB_TOPIC,
    TAG,
    body_of,
    deliver_at_ms,
    domain_id,
    keys_of,
    say_tag_and_keys,
    wire_id,
)
from entrepot.protocols.rocketmq.names import Namespaces, milliseconds, timestamp
from entrepot.protocols.rocketmq.properties import bring_back, carry, is_plain

MAX_GROUP_BYTES = 63
UNKNOWN_PLACE = -1


def message_type(
    message: Message, accepted: Collection[v2.MessageType.ValueType], now_ms: int, *, is_half: bool = False
) -> v2.MessageType.ValueType:
    """Return RocketMQ's type of a message, for a topic that accepts these types (none, or UNSPECIFIED: any).  An
    ordinary message is FIFO or PRIORITY in a topic of only these.  Raises BAD_REQUEST if the topic does not accept it,
    or it has two types at once; ILLEGAL_DELIVERY_TIME for an invalid time."""
    is_later = (deliver_at_ms(message) or 0) > now_ms
    marks = [is_half, is_later, bool(message.message_group)]
    if sum(marks) > 1:
        raise EntrepotError(
            Code.BAD_REQUEST, "RocketMQ takes one of transaction, delivery time and message group, not two of them"
        )
    if not accepted or v2.MESSAGE_TYPE_UNSPECIFIED in accepted:
        accepted = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION)
    wanted = next((kind for kind, marked in zip(_MARKED, marks, strict=True) if marked), None)
    if wanted is None:
        has_priority = SystemProperty.PRIORITY in message.system
        order = (v2.PRIORITY, v2.NORMAL, v2.FIFO) if has_priority else (v2.NORMAL, v2.FIFO, v2.PRIORITY)
        wanted = next((kind for kind in order if kind in accepted), v2.NORMAL)
    if wanted not in accepted:
        takes = ", ".join(v2.MessageType.Name(kind) for kind in accepted)
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"topic {message.topic!r} of the cluster takes {takes} messages, this is {v2.MessageType.Name(wanted)}",
        )
    return wanted


_MARKED: Final = (v2.TRANSACTION, v2.DELAY, v2.FIFO)


def to_wire(message: Message, kind: v2.MessageType.ValueType, namespaces: Namespaces) -> v2.Message:
    """Return the message as `kind` (`message_type`).  It must have a message id."""
    facts: dict[str, PropertyValue] = dict(as_texts(message.system))
    system = v2.SystemProperties(message_id=wire_id(message.message_id), message_type=kind, body_encoding=v2.IDENTITY)
    if message.born_time_ms:
        system.born_timestamp.CopyFrom(timestamp(message.born_time_ms))
    born_host = message.system_text(SystemProperty.BORN_HOST) or ""
    system.born_host = born_host if is_plain(born_host) else ""
    if domain_id(system.message_id) != message.message_id:
        facts[MESSAGE_ID] = message.message_id
    say_tag_and_keys(message, system, facts)
    _say_kind(message, kind, system, facts)
    if message.sub_topic not in ("", split_name(message.topic)[1]):
        facts[SUB_TOPIC] = message.sub_topic
    if message.qos != 2:
        facts[QOS] = str(message.qos)
    if not message.body:
        facts[BODY_IS_EMPTY] = "1"
    return v2.Message(
        topic=namespaces.resource(message.topic),
        user_properties=carry(message.properties, facts),
        system_properties=system,
        body=message.body or EMPTY_BODY,
    )


def _say_kind(
    message: Message, kind: v2.MessageType.ValueType, system: v2.SystemProperties, facts: dict[str, PropertyValue]
) -> None:
    group = ""
    if kind == v2.FIFO:
        # in a topic of FIFO messages only, a sub-topic stays in order
        group = _wire_group(message.message_group or message.sub_topic or message.topic)
        system.message_group = group
    if group != message.message_group:
        facts[MESSAGE_GROUP] = message.message_group
    if kind == v2.DELAY:
        system.delivery_timestamp.CopyFrom(timestamp(deliver_at_ms(message) or 0))
    if kind == v2.PRIORITY:
        system.priority = priority_of(message)


def _wire_group(group: str) -> str:
    """Return the group, or a hash of one that RocketMQ does not accept."""
    if is_plain(group) and len(group.encode()) <= MAX_GROUP_BYTES:
        return group
    return blake2b(group.encode("utf-8", "surrogatepass"), digest_size=MESSAGE_ID_SIZE).hexdigest()


def from_wire(wire: v2.Message, namespaces: Namespaces, queue_id: int | None = None) -> StoredMessage:
    """Return the message that the cluster has stored.  `queue_id`: None for the wire's own, which counts within a
    broker.  Raises MESSAGE_CORRUPTED if the body fails its digest, or cannot be decompressed."""
    system = wire.system_properties
    properties, facts = bring_back(wire.user_properties)
    topic = namespaces.name(wire.topic)
    message = StoredMessage(topic, _own_body(wire, facts.pop(BODY_IS_EMPTY, "") == "1"), properties=properties)
    message.sub_topic = _text(facts.pop(SUB_TOPIC, None), split_name(topic)[1])
    qos = facts.pop(QOS, "2")
    message.qos = int(qos) if qos in ("0", "1", "2") else 2
    message.tag = _text(facts.pop(TAG, None), system.tag)
    message.keys = keys_of(facts.pop(KEYS, None), tuple(system.keys))
    message.message_group = _text(facts.pop(MESSAGE_GROUP, None), system.message_group)
    own_id = facts.pop(MESSAGE_ID, None)
    message.message_id = own_id if isinstance(own_id, bytes) else domain_id(system.message_id)
    message.born_time_ms = milliseconds(system.born_timestamp)
    message.filter_hash = filter_hash(message.sub_topic, message.tag)
    _add_well_known(system, facts)
    correlation_id = facts.get(SystemProperty.CORRELATION_ID)
    if isinstance(correlation_id, str):
        facts[SystemProperty.CORRELATION_ID] = correlation_id.encode()
    if facts:
        message.system = of_texts(facts)
    message.queue_id = system.queue_id if queue_id is None else queue_id
    message.queue_offset = system.queue_offset
    message.commit_log_offset = UNKNOWN_PLACE
    message.store_time_ms = milliseconds(system.store_timestamp)
    return message


def _add_well_known(system: v2.SystemProperties, facts: dict[str, PropertyValue]) -> None:
    """Add facts that the cluster tells beside the message itself."""
    said = {
        SystemProperty.BORN_HOST: system.born_host,
        SystemProperty.DELIVER_AT_MS: str(milliseconds(system.delivery_timestamp))
        if system.HasField("delivery_timestamp")
        else "",
        SystemProperty.PRIORITY: str(system.priority) if system.HasField("priority") and system.priority >= 0 else "",
        SystemProperty.DEAD_LETTER_TOPIC: system.dead_letter_queue.topic,
        SystemProperty.DEAD_LETTER_MESSAGE_ID: system.dead_letter_queue.message_id,
    }
    for name, value in said.items():
        if value and name not in facts:
            facts[name] = value


def _own_body(wire: v2.Message, is_empty: bool) -> bytes:
    body = body_of(wire)
    return b"" if is_empty and body == EMPTY_BODY else body


def _text(fact: PropertyValue | None, otherwise: str) -> str:
    return fact if isinstance(fact, str) else otherwise
