"""What the encoder refuses, leaves out, and shares."""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, encode, encode_words, publish_template
from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Suback,
    Unsuback,
)
from entrepot.protocols.mqtt.properties import EMPTY, PropertyId, encode_properties
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.mqtt.wire import MAX_VARINT, write_u16, write_u32, write_varint
from tests.support.cases import cases

TOO_LONG = "x" * 65_536


@cases("topic", [TOO_LONG, "é" * 32_768, "a\0b", "\ud800"], ids=["long", "long in UTF-8", "NUL", "surrogate"])
@cases("qos", [0, 1])
def test_topics_no_peer_would_read(topic: str, qos: int) -> None:
    with pytest.raises(ValueError):
        encode(Publish(topic, b"", qos, 1), 5)
    with pytest.raises(ValueError):
        publish_template(topic, b"", qos)


def test_longest_topic() -> None:
    topic = TOO_LONG[1:]
    (packet,) = Decoder(1 << 20, 4).feed(encode(Publish(topic, b"p"), 4))
    assert packet == Decoder(1 << 20, 4).feed(publish_template(topic, b"p", version=4).packet(0))[0]


@pytest.mark.parametrize(("qos", "packet_id"), [(1, 0), (2, 0), (3, 1), (1, 65_536)])
def test_impossible_qos_or_packet_id(qos: int, packet_id: int) -> None:
    with pytest.raises(ValueError):
        encode(Publish("a", b"", qos, packet_id), 5)


@pytest.mark.parametrize("qos", [-1, 3])
def test_impossible_qos_of_a_template(qos: int) -> None:
    with pytest.raises(ValueError):
        publish_template("a", b"", qos)


@cases(
    "packet, version",
    [
        (Puback(0), 4),
        (Puback(65_536), 5),
        (Auth(), 4),
        (Connack(False, ReasonCode.NOT_AUTHORIZED), 4),
        (Connect(TOO_LONG), 5),
        (Connect("", 4, password=b"p"), 4),
        (Connect("", keep_alive=65_536), 5),
        (Disconnect(properties={PropertyId.REASON_STRING: TOO_LONG}), 5),
        (Disconnect(properties={PropertyId.USER_PROPERTY: [("a", "b\0")]}), 5),
        (Disconnect(properties={PropertyId.SESSION_EXPIRY_INTERVAL: 1 << 32}), 5),
    ],
)
def test_what_does_not_fit(packet: Packet, version: int) -> None:
    with pytest.raises(ValueError):
        encode(packet, version)


def test_version_4_leaves_out_what_it_lacks() -> None:
    properties = {PropertyId.REASON_STRING: "no"}
    assert encode(Puback(7, ReasonCode.NOT_AUTHORIZED, properties), 4) == b"\x40\x02\x00\x07"
    assert encode(Disconnect(ReasonCode.SERVER_BUSY, properties), 4) == b"\xe0\x00"
    assert encode(Suback(7, [ReasonCode.NOT_AUTHORIZED], properties), 4) == b"\x90\x03\x00\x07\x80"
    assert encode(Unsuback(7, [ReasonCode.SUCCESS], properties), 4) == b"\xb0\x02\x00\x07"


def test_pubacks_in_one_piece() -> None:
    ids = [1, 7, 65_535]
    found = encode_words([PUBACK_WORD | n for n in ids])
    assert found == b"".join(encode(Puback(n), 5) for n in ids)
    assert Decoder(100, 5).feed(found) == [Puback(n) for n in ids]
    assert encode_words([]) == b""


def test_template_of_qos_0_is_the_same_object_for_all() -> None:
    template = publish_template("a", b"p")
    assert template.packet(1) is template.packet(2)


def test_template_with_properties() -> None:
    properties = {PropertyId.CONTENT_TYPE: "text/plain", PropertyId.USER_PROPERTY: [("a", "b")]}
    template = publish_template("a", b"p", 2, True, properties)
    assert template.packet(9) == encode(Publish("a", b"p", 2, 9, True, False, properties), 5)
    assert template.packet_again(9) == encode(Publish("a", b"p", 2, 9, True, True, properties), 5)


@cases(
    "value, wire",
    [
        *((0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001")),
        *((2_097_151, "ffff7f"), (2_097_152, "80808001"), (MAX_VARINT, "ffffff7f")),
    ],
)
def test_varint(value: int, wire: str) -> None:
    """Table 1-1."""
    assert write_varint(value) == bytes.fromhex(wire)


@cases("write", [write_varint, write_u16, write_u32])
@cases("value", [-1, 1 << 32])
def test_integers_out_of_range(write: object, value: int) -> None:
    with pytest.raises(ValueError):
        write(value)  # type: ignore[operator]


def test_no_properties() -> None:
    assert encode_properties(EMPTY) == encode_properties({}) == b"\0"
