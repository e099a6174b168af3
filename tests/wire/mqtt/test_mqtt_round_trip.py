"""What is encoded decodes to the same packet, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode, publish_template
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.packets import Packet, Publish
from tests.support.cases import cases
from tests.wire.mqtt.strategies import VERSIONS, any_packet, kinds, packets, publishes

LIMIT = 1 << 20


def feed_in(decoder: Decoder, chunks: list[bytes]) -> list[Packet]:
    return [packet for chunk in chunks for packet in decoder.feed(chunk)]


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks, pos = [], 0
    for size in sizes:
        chunks.append(data[pos : pos + size])
        pos += size
    return [*chunks, data[pos:]]


@pytest.mark.parametrize(("kind", "version"), [(kind, version) for version in VERSIONS for kind in kinds(version)])
@given(data=st.data())
def test_packet_survives_the_wire(data: st.DataObject, kind: PacketType, version: int) -> None:
    packet = data.draw(packets(kind, version))
    wire = encode(packet, version)
    for chunks in ([wire], [bytes((byte,)) for byte in wire]):
        decoder = Decoder(LIMIT, version)
        assert feed_in(decoder, chunks) == [packet]
        assert decoder.error is None


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_chunks_do_not_matter(data: st.DataObject, version: int) -> None:
    sent = data.draw(st.lists(any_packet(version), max_size=6))
    wire = b"".join(encode(packet, version) for packet in sent)
    chunks = split(wire, data.draw(st.lists(st.integers(0, 60), max_size=30)))
    decoder = Decoder(LIMIT, version)
    assert feed_in(decoder, chunks) == sent
    assert decoder.error is None


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_connect_sets_the_version_of_what_follows(data: st.DataObject, version: int) -> None:
    connect, publish = data.draw(packets(PacketType.CONNECT, version)), data.draw(publishes(version))
    decoder = Decoder(LIMIT)
    assert decoder.feed(encode(connect, version) + encode(publish, version)) == [connect, publish]
    assert decoder.version == version


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_template_gives_what_encode_gives(data: st.DataObject, version: int) -> None:
    packet = data.draw(publishes(version))
    template = publish_template(packet.topic, packet.payload, packet.qos, packet.retain, packet.properties, version)
    splice = template.packet_again if packet.dup else template.packet
    wire = encode(packet, version)
    assert splice(packet.packet_id) == wire
    assert template.size == len(wire)


@cases("size", [0, 100, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
@cases("version", VERSIONS)
def test_every_length_of_the_remaining_length(version: int, size: int) -> None:
    around = range(max(0, size - 12), size + 2)
    for payload in (bytes(n) for n in around):
        packet = Publish("a/b", payload, 1, 7)
        decoder = Decoder(LIMIT * 4, version)
        wire = encode(packet, version)
        assert decoder.feed(wire[:3]) + decoder.feed(wire[3:]) == [packet]
        template = publish_template("a/b", payload, 1, version=version)
        assert template.packet(7) == wire
