"""MQTT 5 properties of paho's packets and ours, both ways."""

from __future__ import annotations

import struct
from typing import Any, Final

from paho.mqtt import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties

from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId

_NAMES: Final = {
    PropertyId.PAYLOAD_FORMAT_INDICATOR: "PayloadFormatIndicator",
    PropertyId.MESSAGE_EXPIRY_INTERVAL: "MessageExpiryInterval",
    PropertyId.CONTENT_TYPE: "ContentType",
    PropertyId.RESPONSE_TOPIC: "ResponseTopic",
    PropertyId.CORRELATION_DATA: "CorrelationData",
    PropertyId.USER_PROPERTY: "UserProperty",
}
"""Properties that are carried from end to end; the rest is between a client and its broker."""

MAX_EXPIRY_SECONDS: Final = 0xFFFF_FFFF


def from_paho(given: PahoProperties | None) -> Properties:
    """Return the properties of a PUBLISH that paho has read."""
    values: dict[str, Any] = vars(given) if given is not None else {}
    found = {ident: values[name] for ident, name in _NAMES.items() if name in values}
    return found or EMPTY


def to_paho(properties: Properties) -> tuple[PahoProperties, int]:
    """Return the properties for paho's PUBLISH, and their size in bytes. Raises ValueError for values that no MQTT
    packet can carry, such as a text beyond 64 KiB, which other protocols allow."""
    made = PahoProperties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    try:
        for ident, value in properties.items():
            is_too_long = ident is PropertyId.MESSAGE_EXPIRY_INTERVAL and value > MAX_EXPIRY_SECONDS
            setattr(made, _NAMES[ident], MAX_EXPIRY_SECONDS if is_too_long else value)
        return made, len(made.pack())  # type: ignore[no-untyped-call]
    except (MQTTException, struct.error) as error:
        raise ValueError(str(error)) from None
