"""Published messages: producers' messages as ours, checked, and limited to facts that a producer may set.

Besides the fields of the wire, a producer may set the facts of `properties` that belong to a message itself (`_SAID`:
sub-topic, content type, correlation ...).  Every other `entrepot_<fact>` is kept as the user property
`entrepot_fact_<fact>`, and comes back to RocketMQ consumers as it was sent.

ADR 28: RocketMQ's clients have no session here.  Invariant: a producer sets only facts of a message itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.domain.acceptance import keys_size
from entrepot.domain.message import (
    MAX_KEYS_BYTES,
    MAX_TAG_BYTES,
    TIMES,
    Message,
    Properties,
    PropertyValue,
    SystemProperty,
    SystemValue,
)
from entrepot.domain.names import split_name
from entrepot.domain.routing.topic_filter import is_valid_name
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError
from entrepot.protocols.rocketmq.mapping import (
    BODY_IS_EMPTY,
    EMPTY_BODY,
    KEYS,
    MESSAGE_GROUP,
    QOS,
    SUB_TOPIC,
    TAG,
    BodyTooLargeError,
    body_of,
    crc32_forms,
    domain_id,
    keys_of,
)
from entrepot.protocols.rocketmq.names import milliseconds
from entrepot.protocols.rocketmq.properties import (
    KEPT_PREFIX,
    PREFIX,
    REFUSED,
    SHARDING_KEY,
    TRACE_CONTEXT,
    bring_back,
    is_added,
)

PROTOCOL: Final = "rocketmq"
MAX_MESSAGE_ID_BYTES: Final = 64
"""Longest accepted message id; a published one has 34 characters, another text is kept as it is."""
LITE_SEPARATOR: Final = "/"
"""Separator of a topic and a lite topic below it: a lite topic is a sub-topic of one level."""

ANY_LITE_TOPIC: Final = "*"
_ENCODINGS: Final = frozenset(v2.Encoding.values())
_DIGEST_TYPES: Final = frozenset(v2.DigestType.values())
_SAID_TEXT: Final = frozenset(
    {SystemProperty.CONTENT_TYPE, SystemProperty.REPLY_TO, SystemProperty.EXPIRES_AT_MS, SystemProperty.PRIORITY}
)
_FIELDS: Final = frozenset({SUB_TOPIC, QOS, TAG, KEYS, MESSAGE_GROUP})
_SAID: Final = _SAID_TEXT | _FIELDS | {SystemProperty.CORRELATION_ID, SystemProperty.PAYLOAD_IS_TEXT, BODY_IS_EMPTY}


@dataclass(frozen=True, slots=True)
class PublishLimits:
    """RocketMQ's documented limits.  `property_bytes` counts names and values of the user properties."""

    body_bytes: int = 4 << 20
    properties: int = 128
    property_bytes: int = 16 << 10
    message_group_bytes: int = 64
    lite_topic_characters: int = 64
    recovery_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Published:
    """A message with its type on the wire."""

    message: Message
    kind: v2.MessageType.ValueType


def published(wire: v2.Message, topic: str, limits: PublishLimits, accepted: frozenset[int]) -> Published:
    """Return the message for `topic`, which accepts messages of the `accepted` types.  Raises WireError with RocketMQ's
    code for the fault; MESSAGE_CORRUPTED."""
    system = wire.system_properties
    group = system.message_group
    if not group and wire.user_properties:
        group = wire.user_properties.get(SHARDING_KEY, "")
    kind = _kind(system, group, accepted)
    _check_body(wire, limits)
    if wire.user_properties or system.trace_context:
        properties, facts = _properties_of(wire, limits)
    else:
        properties, facts = (), {}
    message = Message(topic, _body(wire, limits), split_name(topic)[1], properties=properties)
    if not message.body:
        raise WireError(v2.MESSAGE_BODY_EMPTY, "a message has a body")
    message.message_id = _message_id(system.message_id)
    message.tag = _tag(system.tag) if system.tag else ""
    if system.keys:
        message.keys = _keys(tuple(key for key in system.keys if key))
    if group:
        message.message_group = _group(group, limits)
    if system.HasField("born_timestamp"):
        message.born_time_ms = min(max(milliseconds(system.born_timestamp), 0), MAX_EPOCH_MS)
    own: dict[str, SystemValue] = {SystemProperty.PROTOCOL: PROTOCOL}
    if system.born_host:
        own[SystemProperty.BORN_HOST] = system.born_host[:255]
    if facts:
        _take_facts(message, facts, own)
    if kind != v2.NORMAL:
        _take_kind(message, kind, system, own, limits)
    message.system = own
    return Published(message, kind)


# -- type --------------------------------------------------------------------------------------------------------------


_ORDERED: Final = frozenset({v2.TRANSACTION, v2.DELAY})
"""Types whose messages may have a message group, too."""


