"""Every entry of the table is refused with its reason, and what came before it is delivered."""

from __future__ import annotations

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.packets import Connect, Packet, Pingreq
from tests.support.cases import cases
from tests.wire.mqtt.bad_input import BAD_INPUT, LIMIT, Bad

GOOD: dict[int, tuple[bytes, list[Packet]]] = {
    0: (b"", []),
    4: (bytes.fromhex("100c00044d5154540402003c0000c000"), [Connect("", 4, True, 60), Pingreq()]),
    5: (bytes.fromhex("100d00044d5154540502003c000000c000"), [Connect("", 5, True, 60), Pingreq()]),
}


@cases("step", [1, 2, 3, 5, 10_000])
@cases("bad", BAD_INPUT, ids=lambda bad: f"{bad.clause} {bad.name}")
def test_bad_input(bad: Bad, step: int) -> None:
    before, expected = GOOD[bad.version]
    wire = before + bytes.fromhex(bad.wire)
    decoder = Decoder(LIMIT)
    packets = [packet for pos in range(0, len(wire), step) for packet in decoder.feed(wire[pos : pos + step])]
    assert packets == expected
    assert decoder.error is not None
    assert decoder.error.reason is bad.reason, decoder.error.text
    assert decoder.error.text
    assert decoder.error.__traceback__ is None
    assert decoder.feed(b"\xc0\x00") == []


def test_names_are_unique() -> None:
    names = [(bad.clause, bad.name, bad.version) for bad in BAD_INPUT]
    assert len(names) == len(set(names))
