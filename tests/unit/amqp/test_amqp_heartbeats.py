"""Heartbeats by a clock that the test sets."""

from __future__ import annotations

from entrepot.protocols.amqp.connection_events import Closing
from entrepot.protocols.amqp.frames import HEARTBEAT_FRAME
from entrepot.protocols.amqp.methods_basic import BasicQosOk
from entrepot.protocols.amqp.methods_connection import ConnectionTuneOk
from tests.support.amqp.machine import CHANNEL, HELLO, OPEN, START_OK, Machine, said
from tests.support.cases import cases


def machine_with(heartbeat: int) -> Machine:
    machine = Machine()
    machine.feed(HELLO + START_OK + said(0, ConnectionTuneOk(0, 0, heartbeat)) + OPEN + CHANNEL, now=0.0)
    return machine


def test_no_silence_is_longer_than_two_thirds_of_an_interval() -> None:
    machine = machine_with(60)
    now = 0.0
    sent = []
    while now < 99.0:
        now = machine.connection.deadline()
        sent += [(now, frame) for frame in machine.wait(now)]
        machine.feed(HEARTBEAT_FRAME, now=now)
    # what was sent in the handshake counts for the first third
    assert sent == [(at, (0, "heartbeat")) for at in (40.0, 60.0, 80.0, 100.0)]


def test_whatever_is_sent_counts() -> None:
    machine = machine_with(60)
    for now in (20.0, 40.0, 60.0):
        assert machine.connection.deadline() == now
        assert machine.wait(now) == []
        machine.connection.send(1, BasicQosOk())
        assert machine.connection.data_to_send()
        machine.connection.note_alive(now)
    assert machine.wait(80.0) == []
    assert machine.wait(100.0) == [(0, "heartbeat")]


def test_a_client_that_is_silent_for_three_intervals_is_gone() -> None:
    machine = machine_with(10)
    machine.feed(b"\x08", now=7.0)  # a byte is enough
    for now in (10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 36.9):
        machine.wait(now)
    assert machine.connection.is_open
    assert machine.connection.deadline() == 37.0
    assert machine.wait(37.0) == []
    assert machine.connection.is_closed
    closing = machine.events[-1]
    assert isinstance(closing, Closing)
    assert closing.is_final
    assert closing.text == "missed heartbeats from client, timeout: 10s"


def test_not_held_against_the_client_when_the_server_did_not_read() -> None:
    machine = machine_with(10)
    machine.connection.note_alive(19.0)
    machine.wait(40.0)
    assert machine.connection.is_open
    machine.wait(49.0)
    assert machine.connection.is_closed


def test_heartbeats_are_no_events() -> None:
    machine = machine_with(60)
    before = len(machine.events)
    for at in range(8):
        machine.feed(HEARTBEAT_FRAME[at : at + 1])
    assert machine.feed(HEARTBEAT_FRAME * 3) == b""
    assert len(machine.events) == before


@cases("now", [1e3, 1e9])
def test_0_is_none(now: float) -> None:
    machine = machine_with(0)
    assert machine.connection.deadline() == float("inf")
    assert machine.wait(now) == []
    assert machine.connection.is_open


def test_a_late_look_does_not_put_off_the_next() -> None:
    machine = machine_with(60)
    machine.wait(34.0)
    assert machine.connection.deadline() == 40.0
    assert machine.wait(40.0) == [(0, "heartbeat")]
    machine.feed(HEARTBEAT_FRAME, now=60.0)
    machine.wait(175.0)  # after a long stall the looks begin anew
    assert machine.connection.deadline() == 195.0
