"""Properties of paho's packets and ours, both ways, and what MQTT cannot say."""

from __future__ import annotations

import pytest

from entrepot.gateway.bridge.properties import MAX_EXPIRY_SECONDS, from_paho, to_paho
from entrepot.protocols.mqtt.properties import PropertyId

ALL = {
    PropertyId.PAYLOAD_FORMAT_INDICATOR: 1,
    PropertyId.MESSAGE_EXPIRY_INTERVAL: 7,
    PropertyId.CONTENT_TYPE: "a/b",
    PropertyId.RESPONSE_TOPIC: "r",
    PropertyId.CORRELATION_DATA: b"\x00",
    PropertyId.USER_PROPERTY: [("a", "1"), ("a", "2")],
}


def test_there_and_back() -> None:
    made, size = to_paho(ALL)
    assert from_paho(made) == ALL
    assert size == len(made.pack())
    assert from_paho(None) == {}


def test_an_expiry_beyond_what_mqtt_can_say_is_the_longest_it_can() -> None:
    made, _ = to_paho({PropertyId.MESSAGE_EXPIRY_INTERVAL: 1 << 40})
    assert from_paho(made) == {PropertyId.MESSAGE_EXPIRY_INTERVAL: MAX_EXPIRY_SECONDS}


@pytest.mark.parametrize(
    "properties",
    [{PropertyId.USER_PROPERTY: [("a", "x" * 70_000)]}, {PropertyId.CONTENT_TYPE: "\ud800"}],
    ids=["long", "surrogate"],
)
def test_what_no_packet_can_carry(properties: dict[PropertyId, object]) -> None:
    with pytest.raises(ValueError):
        to_paho(properties)
