"""CloudEvents to messages, and any message to a CloudEvent.

| event | message |
|---|---|
| each attribute but `datacontenttype` | user property `ce_<attribute>`, in the order received |
| `datacontenttype` | system property `content_type` |
| data | body, byte for byte; an event without data and one with empty data are the same message |
| `id` | key (and `ce_id`) |
| `partitionkey` | message group |
| `subject` | sub-topic `<topic>/<subject>`; in it `+`, `#` and NUL are percent-encoded |
| `deliverytime` | system property `deliver_at_ms`, which replaces the attribute when the event is read |
| `priority`, a whole number | system property `priority`: the queue in a PRIORITY topic |
| types of Boolean and Integer extensions | system property `ce_types` |

A message without a `ce_id` came by another protocol: its attributes are made from its fields.  User properties become
extensions if the lower-cased name is a valid attribute name and the value a String (bytes: Base64).  The others are
lost here, and so are all but the first of a repeated name.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from entrepot.domain.message import (
    Message,
    Properties,
    PropertyValue,
    StoredMessage,
    SystemProperty,
    SystemValue,
    as_texts,
    dead_letter_origin,
)
from entrepot.domain.names import DEFAULT_NAMESPACE, MAX_SUB_TOPIC_BYTES, NAMESPACE_SEPARATOR, split_name
from entrepot.domain.routing.topic_filter import MAX_LEVELS
from entrepot.domain.timestamp import to_epoch_ms, to_rfc3339
from entrepot.domain.value_space import Count, OnUnsaid, Rule, Text, Unsaid, nobody
from entrepot.protocols.cloudevents import media_type, value_space
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.event import (
    CORE_ATTRIBUTES,
    MAX_ATTRIBUTES,
    MAX_INTEGER,
    MIN_INTEGER,
    NO_TYPED_EXTENSIONS,
    SPEC_VERSION,
    CloudEvent,
    ExtensionType,
    check_attributes,
    check_value,
    escape_disallowed,
    is_attribute_name,
)
from entrepot.protocols.cloudevents.json_format import decode_event, is_json

STRUCTURED_JSON: Final = "application/cloudevents+json"
DEFAULT_TYPE: Final = "dev.entrepot.message"
PROTOCOL: Final = "http"
PROPERTY_PREFIX: Final = "ce_"
PARTITION_KEY: Final = "partitionkey"
DELIVERY_TIME: Final = "deliverytime"
"""Extension: not to be delivered before this RFC 3339 timestamp."""
PRIORITY: Final = "priority"
"""Extension: a whole number from 0; in a PRIORITY topic higher ones are received first."""
TYPES_PROPERTY: Final = "ce_types"
"""System property: `<attribute>:<b or i>` for each Boolean and Integer extension, separated by spaces.
`datacontenttype:implied` stands for JSON data without a `datacontenttype`: the content type then is application/json in
every other protocol, and stays absent in the event."""

DEAD_LETTER_EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        SystemProperty.DEAD_LETTER_TOPIC: "deadlettertopic",
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET: "deadletteroffset",
        SystemProperty.DEAD_LETTER_MESSAGE_ID: "deadlettermessageid",
        SystemProperty.DEAD_LETTER_REASON: "deadletterreason",
        SystemProperty.DEAD_LETTER_ATTEMPTS: "deadletterattempts",
    }
)
"""Extensions of a dead letter: origin and reason; attempts are an Integer.  They replace the user's."""

IMPLIED_JSON = "datacontenttype:implied"
_NOT_FROM_PROPERTIES = CORE_ATTRIBUTES | {PARTITION_KEY, DELIVERY_TIME, *DEAD_LETTER_EXTENSIONS.values()}
_NOT_IN_TOPIC_NAMES = str.maketrans({"+": "%2B", "#": "%23", "\0": "%00"})
_TEXT_CONTROLS = frozenset("\t\n\f\r")
_SURELY_FITS = MAX_SUB_TOPIC_BYTES // 4
_CACHED_NAMES = 1024
_LONGEST_CACHED = 512
"""Longest total of an event's names, in characters, that is cached."""


