"""MQTT 5 properties of paho's packets and ours, both ways."""

from __future__ import annotations

from typing import Any, Final

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from protocols.mqtt.properties import EMPTY, Properties, PropertyId

_NAMES: Final = {
    PropertyId.PAYLOAD_FORMAT_INDICATOR: "PayloadFormatIndicator",
    PropertyId.MESSAGE_EXPIRY_INTERVAL: "MessageExpiryInterval",
    PropertyId.CONTENT_TYPE: "ContentType",
    PropertyId.RESPONSE_TOPIC: "ResponseTopic",
    PropertyId.CORRELATION_DATA: "CorrelationData",
    PropertyId.USER_PROPERTY: "UserProperty",
}
"""What is carried from end to end; the rest is between a client and its broker."""


def from_paho(given: PahoProperties | None) -> Properties:
    """Of a PUBLISH that paho has read."""
    values: dict[str, Any] = vars(given) if given is not None else {}
    found = {ident: values[name] for ident, name in _NAMES.items() if name in values}
    return found or EMPTY


def to_paho(properties: Properties) -> PahoProperties:
    """For a PUBLISH that paho is to write."""
    made = PahoProperties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for ident, value in properties.items():
        setattr(made, _NAMES[ident], value)
    return made