def _kind(system: v2.SystemProperties, group: str, accepted: frozenset[int]) -> v2.MessageType.ValueType:
    """Return the type, which the properties tell: a type that the client says counts for TRANSACTION alone, as at
    RocketMQ's proxy.  Raises MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    is_half, is_later = system.message_type == v2.TRANSACTION, system.HasField("delivery_timestamp")
    has_priority, lite_topic = system.HasField("priority"), system.lite_topic
    if not (is_half or is_later or has_priority or lite_topic or group) and v2.NORMAL in accepted:
        return v2.NORMAL
    marks = [v2.TRANSACTION] * is_half + [v2.DELAY] * is_later + [v2.PRIORITY] * has_priority
    marks += [v2.LITE] * bool(lite_topic) + [v2.FIFO] * bool(group)
    if len(marks) > 1 and not (len(marks) == 2 and marks[0] in _ORDERED and marks[1] == v2.FIFO):
        names = ", ".join(v2.MessageType.Name(mark) for mark in marks)
        raise WireError(v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"a message is one of these, not several: {names}")
    for kind in marks or (v2.NORMAL,):
        if kind not in accepted:
            takes = ", ".join(v2.MessageType.Name(each) for each in sorted(accepted))  # type: ignore[arg-type]
            text = f"the topic takes {takes}, this is {v2.MessageType.Name(kind)}"
            raise WireError(v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
    return marks[0] if marks else v2.NORMAL


def _take_kind(
    message: Message,
    kind: v2.MessageType.ValueType,
    system: v2.SystemProperties,
    own: dict[str, SystemValue],
    limits: PublishLimits,
) -> None:
    if kind == v2.DELAY:
        deliver_at_ms = milliseconds(system.delivery_timestamp)
        if not 0 <= deliver_at_ms <= MAX_EPOCH_MS:
            raise WireError(v2.ILLEGAL_DELIVERY_TIME, "the delivery timestamp is not a time")
        own[SystemProperty.DELIVER_AT_MS] = deliver_at_ms
    elif kind == v2.PRIORITY:
        if system.priority < 0:
            raise WireError(v2.BAD_REQUEST, "a priority is not negative")
        own[SystemProperty.PRIORITY] = str(system.priority)
    elif kind == v2.TRANSACTION and system.HasField("orphaned_transaction_recovery_duration"):
        recovery_ms = milliseconds(system.orphaned_transaction_recovery_duration)
        if not 0 <= recovery_ms <= limits.recovery_ms:
            text = f"a producer may be silent for at most {limits.recovery_ms // 1000} s before it is asked"
            raise WireError(v2.BAD_REQUEST, text)
        own[SystemProperty.CHECK_AFTER_MS] = recovery_ms
    elif kind == v2.LITE:
        check_lite_topic(system.lite_topic, limits)
        message.sub_topic = f"{message.sub_topic}{LITE_SEPARATOR}{system.lite_topic}"


def check_lite_topic(name: str, limits: PublishLimits) -> None:
    """Raise ILLEGAL_LITE_TOPIC for an invalid name of a lite topic.  `*` is none: it would look like all of them, and
    RocketMQ refuses it, too."""
    is_short = 0 < len(name) <= limits.lite_topic_characters
    if not is_short or not is_valid_name(name) or LITE_SEPARATOR in name or name == ANY_LITE_TOPIC:
        most = limits.lite_topic_characters
        text = f"a lite topic has 1 to {most} characters, and no '/', '+', '#' or NUL; '*' stands for none of them"
        raise WireError(v2.ILLEGAL_LITE_TOPIC, text)


# -- fields ------------------------------------------------------------------------------------------------------------


def _check_body(wire: v2.Message, limits: PublishLimits) -> None:
    if not wire.body:
        raise WireError(v2.MESSAGE_BODY_EMPTY, "a message has a body")
    if len(wire.body) > limits.body_bytes:
        text = f"the body has {len(wire.body)} bytes, the limit is {limits.body_bytes}"
        raise WireError(v2.MESSAGE_BODY_TOO_LARGE, text)


def _body(wire: v2.Message, limits: PublishLimits) -> bytes:
    system = wire.system_properties
    if system.body_encoding not in _ENCODINGS:
        raise WireError(v2.BAD_REQUEST, f"there is no body encoding {system.body_encoding}")
    if system.HasField("body_digest"):
        _check_digest(wire, system.body_digest)
    try:
        return body_of(wire, limits.body_bytes)
    except BodyTooLargeError as error:
        raise WireError(v2.MESSAGE_BODY_TOO_LARGE, error.message) from None


def _check_digest(wire: v2.Message, digest: v2.Digest) -> None:
    """Check the digests that `body_of` does not: unknown types, and CRC32."""
    if digest.type not in _DIGEST_TYPES:
        raise WireError(v2.BAD_REQUEST, f"there is no body digest of type {digest.type}")
    if digest.type == v2.CRC32 and digest.checksum.upper() not in crc32_forms(wire.body):
        raise WireError(v2.MESSAGE_CORRUPTED, "the body fails its digest")


def _properties_of(wire: v2.Message, limits: PublishLimits) -> tuple[Properties, dict[str, PropertyValue]]:
    """Return the user properties, and the facts that a producer may set.  A trace context is a property, as in
    RocketMQ's records."""
    carried = dict(wire.user_properties)
    if wire.system_properties.trace_context:
        carried[TRACE_CONTEXT] = wire.system_properties.trace_context
    _check_properties(carried, limits)
    properties, facts = bring_back(carried)
    if not facts.keys() <= _SAID:
        kept = [(KEPT_PREFIX + fact, value) for fact, value in facts.items() if fact not in _SAID]
        properties = (*properties, *kept)
        facts = {fact: value for fact, value in facts.items() if fact in _SAID}
    return properties, facts