def to_message(event: CloudEvent, topic: str, sub_topic: str = "") -> Message:
    """Return the message of a checked event in a topic of the default namespace.

    Raises for a subject that cannot be a sub-topic, and for an invalid delivery time.  `sub_topic` marks an event that
    was stored already, maybe by a protocol without these rules: it has that sub-topic, and waits for nothing.  The
    caller sets message id, born time and queue.
    """
    attributes = event.attributes
    system: dict[str, SystemValue] = {SystemProperty.PROTOCOL: PROTOCOL}
    content_type = attributes.get("datacontenttype")
    if content_type is not None:
        system[SystemProperty.CONTENT_TYPE] = content_type
    elif event.implied_json:
        system[SystemProperty.CONTENT_TYPE] = media_type.JSON
    if event.typed_extensions or event.implied_json:
        marks = [f"{name}:{kind.value}" for name, kind in event.typed_extensions.items()]
        system[TYPES_PROPERTY] = " ".join([*marks, IMPLIED_JSON] if event.implied_json else marks)
    if not sub_topic:
        delivery_time = attributes.get(DELIVERY_TIME)
        if delivery_time is not None:
            system[SystemProperty.DELIVER_AT_MS] = _deliver_at_ms(delivery_time)
        subject = attributes.get("subject")
        sub_topic = topic if subject is None else sub_topic_of(topic, subject)
    priority = attributes.get(PRIORITY, "")
    if priority.isascii() and priority.isdecimal():
        system[SystemProperty.PRIORITY] = priority
    message = Message(topic, event.data or b"", sub_topic)
    message.keys = (attributes["id"],)
    message.message_group = attributes.get(PARTITION_KEY, "")
    message.properties = tuple(
        [(PROPERTY_PREFIX + name, value) for name, value in attributes.items() if name != "datacontenttype"]
    )
    message.system = system
    return message


def _deliver_at_ms(delivery_time: str) -> int:
    epoch_ms = to_epoch_ms(delivery_time)
    if epoch_ms is None:
        raise CloudEventError(
            f"attribute {DELIVERY_TIME!r} is {delivery_time[:80]!r}, which is not an RFC 3339 timestamp", DELIVERY_TIME
        )
    return max(epoch_ms, 0)


def sub_topic_of(topic: str, subject: str) -> str:
    """Return `<topic>/<subject>` as an MQTT topic name (4.7), with forbidden characters percent-encoded."""
    if "+" in subject or "#" in subject or "\0" in subject:
        subject = subject.translate(_NOT_IN_TOPIC_NAMES)
    sub_topic = f"{topic}/{subject}"
    if len(sub_topic) > _SURELY_FITS and len(sub_topic.encode()) > MAX_SUB_TOPIC_BYTES:
        raise CloudEventError(
            f"attribute 'subject' makes a sub-topic longer than {MAX_SUB_TOPIC_BYTES} bytes", "subject"
        )
    if sub_topic.count("/") >= MAX_LEVELS:
        raise CloudEventError(f"attribute 'subject' makes a sub-topic of more than {MAX_LEVELS} levels", "subject")
    return sub_topic


def to_event(
    stored: StoredMessage,
    namespace: str = DEFAULT_NAMESPACE,
    default_type: str = DEFAULT_TYPE,
    unsaid: OnUnsaid = nobody,
) -> CloudEvent:
    """Return the event of a stored message.  Every message gives a valid one, from any protocol: the rows of
    `value_space` say what becomes of a value that no attribute can be, and `unsaid` is told."""
    attributes, others = _parted(stored.properties)
    synthesised = "id" not in attributes
    system = stored.system
    content_type = stored.system_text(SystemProperty.CONTENT_TYPE)
    if synthesised and content_type is not None and content_type.startswith(STRUCTURED_JSON):
        structured = _structured(stored)
        if structured is not None:
            return structured
    marks = stored.system_text(TYPES_PROPERTY) if TYPES_PROPERTY in system else None
    implied_json = marks is not None and marks.endswith(IMPLIED_JSON) and content_type == media_type.JSON
    if content_type and not implied_json:  # an empty one, which MQTT allows, counts as none
        attributes["datacontenttype"] = content_type
    if synthesised or not _are_valid(attributes):
        attributes = _mended(attributes, stored, namespace, default_type, synthesised, unsaid)
    typed = _typed_extensions(marks, attributes) if marks else {}
    if others:
        _add_properties(attributes, others, stored, unsaid)
    if SystemProperty.DELIVER_AT_MS in system:
        _add_delivery_time(attributes, typed, stored)
    if SystemProperty.DEAD_LETTER_TOPIC in system:
        _add_dead_letter(attributes, typed, stored)
    return CloudEvent(attributes, stored.body or None, typed or NO_TYPED_EXTENSIONS, implied_json)


