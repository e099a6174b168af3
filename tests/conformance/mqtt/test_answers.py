"""What the encoder cannot get wrong, for the statements about every packet of a kind."""

from __future__ import annotations

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.packets import Packet, Puback, Pubcomp, Pubrec, Pubrel, Suback, Unsuback
from entrepot.protocols.mqtt.reason_codes import REASONS_OF, ReasonCode
from tests.support.cases import cases

ANSWERS: dict[PacketType, type[Packet]] = {
    PacketType.PUBACK: Puback,
    PacketType.PUBREC: Pubrec,
    PacketType.PUBREL: Pubrel,
    PacketType.PUBCOMP: Pubcomp,
    PacketType.SUBACK: Suback,
    PacketType.UNSUBACK: Unsuback,
}

# First byte and what comes before the reason code, in hexadecimal, with the lengths that go with it.
BEFORE_REASON = {
    PacketType.CONNACK: (0x20, "00", "00"),
    PacketType.PUBACK: (0x40, "0001", ""),
    PacketType.PUBREC: (0x50, "0001", ""),
    PacketType.PUBREL: (0x62, "0001", ""),
    PacketType.PUBCOMP: (0x70, "0001", ""),
    PacketType.SUBACK: (0x90, "000100", ""),
    PacketType.UNSUBACK: (0xB0, "000100", ""),
    PacketType.DISCONNECT: (0xE0, "", ""),
    PacketType.AUTH: (0xF0, "", "00"),
}


@cases("kind", BEFORE_REASON)
@cases("code", range(256))
def test_reason_codes_are_those_of_their_packet(kind: PacketType, code: int) -> None:
    first, before, after = BEFORE_REASON[kind]
    body = bytes.fromhex(before) + bytes((code,)) + bytes.fromhex(after)
    decoder = Decoder(1000, 5)
    packets = decoder.feed(bytes((first, len(body))) + body)
    assert (len(packets) == 1) is (code in REASONS_OF[kind])
    assert (decoder.error is None) is (code in REASONS_OF[kind])


@cases("kind", ANSWERS)
def test_answers_have_no_text_that_could_be_too_long(kind: PacketType) -> None:
    """Without texts an answer with one reason has at most 6 bytes, less than any peer can refuse to take."""
    for code in REASONS_OF[kind]:
        reason = ReasonCode(code)
        several = kind in (PacketType.SUBACK, PacketType.UNSUBACK)
        packet = ANSWERS[kind](1, [reason] if several else reason)  # type: ignore[call-arg,arg-type,list-item]
        assert len(encode(packet, 5)) <= 6
