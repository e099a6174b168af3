"""Every entry of the table is refused with its code, and what came before it is delivered."""

from __future__ import annotations

from entrepot.protocols.amqp.methods_connection import ConnectionClose, ConnectionCloseOk
from tests.support.amqp.machine import heard, opened_machine, published, said
from tests.support.cases import cases
from tests.wire.amqp.bad_input import ALL, SOUND, Bad


@cases("step", [1, 7, 1_000_000])
@cases("bad", ALL, ids=lambda bad: bad.name)
def test_refused_with_its_code(bad: Bad, step: int) -> None:
    machine = opened_machine()
    wire = published(1, "e", "k", b"before", SOUND) + bad.wire + published(1, "e", "k", b"after")
    sent = b"".join([machine.feed(wire[at : at + step]) for at in range(0, len(wire), step)])
    assert machine.bodies() == [(1, b"before")]
    closing = machine.closing
    assert closing is not None
    assert (closing.reply_code, closing.is_clients, closing.is_final) == (bad.code, False, False)
    channel, goodbye = heard(sent)[-1]
    assert channel == 0
    assert isinstance(goodbye, ConnectionClose)
    assert (goodbye.reply_code, goodbye.failed_class_id, goodbye.failed_method_id) == (
        bad.code,
        bad.class_id,
        bad.method_id,
    )
    assert goodbye.reply_text.startswith(f"{bad.code.name} - ")


@cases("bad", ALL, ids=lambda bad: bad.name)
def test_nothing_is_looked_at_behind_the_goodbye(bad: Bad) -> None:
    machine = opened_machine()
    machine.feed(bad.wire)
    events = len(machine.events)
    assert machine.feed(bad.wire + published(1, "e", "k", b"after") + said(0, ConnectionCloseOk())) == b""
    assert [type(event).__name__ for event in machine.events[events:]] in (["Closed"], [])
    assert machine.connection.handle_timeout(1.0) == []
    machine.wait(1e9)
    assert machine.connection.is_closed


def test_cases_are_named_once() -> None:
    assert len({bad.name for bad in ALL}) == len(ALL)