def _parted(properties: Properties) -> tuple[dict[str, str], list[tuple[str, PropertyValue]]]:
    """Return the attributes, and the other properties.  Of a repeated name the first counts."""
    attributes = {name[3:]: value for name, value in properties if name[:3] == PROPERTY_PREFIX and type(value) is str}
    if len(attributes) == len(properties):
        return attributes, []
    attributes, others = {}, []
    for name, value in properties:
        if name[:3] == PROPERTY_PREFIX and isinstance(value, str):
            attributes.setdefault(name[3:], value)
        else:
            others.append((name, value))
    return attributes, others


def _structured(stored: StoredMessage) -> CloudEvent | None:
    """Return the event in a body declared as one by another protocol (MQTT binding 3.2, AMQP binding 3.2), or None.
    The message's other fields are left out (HTTP binding 3.2.3), except those of dead-lettering."""
    try:
        event = decode_event(stored.body)
    except CloudEventError:
        return None
    if SystemProperty.DEAD_LETTER_TOPIC in stored.system:
        typed = dict(event.typed_extensions)
        _add_dead_letter(event.attributes, typed, stored)
        event.typed_extensions = typed
    return event


def _are_valid(attributes: dict[str, str]) -> bool:
    names = tuple(attributes)
    asked = _are_names if sum(map(len, names)) <= _LONGEST_CACHED else _are_names.__wrapped__
    if not asked(names):
        return False
    try:
        check_attributes(attributes)
    except CloudEventError:
        return False
    return True


@lru_cache(_CACHED_NAMES)
def _are_names(names: tuple[str, ...]) -> bool:
    """True if all are valid attribute names; cached, since most events share their names."""
    return all(map(is_attribute_name, names))


def _is_valid(name: str, value: str) -> bool:
    try:
        check_value(name, value)
    except CloudEventError:
        return False
    return is_attribute_name(name)


def _mended(
    attributes: dict[str, str],
    stored: StoredMessage,
    namespace: str,
    default_type: str,
    synthesised: bool,
    unsaid: OnUnsaid,
) -> dict[str, str]:
    """Return the valid attributes and the required ones; for other protocols' messages all that can be told."""
    kept = {name: value for name, value in attributes.items() if _can_say(name, value, stored, unsaid)}
    topic = stored.topic
    if NAMESPACE_SEPARATOR in topic:
        namespace, topic = split_name(topic)
    made = dict(_required(stored, namespace, topic, default_type))
    if synthesised:
        made.update(_optional(stored, topic, kept.get("datacontenttype"), unsaid))
    told = {**made, **kept}
    for name in islice(told, MAX_ATTRIBUTES, None):
        unsaid(stored, _left_out(value_space.ATTRIBUTES, name))
    return dict(islice(told.items(), MAX_ATTRIBUTES))


def _required(stored: StoredMessage, namespace: str, topic: str, default_type: str) -> Iterator[tuple[str, str]]:
    yield "specversion", SPEC_VERSION
    yield "id", stored.message_id.hex().upper() or f"{stored.queue_id}-{stored.queue_offset}"
    yield "source", _source(namespace, topic)
    yield "type", default_type


@lru_cache(_CACHED_NAMES)
def _source(namespace: str, topic: str) -> str:
    """Return `/<namespace>/<topic>` as a URI-reference."""
    return f"/{quote(namespace, safe='')}/{quote(topic, safe='')}"


def _optional(
    stored: StoredMessage, topic: str, content_type: str | None, unsaid: OnUnsaid
) -> Iterator[tuple[str, str]]:
    time = to_rfc3339(stored.born_time_ms) if stored.born_time_ms else None
    if time is not None:
        yield "time", time
    subject = "" if stored.sub_topic == topic else stored.sub_topic.removeprefix(topic + "/")
    if subject:
        written = escape_disallowed(subject, _percent_encoded)
        if _can_say("subject", written, stored, unsaid):
            if written != subject:
                unsaid(stored, Unsaid(value_space.SUBJECT.protocol, value_space.SUBJECT.kind, value_space.SUBJECT.rule))
            yield "subject", written
    if content_type is None and stored.body:
        yield "datacontenttype", _guessed_content_type(stored)
    if stored.message_group and _can_say(PARTITION_KEY, stored.message_group, stored, unsaid):
        yield PARTITION_KEY, stored.message_group


