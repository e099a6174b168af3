"""The value space of MQTT: rows of `domain.value_space` (MQTT 5.0, 1.5 and 3.3.2)."""

from __future__ import annotations

from typing import Final

from entrepot.domain.routing.topic_filter import is_name
from entrepot.domain.value_space import Number, Octets, Rule, Space, Text
from entrepot.protocols.mqtt.wire import MAX_FIELD_BYTES

_MQTT: Final = "mqtt"
_NUL: Final = "\0"

CONTENT_TYPE: Final = Text(_MQTT, "content type", MAX_FIELD_BYTES, Rule.LEFT_OUT, _NUL)
RESPONSE_TOPIC: Final = Text(
    _MQTT,
    "response topic",
    MAX_FIELD_BYTES,
    Rule.LEFT_OUT,
    _NUL,
    is_valid=is_name,
    also="a topic name: not empty, no `+` and `#`",
)
CORRELATION_DATA: Final = Octets(_MQTT, "correlation data", MAX_FIELD_BYTES)
MESSAGE_EXPIRY: Final = Number(_MQTT, "message expiry interval", 1, 0xFFFF_FFFF)
"""Seconds that are left; an expired message is not sent at all."""
PROPERTY_NAME: Final = Text(_MQTT, "name of a user property", MAX_FIELD_BYTES, Rule.LEFT_OUT, _NUL)
PROPERTY_VALUE: Final = Text(_MQTT, "value of a user property", MAX_FIELD_BYTES, Rule.LEFT_OUT, _NUL)

SPACES: Final[tuple[Space, ...]] = (
    CONTENT_TYPE,
    RESPONSE_TOPIC,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PROPERTY_NAME,
    PROPERTY_VALUE,
)
