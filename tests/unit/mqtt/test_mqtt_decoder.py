"""What the decoder keeps between packets: version, limits, partial bytes, cached topics."""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt import decoder as decoder_module
from entrepot.protocols.mqtt.decoder import TOPIC_CACHE_ENTRIES, TOPIC_CACHE_MAX_BYTES, Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect, Pingreq, Publish
from entrepot.protocols.mqtt.properties import EMPTY
from entrepot.protocols.mqtt.reason_codes import ReasonCode


def test_packet_of_exactly_the_limit_is_taken() -> None:
    wire = encode(Publish("a", bytes(93)), 4)
    assert len(wire) == 98
    assert len(Decoder(98, 4).feed(wire)) == 1
    decoder = Decoder(97, 4)
    assert decoder.feed(wire) == []
    assert decoder.error is not None
    assert decoder.error.reason is ReasonCode.PACKET_TOO_LARGE


def test_too_large_is_known_from_the_first_bytes() -> None:
    decoder = Decoder(100, 5)
    decoder.feed(b"\x30\xff\x01")
    assert decoder.error is not None
    assert decoder.error.reason is ReasonCode.PACKET_TOO_LARGE


@pytest.mark.parametrize(("level", "flags"), [(4, 0x03), (5, 0x03)])
def test_version_is_known_even_if_connect_is_refused(level: int, flags: int) -> None:
    decoder = Decoder(100)
    decoder.feed(b"\x10\x0c\x00\x04MQTT" + bytes((level, flags)) + bytes(4))
    assert decoder.error is not None
    assert decoder.version == level


def test_version_stays_0_if_it_is_unsupported() -> None:
    decoder = Decoder(100)
    decoder.feed(b"\x10\x0c\x00\x04MQTT\x06\x02" + bytes(4))
    assert decoder.error is not None
    assert decoder.error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    assert decoder.version == 0


def test_second_connect_is_delivered_and_changes_nothing() -> None:
    """Refusing it is the connection's business (MQTT-3.1.0-2)."""
    first, second = Connect("a", 4), Connect("b", 5)
    decoder = Decoder(100)
    packets = decoder.feed(encode(first, 4) + encode(second, 5) + encode(Publish("t", b"x"), 4))
    assert packets == [first, second, Publish("t", b"x")]
    assert decoder.version == 4


def test_partial_packet_is_not_parsed_before_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large packet in many chunks costs one parse, not one for each chunk."""
    parses = 0
    parse = Decoder._parse

    def counted(self: Decoder, *args: object) -> tuple[int, int]:
        nonlocal parses
        parses += 1
        return parse(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Decoder, "_parse", counted)
    decoder = Decoder(1 << 21, 4)
    wire = encode(Publish("a", bytes(1 << 20)), 4)
    packets = [packet for pos in range(0, len(wire), 1000) for packet in decoder.feed(wire[pos : pos + 1000])]
    assert packets == [Publish("a", bytes(1 << 20))]
    assert parses == 2


def test_nothing_is_held_between_whole_packets() -> None:
    decoder = Decoder(100, 4)
    decoder.feed(b"\xc0")
    assert decoder._partial == bytearray(b"\xc0")
    assert decoder.feed(b"\x00") == [Pingreq()]
    assert decoder._partial is None
    assert decoder.feed(b"") == []


def test_topics_are_shared_and_bounded() -> None:
    decoder_module._topics.clear()
    decoder = Decoder(1000, 4)
    wire = encode(Publish("some/topic", b""), 4)
    first, second = decoder.feed(wire + wire)
    assert isinstance(first, Publish) and isinstance(second, Publish)
    assert first.topic is second.topic
    decoder.feed(encode(Publish("x" * (TOPIC_CACHE_MAX_BYTES + 1), b""), 4))
    assert set(decoder_module._topics) == {b"some/topic"}
    for number in range(TOPIC_CACHE_ENTRIES + 10):
        decoder.feed(encode(Publish(f"t/{number}", b""), 4))
        assert len(decoder_module._topics) <= TOPIC_CACHE_ENTRIES


def test_bad_topics_are_not_cached() -> None:
    for _ in range(2):
        decoder = Decoder(1000, 4)
        decoder.feed(b"\x30\x05\x00\x03a/#")
        assert decoder.error is not None


def test_cached_topic_does_not_excuse_a_missing_alias() -> None:
    decoder = Decoder(1000, 5)
    decoder.feed(b"\x30\x06\x00\x00\x03\x23\x00\x01")
    assert decoder.error is None
    decoder.feed(b"\x30\x03\x00\x00\x00")
    assert decoder.error is not None
    assert decoder.error.reason is ReasonCode.PROTOCOL_ERROR


def test_packets_without_properties_share_them() -> None:
    (packet,) = Decoder(1000, 5).feed(encode(Publish("a", b""), 5))
    assert isinstance(packet, Publish)
    assert packet.properties is EMPTY
    with pytest.raises(TypeError):
        packet.properties[1] = 1  # type: ignore[index]
