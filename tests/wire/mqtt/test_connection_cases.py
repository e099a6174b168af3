"""Every conversation of the table, in one piece, byte by byte, and packet by packet."""

from __future__ import annotations

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Packet
from tests.support.cases import cases
from tests.support.mqtt.machine import Machine
from tests.wire.mqtt.connection_cases import CASES as BASIC
from tests.wire.mqtt.connection_cases import Case
from tests.wire.mqtt.handshake_cases import CASES as HANDSHAKES
from tests.wire.mqtt.version_five_cases import CASES as VERSION_FIVE

CASES = BASIC + HANDSHAKES + VERSION_FIVE


def pieces(case: Case) -> list[bytes]:
    version = 5
    written = []
    for said in case.says:
        if isinstance(said, bytes):
            written.append(said)
            continue
        version = said.version if isinstance(said, Connect) else version
        written.append(encode(said, version))
    return written


def without_text(packet: Packet) -> Packet:
    """A goodbye's reason string is not compared, its reason is."""
    if isinstance(packet, Disconnect) or (isinstance(packet, Connack) and packet.reason):
        return type(packet)(reason=packet.reason)  # type: ignore[arg-type]
    return packet


@cases("step", ["whole", "packets", "bytes"])
@cases("case", CASES, ids=lambda case: f"{case.clause} {case.name}"[:70])
def test_conversation(case: Case, step: str) -> None:
    chunks = pieces(case)
    wire = b"".join(chunks)
    if step == "whole":
        chunks = [wire]
    elif step == "bytes":
        chunks = [wire[at : at + 1] for at in range(len(wire))]
    machine = Machine()
    sent = b"".join([machine.feed(chunk) for chunk in chunks])
    assert [without_text(packet) for packet in machine.read(sent)] == list(case.hears)
    if case.closes is None:
        assert machine.connection.is_open
        assert machine.closing is None
        return
    assert machine.connection.is_closed
    assert machine.closing is not None
    assert machine.closing.reason == case.closes
    assert machine.closing.publishes_will is case.will
    assert machine.closing.session_expiry == case.session_expiry
    assert machine.feed(b"\xc0\x00") == b""


def test_cases_are_named_once() -> None:
    names = [(case.clause, case.name) for case in CASES]
    assert sorted(names) == sorted(set(names))
