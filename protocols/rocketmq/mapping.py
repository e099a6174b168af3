"""Messages: ours to the wire's, and back.

Values with a field on the wire go there, as far as RocketMQ accepts them; others are a fact of `properties`.  A round
trip changes nothing: a message that was sent from here comes back as it was.

    message id      16 bytes are the published form (version 1: 34 hexadecimal digits that begin with 01); an id of
                    another length goes as a hash of it in that form, and as the fact `message_id`
    body            as it is; RocketMQ keeps no empty body, so that goes as one zero byte with the fact `empty_body`
    sub-topic, qos  facts; a sub-topic that is the topic's own name is left out
    queue           a wish that the store adds; the cluster chooses, and one message group goes to one queue
    further queues  not carried: the store refuses such messages
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from hashlib import blake2b, md5, sha1
from typing import Final

import orjson

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message, PropertyValue, StoredMessage, SystemProperty, as_texts, of_texts
from entrepot.domain.names import split_name
from entrepot.domain.routing.queue_selector import priority_of
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.names import Namespaces, milliseconds, timestamp
from entrepot.protocols.rocketmq.properties import bring_back, carry, is_plain

MESSAGE_ID_SIZE: Final = 16
MAX_GROUP_BYTES: Final = 63
MAX_BODY_BYTES: Final = 128 << 20
"""Limit of a compressed body after inflating, in bytes."""
EMPTY_BODY: Final = b"\0"
UNKNOWN_PLACE: Final = -1
"""The commit-log offset of messages from the protocol, which does not tell it."""

_ID_VERSION: Final = "01"
_GZIP: Final = 16 + zlib.MAX_WBITS

SUB_TOPIC, QOS, TAG, KEYS = "sub_topic", "qos", "tag", "keys"
MESSAGE_GROUP, MESSAGE_ID, BODY_IS_EMPTY = "message_group", "message_id", "empty_body"
"""Facts that are fields of a message; the others are its well-known properties by name."""


# -- type ------------------------------------------------------------------------------------------------------------


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


def deliver_at_ms(message: Message) -> int | None:
    """Return the delivery timestamp, or None.  Raises ILLEGAL_DELIVERY_TIME for one beyond any timestamp."""
    at_ms = message.system.get(SystemProperty.DELIVER_AT_MS)
    if at_ms is None:
        return None
    if not isinstance(at_ms, int) or at_ms > MAX_EPOCH_MS:
        raise EntrepotError(Code.ILLEGAL_DELIVERY_TIME, f"{str(at_ms)[:80]!r} is not a time in epoch milliseconds")
    return at_ms


# -- to the wire -----------------------------------------------------------------------------------------------------


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


def say_tag_and_keys(message: Message, system: v2.SystemProperties, facts: dict[str, PropertyValue]) -> None:
    """Write tag and keys into their fields, as far as RocketMQ accepts them; else as facts."""
    if message.tag and is_plain(message.tag) and message.tag == message.tag.strip() and "|" not in message.tag:
        system.tag = message.tag
    elif message.tag:
        facts[TAG] = message.tag
    keys = [key for key in message.keys if is_plain(key) and len(key.split()) == 1 and key == key.strip()]
    system.keys.extend(keys)
    if tuple(keys) != message.keys:
        facts[KEYS] = json.dumps(message.keys)


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


def wire_id(message_id: bytes) -> str:
    """Return the text of a message id, or of its hash if it does not have 16 bytes."""
    if len(message_id) != MESSAGE_ID_SIZE:
        message_id = blake2b(message_id, digest_size=MESSAGE_ID_SIZE).digest()
    return _ID_VERSION + message_id.hex().upper()


def domain_id(text: str) -> bytes:
    """Return the bytes of a message id in the published form; for any other text, the text's own."""
    if len(text) == 2 + 2 * MESSAGE_ID_SIZE and text.startswith(_ID_VERSION):
        try:
            raw = bytes.fromhex(text[2:])
        except ValueError:
            raw = b""
        if len(raw) == MESSAGE_ID_SIZE and text == text.upper():
            return raw
    return text.encode()


# -- from the wire ---------------------------------------------------------------------------------------------------


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


class BodyTooLargeError(CorruptedError):
    """A compressed body that exceeds the limit when inflated."""


_DIGESTS: Final = {v2.MD5: md5, v2.SHA1: sha1}
"""Digests checked in a cluster's messages.  CRC32 is left out: clusters write it in various ways."""


def crc32_forms(body: bytes) -> tuple[str, ...]:
    """Return a CRC32 in the forms of the published clients: hexadecimal with and without leading zeros, decimal."""
    checksum = zlib.crc32(body)
    return f"{checksum:08X}", f"{checksum:X}", str(checksum)


def body_of(wire: v2.Message, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the producer's body.  Raises MESSAGE_CORRUPTED, BodyTooLargeError."""
    body, system = wire.body, wire.system_properties
    if system.HasField("body_digest"):
        digest = system.body_digest
        made = _DIGESTS.get(digest.type)
        if made is not None and made(body, usedforsecurity=False).hexdigest() != digest.checksum.lower():
            raise CorruptedError(f"the body of message {system.message_id[:80]!r} fails its digest")
    if system.body_encoding == v2.GZIP:
        inflater = zlib.decompressobj(_GZIP)
        try:
            body = inflater.decompress(body, max_bytes + 1)
        except zlib.error as error:
            raise CorruptedError(f"a body that says to be compressed is not: {error}") from error
        if len(body) > max_bytes:
            raise BodyTooLargeError(f"the body has more than {max_bytes} bytes when it is inflated")
        if not inflater.eof:
            raise CorruptedError("a compressed body is cut off")
    return body


def _text(fact: PropertyValue | None, otherwise: str) -> str:
    return fact if isinstance(fact, str) else otherwise


def keys_of(fact: PropertyValue | None, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a fact, or `otherwise` without a valid one."""
    try:
        found = orjson.loads(fact) if isinstance(fact, str) else None
    except ValueError:
        return otherwise
    return tuple(found) if isinstance(found, list) and all(isinstance(key, str) for key in found) else otherwise
