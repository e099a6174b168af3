"""Other people's codecs read what ours writes, and the other way round."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.properties import PROPERTY_TABLE, PropertyId, decode_properties, encode_properties
from entrepot.protocols.mqtt.wire import MAX_VARINT
from tests.wire.mqtt.strategies import packets, properties

WITH_PROPERTIES = sorted({kind for spec in PROPERTY_TABLE for kind in spec.packets} - {PacketType.WILL})


@pytest.mark.parametrize("kind", WITH_PROPERTIES)
@given(data=st.data())
def test_paho_reads_and_writes_the_same_properties(kind: PacketType, data: st.DataObject) -> None:
    theirs_module = pytest.importorskip("paho.mqtt.properties")
    ours = data.draw(properties(kind, 5))
    assume(ours.get(PropertyId.MAXIMUM_PACKET_SIZE, 1) <= MAX_VARINT)  # paho takes no more, 3.1.2.11.4 does
    wire = encode_properties(ours)
    theirs = theirs_module.Properties(int(kind))
    theirs.unpack(wire)
    named = {key: theirs.getNameFromIdent(int(key)).replace(" ", "") for key in PropertyId}
    assert {key: getattr(theirs, name) for key, name in named.items() if hasattr(theirs, name)} == ours
    packed = theirs.pack()
    assert decode_properties(packed, 0, len(packed), kind) == (ours, len(packed))


# Not CONNECT: amqtt invents client identifiers and writes the repr of a binary password.
AMQTT_PACKETS = [
    PacketType.CONNACK,
    PacketType.PUBLISH,
    PacketType.PUBACK,
    PacketType.PUBREC,
    PacketType.PUBREL,
    PacketType.PUBCOMP,
    PacketType.SUBSCRIBE,
    PacketType.SUBACK,
    PacketType.UNSUBSCRIBE,
    PacketType.UNSUBACK,
]


@pytest.mark.interop
@pytest.mark.parametrize("kind", AMQTT_PACKETS)
@given(data=st.data())
def test_amqtt_writes_back_what_it_read(kind: PacketType, data: st.DataObject) -> None:
    """amqtt knows 3.1.1 only; its readers are coroutines that never wait when they read from memory."""
    amqtt = pytest.importorskip("amqtt.mqtt")
    adapters = pytest.importorskip("amqtt.adapters")

    packet = data.draw(packets(kind, 4))
    wire = encode(packet, 4)

    async def read() -> Any:
        reader = adapters.BufferReader(wire)
        header = await amqtt.MQTTFixedHeader.from_stream(reader)
        assert header is not None
        return await amqtt.packet_class(header).from_stream(reader, fixed_header=header)

    coroutine = read()
    with pytest.raises(StopIteration) as finished:
        coroutine.send(None)
    theirs = bytes(finished.value.value.to_bytes())
    assert Decoder(1 << 20, 4).feed(theirs) == [packet]