def _percent_encoded(character: str) -> str:
    return quote(character, errors="replace")


def _guessed_content_type(stored: StoredMessage) -> str:
    """Return the type of a body without one: JSON, text without control characters, or just bytes."""
    body = stored.body
    if is_json(body):
        return media_type.JSON
    if stored.system_text(SystemProperty.PAYLOAD_IS_TEXT) == "1":
        return media_type.TEXT
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return media_type.OCTET_STREAM
    is_text = all(c in _TEXT_CONTROLS for c in text if c < " " or c == "\x7f")
    return media_type.TEXT if is_text else media_type.OCTET_STREAM


def _typed_extensions(marks: str, attributes: Mapping[str, str]) -> dict[str, ExtensionType]:
    """Return the types that `to_message` noted, where the values still fit."""
    typed = {}
    for mark in marks.split(" "):
        name, _, kind = mark.partition(":")
        value = attributes.get(name)
        if kind == ExtensionType.BOOLEAN and value in ("true", "false"):
            typed[name] = ExtensionType.BOOLEAN
        elif kind == ExtensionType.INTEGER and value is not None and _is_integer(value):
            typed[name] = ExtensionType.INTEGER
    return typed


def _is_integer(value: str) -> bool:
    """True for an integer in JSON's form: `00` would come back as `0`."""
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or str(int(value)) != value:
        return False
    return MIN_INTEGER <= int(value) <= MAX_INTEGER


def _add_properties(
    attributes: dict[str, str], properties: list[tuple[str, PropertyValue]], stored: StoredMessage, unsaid: OnUnsaid
) -> None:
    """Add other protocols' user properties as extensions."""
    for name, value in properties:
        name = name.lower()
        if name in attributes:
            continue
        if name in _NOT_FROM_PROPERTIES:
            unsaid(stored, _left_out(value_space.ATTRIBUTE_NAME, name))
        elif len(attributes) >= MAX_ATTRIBUTES:
            unsaid(stored, _left_out(value_space.ATTRIBUTES, name))
        else:
            text = value if isinstance(value, str) else b64encode(value).decode("ascii")
            if _can_say(name, text, stored, unsaid):
                attributes[name] = text


def _can_say(name: str, value: str, stored: StoredMessage, unsaid: OnUnsaid) -> bool:
    """True if it can be an attribute; else tell that it is left out."""
    if _is_valid(name, value):
        return True
    row = value_space.ATTRIBUTE_VALUE if is_attribute_name(name) else value_space.ATTRIBUTE_NAME
    unsaid(stored, _left_out(row, name))
    return False


def _left_out(row: Text | Count, name: str) -> Unsaid:
    return Unsaid(row.protocol, row.kind, Rule.LEFT_OUT, name)


def _add_delivery_time(attributes: dict[str, str], typed: dict[str, ExtensionType], stored: StoredMessage) -> None:
    """Add the delivery time, as written unless it was changed since."""
    epoch_ms = stored.time_ms(SystemProperty.DELIVER_AT_MS)
    if epoch_ms is None:
        return
    if DELIVERY_TIME not in attributes and len(attributes) >= MAX_ATTRIBUTES:
        return
    written = to_epoch_ms(attributes.get(DELIVERY_TIME, ""))
    time = to_rfc3339(epoch_ms)
    if time is not None and (written is None or max(written, 0) != epoch_ms):
        attributes[DELIVERY_TIME] = time
        typed.pop(DELIVERY_TIME, None)


def _add_dead_letter(attributes: dict[str, str], typed: dict[str, ExtensionType], stored: StoredMessage) -> None:
    said = dict(as_texts(stored.system))
    origin = dead_letter_origin(stored)
    if origin is not None:
        said[SystemProperty.DEAD_LETTER_TOPIC], _, said[SystemProperty.DEAD_LETTER_QUEUE_OFFSET] = origin
    for name, attribute in DEAD_LETTER_EXTENSIONS.items():
        value = said.get(name)
        if value is None:
            continue
        text = value if isinstance(value, str) else value.hex().upper()
        if not _is_valid(attribute, text):
            continue
        attributes[attribute] = text
        typed.pop(attribute, None)
        if name == SystemProperty.DEAD_LETTER_ATTEMPTS and _is_integer(text):
            typed[attribute] = ExtensionType.INTEGER
