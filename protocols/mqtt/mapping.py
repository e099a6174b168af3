"""MQTT publishes and the domain's messages, both ways.

| MQTT 5                      | message                                                              |
|-----------------------------|----------------------------------------------------------------------|
| topic name                  | sub-topic (whole), topic (its first level, or by rule, or catch-all) |
| QoS                         | qos                                                                  |
| user properties             | properties, in order, repeated names kept                            |
| user properties of an event | `ce_` properties, where specversion, id, source and type are there   |
| content type                | system content_type                                                  |
| response topic              | system reply_to                                                      |
| correlation data            | system correlation_id (bytes)                                        |
| message expiry interval     | system expires_at_ms; the rest of it is sent on (3.3.2-6)            |
| payload format indicator    | system payload_is_text, "1" or "0"                                   |
| user property ce_...        | the same; system plain_names, where events would lose the prefix     |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.domain.message import (
    NO_SYSTEM_PROPERTIES,
    Message,
    Properties,
    StoredMessage,
    SystemProperty,
    SystemValue,
    is_over,
)
from entrepot.domain.value_space import OnUnsaid, nobody, read_text
from entrepot.protocols.mqtt import properties as mqtt
from entrepot.protocols.mqtt import value_space
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId

_EVENT_ATTRIBUTES: Final = frozenset(("specversion", "id", "source", "type"))
CE_PREFIX: Final = "ce_"
_SURELY_FITS: Final = value_space.PROPERTY_VALUE.surely_fits
_MARK_OF_EVENTS: Final = CE_PREFIX + "specversion"


def to_message(publish: Publish, topic: str, queue_id: int, filter_hash: int, now_ms: int) -> Message:
    """Return the message of a publish whose queue is known."""
    system: Mapping[str, SystemValue] = NO_SYSTEM_PROPERTIES
    user: Properties = ()
    if publish.properties:
        system, user = _from_properties(publish.properties, now_ms)
    return Message(
        topic,
        publish.payload,
        publish.topic,
        queue_id,
        publish.qos,
        "",
        (),
        "",
        b"",
        now_ms,
        filter_hash,
        user,
        system,
    )


def _from_properties(given: mqtt.Properties, now_ms: int) -> tuple[dict[str, SystemValue], Properties]:
    system: dict[str, SystemValue] = {}
    if (content_type := given.get(PropertyId.CONTENT_TYPE)) is not None:
        system[SystemProperty.CONTENT_TYPE] = content_type
    if (reply_to := given.get(PropertyId.RESPONSE_TOPIC)) is not None:
        system[SystemProperty.REPLY_TO] = reply_to
    if (correlation := given.get(PropertyId.CORRELATION_DATA)) is not None:
        system[SystemProperty.CORRELATION_ID] = correlation
    if (expiry := given.get(PropertyId.MESSAGE_EXPIRY_INTERVAL)) is not None:
        system[SystemProperty.EXPIRES_AT_MS] = now_ms + expiry * 1000
    if (is_text := given.get(PropertyId.PAYLOAD_FORMAT_INDICATOR)) is not None:
        system[SystemProperty.PAYLOAD_IS_TEXT] = "1" if is_text else "0"
    user = tuple(given.get(PropertyId.USER_PROPERTY, ()))
    names = [name for name, _ in user]
    if _EVENT_ATTRIBUTES.issubset(names) and len(set(names)) == len(names) and ("specversion", "1.0") in user:
        user = tuple((CE_PREFIX + name, value) for name, value in user)
    elif _MARK_OF_EVENTS in names:  # 3.3.2-17: subscribers get them unchanged
        system[SystemProperty.PLAIN_NAMES] = "1"
    return system, user


def is_expired(message: StoredMessage, now_ms: int) -> bool:
    """True if the message has expired: it is not sent any more (3.3.2-5)."""
    return is_over(message, now_ms, None)


def to_properties(message: StoredMessage, now_ms: int, unsaid: OnUnsaid = nobody) -> mqtt.Properties:
    """Return the properties of a message's PUBLISH to a version 5 client.  Total: values that MQTT cannot say are left
    out or shortened by their row (`value_space`), and `unsaid` is told."""
    if not message.system and not message.properties:
        return mqtt.EMPTY
    found: dict[PropertyId, Any] = _of_system(message, now_ms, unsaid) if message.system else {}
    if message.properties and (user := _user_properties(message, unsaid)):
        found[PropertyId.USER_PROPERTY] = user
    return found


def _of_system(message: StoredMessage, now_ms: int, unsaid: OnUnsaid) -> dict[PropertyId, Any]:
    system = message.system
    found: dict[PropertyId, Any] = {}
    if (is_text := system.get(SystemProperty.PAYLOAD_IS_TEXT)) is not None:
        found[PropertyId.PAYLOAD_FORMAT_INDICATOR] = int(is_text == "1")
    if (expires_at_ms := message.time_ms(SystemProperty.EXPIRES_AT_MS)) is not None:
        left = max(-(-(expires_at_ms - now_ms) // 1000), 1)
        found[PropertyId.MESSAGE_EXPIRY_INTERVAL] = value_space.MESSAGE_EXPIRY.said(left, message, unsaid)
    content_type = message.system_text(SystemProperty.CONTENT_TYPE)
    if content_type is not None:
        content_type = value_space.CONTENT_TYPE.said(content_type, message, unsaid)
    if content_type is not None:
        found[PropertyId.CONTENT_TYPE] = content_type
    reply_to = message.system_text(SystemProperty.REPLY_TO)
    if reply_to and (reply_to := value_space.RESPONSE_TOPIC.said(reply_to, message, unsaid)) is not None:
        found[PropertyId.RESPONSE_TOPIC] = reply_to
    correlation = system.get(SystemProperty.CORRELATION_ID)
    if correlation is not None:
        raw = correlation if isinstance(correlation, bytes) else str(correlation).encode()
        if (data := value_space.CORRELATION_DATA.said(raw, message, unsaid)) is not None:
            found[PropertyId.CORRELATION_DATA] = data
    return found


def _user_properties(message: StoredMessage, unsaid: OnUnsaid) -> list[tuple[str, str]]:
    is_event = SystemProperty.PLAIN_NAMES not in message.system and any(
        name == _MARK_OF_EVENTS for name, _ in message.properties
    )
    found = []
    for name, value in message.properties:
        if (
            type(value) is str
            and len(value) <= _SURELY_FITS
            and len(name) <= _SURELY_FITS
            and "\0" not in value
            and "\0" not in name
        ):
            found.append((name.removeprefix(CE_PREFIX) if is_event else name, value))
            continue
        text = read_text(value, value_space.PROPERTY_VALUE, message, unsaid, name)
        has_name = value_space.PROPERTY_NAME.said(name, message, unsaid) is not None
        if has_name and value_space.PROPERTY_VALUE.said(text, message, unsaid, name) is not None:
            found.append((name.removeprefix(CE_PREFIX) if is_event else name, text))
    return found