def _check_properties(carried: dict[str, str], limits: PublishLimits) -> None:
    if len(carried) > limits.properties:
        text = f"{len(carried)} user properties, the limit is {limits.properties}"
        raise WireError(v2.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size = 0
    for name, value in carried.items():
        if name in REFUSED or not name.strip() or (is_added(name) and name != SHARDING_KEY):
            text = f"{name[:80]!r} cannot be the name of a user property: it is blank, or RocketMQ's own"
            raise WireError(v2.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        if _has_control(name) or _has_control(value):
            text = f"the user property {name[:80]!r} has control characters in its name or its value"
            raise WireError(v2.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        size += len(name.encode()) + len(value.encode())
    if size > limits.property_bytes:
        text = f"the user properties have {size} bytes, the limit is {limits.property_bytes}"
        raise WireError(v2.MESSAGE_PROPERTIES_TOO_LARGE, text)


def _message_id(text: str) -> bytes:
    if not text:
        return b""
    if len(text) > MAX_MESSAGE_ID_BYTES or not text.isascii() or not text.isprintable():
        raise WireError(v2.ILLEGAL_MESSAGE_ID, f"a message id has at most {MAX_MESSAGE_ID_BYTES} printable characters")
    return domain_id(text)


def _tag(tag: str) -> str:
    if not tag.strip() or "|" in tag or _has_control(tag):
        raise WireError(v2.ILLEGAL_MESSAGE_TAG, "a tag is not blank, and has no '|' and no control characters")
    return _short_tag(tag)


def _short_tag(tag: str) -> str:
    size = len(tag.encode())
    if size > MAX_TAG_BYTES:
        raise WireError(v2.ILLEGAL_MESSAGE_TAG, f"the tag has {size} bytes, the limit is {MAX_TAG_BYTES}")
    return tag


def _keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        if not key.strip() or _has_control(key):
            raise WireError(v2.ILLEGAL_MESSAGE_KEY, "a key is not blank, and has no control characters")
    return _short_keys(keys)


def _short_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    size = keys_size(keys)
    if size > MAX_KEYS_BYTES:
        raise WireError(v2.ILLEGAL_MESSAGE_KEY, f"the keys have {size} bytes together, the limit is {MAX_KEYS_BYTES}")
    return keys


def _group(group: str, limits: PublishLimits) -> str:
    if not group.strip() or _has_control(group) or len(group.encode()) >= limits.message_group_bytes:
        text = f"a message group is not blank, has no control characters, and under {limits.message_group_bytes} bytes"
        raise WireError(v2.ILLEGAL_MESSAGE_GROUP, text)
    return group


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


# -- facts -------------------------------------------------------------------------------------------------------------


def _take_facts(message: Message, facts: dict[str, PropertyValue], own: dict[str, SystemValue]) -> None:
    """Set the facts that a producer gave as user properties.  Raises ILLEGAL_MESSAGE_PROPERTY_KEY for invalid ones."""
    for fact, value in facts.items():
        if fact == SystemProperty.CORRELATION_ID:
            own[fact] = value if isinstance(value, bytes) else value.encode()
        elif not isinstance(value, str):
            raise _senseless(fact)
        elif fact in (SystemProperty.EXPIRES_AT_MS, SystemProperty.PRIORITY):
            if not (value.isascii() and value.isdecimal()) or len(value) > 15:
                raise _senseless(fact)
            own[fact] = int(value) if fact in TIMES else value
        elif fact == SystemProperty.PAYLOAD_IS_TEXT:
            own[fact] = "0" if value == "0" else "1"
        elif fact in _SAID_TEXT:
            own[fact] = value
        else:
            _take_field(message, fact, value)


def _take_field(message: Message, fact: str, value: str) -> None:
    if fact == SUB_TOPIC:
        if not is_valid_name(value) or value.startswith("$"):
            raise _senseless(fact)
        message.sub_topic = value
    elif fact == QOS:
        if value not in ("0", "1", "2"):
            raise _senseless(fact)
        message.qos = int(value)
    elif fact == TAG:
        message.tag = _short_tag(value)
    elif fact == KEYS:
        message.keys = _short_keys(keys_of(value, message.keys))
    elif fact == MESSAGE_GROUP:
        message.message_group = value
    elif fact == BODY_IS_EMPTY and message.body == EMPTY_BODY:
        message.body = b""


def _senseless(fact: str) -> WireError:
    return WireError(v2.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the value of {PREFIX + fact!r} makes no sense")
