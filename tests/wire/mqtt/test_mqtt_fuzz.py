"""No bytes make the decoder raise, hang or hold more than one packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Packet
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.wire.mqtt.strategies import VERSIONS, any_packet

LIMIT = 400


def held(decoder: Decoder) -> int:
    return 0 if decoder._partial is None else len(decoder._partial)


def drain(data: bytes, version: int, step: int) -> tuple[list[Packet], ReasonCode | None, int]:
    decoder = Decoder(LIMIT, version)
    packets: list[Packet] = []
    for pos in range(0, len(data), step):
        packets += decoder.feed(data[pos : pos + step])
        assert held(decoder) < max(LIMIT, 5)
    return packets, None if decoder.error is None else decoder.error.reason, held(decoder)


@pytest.mark.parametrize("version", [0, *VERSIONS])
@given(data=st.binary(max_size=600), step=st.integers(1, 50))
def test_random_bytes(version: int, data: bytes, step: int) -> None:
    assert drain(data, version, 1_000) == drain(data, version, step) == drain(data, version, 1)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_valid_bytes_with_one_changed(version: int, data: st.DataObject) -> None:
    """Closer to what gets deep into a parser than noise is."""
    sent = data.draw(st.lists(any_packet(version), min_size=1, max_size=3))
    wire = bytearray(b"".join(encode(packet, version) for packet in sent))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(wire)
    assert drain(damaged, version, 10_000) == drain(damaged, version, 1)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_what_is_accepted_can_be_written_and_read_again(version: int, data: st.DataObject) -> None:
    wire = bytearray(encode(data.draw(any_packet(version)), version))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    for packet in Decoder(LIMIT, version).feed(bytes(wire)):
        if getattr(packet, "version", version) == version:
            assert Decoder(1 << 20, version).feed(encode(packet, version)) == [packet]
