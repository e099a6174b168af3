"""From the first byte to the open connection."""

from __future__ import annotations

from entrepot.protocols.amqp.connection_events import (
    ChannelOpened,
    Closing,
    ConnectionLimits,
    Login,
    LoginContinues,
    Open,
)
from entrepot.protocols.amqp.methods_connection import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
)
from entrepot.protocols.amqp.methods_topology import QueueDeclare
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import (
    CHANNEL,
    HANDSHAKE,
    HELLO,
    LIMITS,
    OPEN,
    START_OK,
    TUNE_OK,
    Machine,
    heard,
    opened_machine,
    published,
    said,
)
from tests.support.cases import cases

TIMID_START_OK = said(0, ConnectionStartOk({"capabilities": {"authentication_failure_close": 1}}, "PLAIN"))
"""Of a client without capabilities: 1 is not true."""


def tuned_by(channel_max: int, frame_max: int, heartbeat: int, limits: ConnectionLimits = LIMITS) -> Machine:
    machine = Machine(limits)
    machine.feed(HELLO + START_OK + said(0, ConnectionTuneOk(channel_max, frame_max, heartbeat)))
    return machine


@cases(
    "first",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x01\x01\x08\x00",
        b"GET / HT",
        b"\x16\x03\x01\x02\0\1\0\1",
    ],
)
@cases("step", [1, 100])
def test_another_protocol_is_told_which_one_is_spoken(first: bytes, step: int) -> None:
    machine = Machine()
    wire = first + b"TP/1.1\r\n" + START_OK
    assert b"".join([machine.feed(wire[at : at + step]) for at in range(0, len(wire), step)]) == b"AMQP\x00\x00\x09\x01"
    assert machine.connection.is_closed
    assert machine.closing is not None
    assert machine.closing.is_final
    assert len(machine.events) == 1


def test_every_step_is_answered() -> None:
    machine = Machine()
    assert heard(machine.feed(HELLO)) == [
        (0, ConnectionStart(0, 9, {"product": "Entrepot"}, b"PLAIN AMQPLAIN", b"en_US"))
    ]
    assert heard(machine.feed(START_OK)) == [(0, ConnectionTune(4, 8192, 60))]
    assert machine.feed(TUNE_OK) == b""
    assert heard(machine.feed(OPEN)) == [(0, ConnectionOpenOk())]
    assert heard(machine.feed(CHANNEL)) == [(1, ChannelOpenOk())]
    login, opens, channel = machine.events
    assert isinstance(login, Login)
    assert (login.mechanism, login.response, login.locale) == ("PLAIN", b"\0guest\0guest", "en_US")
    assert (opens, channel) == (Open("/"), ChannelOpened(1))


@cases("step", [1, 5, 10_000])
def test_a_client_that_sends_all_in_one_go(step: int) -> None:
    machine = Machine()
    wire = HANDSHAKE + CHANNEL + published(1, "e", "k", b"body")
    for at in range(0, len(wire), step):
        machine.feed(wire[at : at + step])
    assert machine.bodies() == [(1, b"body")]


@cases("step", [1, 10_000])
def test_what_comes_behind_an_undecided_login_waits(step: int) -> None:
    machine = Machine(decides=False)
    wire = HANDSHAKE + CHANNEL + published(1, "e", "k", b"body")
    for at in range(0, len(wire), step):
        machine.feed(wire[at : at + step])
    assert [type(event) for event in machine.events] == [Login]
    assert machine.connection.is_deciding
    assert machine.go_on() == b""
    machine.connection.authenticated()
    machine.go_on()
    assert machine.events[1:] == [Open("/")]
    machine.connection.opened()
    machine.feed(published(1, "e", "k", b"more"))  # behind what waits, though nobody said to go on
    assert machine.bodies() == [(1, b"body"), (1, b"more")]


def test_too_much_behind_an_undecided_login() -> None:
    machine = Machine(decides=False)
    machine.feed(HELLO + START_OK)
    for _ in range(20):
        machine.feed(bytes(65_536))
    assert [type(event) for event in machine.events] == [Login, Closing]
    assert machine.connection.is_closed


def test_challenges() -> None:
    machine = Machine(decides=False)
    machine.feed(HELLO + START_OK)
    machine.connection.challenge(b"who?")
    assert heard(machine.connection.data_to_send()) == [(0, ConnectionSecure(b"who?"))]
    assert machine.say(0, ConnectionSecureOk(b"me")) == []
    assert machine.events[-1] == LoginContinues(b"me")
    machine.connection.authenticated()
    assert heard(machine.connection.data_to_send()) == [(0, ConnectionTune(4, 8192, 60))]


def test_a_refused_login_is_told_where_the_client_can_hear_it() -> None:
    machine = Machine(decides=False)
    machine.feed(HELLO + START_OK)
    closing = machine.connection.refuse("Login was refused")
    assert (closing.reply_code, closing.is_final) == (ReplyCode.ACCESS_REFUSED, False)
    assert heard(machine.connection.data_to_send()) == [
        (0, ConnectionClose(403, "ACCESS_REFUSED - Login was refused", 0, 0))
    ]
    machine.feed(said(0, ConnectionCloseOk()))
    assert machine.connection.is_closed


def test_a_refused_login_is_a_closed_socket_otherwise() -> None:
    machine = Machine(decides=False)
    machine.feed(HELLO + TIMID_START_OK)
    assert machine.connection.refuse("Login was refused").is_final
    assert machine.connection.data_to_send() == b""
    assert machine.connection.is_closed


@cases(
    ("asked", "holds"),
    [
        ((0, 0, 0), (4, 8192, 0)),
        ((2, 4096, 10), (2, 4096, 10)),
        ((4, 8192, 60), (4, 8192, 60)),
        ((65535, 0, 600), (4, 8192, 600)),
    ],
)
def test_limits_that_hold(asked: tuple[int, int, int], holds: tuple[int, int, int]) -> None:
    tuned = tuned_by(*asked).connection.tuned
    assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat_seconds) == holds


@cases("frame_max", [8193, 2**32 - 1, 4095, 1])
def test_frame_max_that_is_refused(frame_max: int) -> None:
    machine = tuned_by(0, frame_max, 0)
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.NOT_ALLOWED


def test_an_agreed_frame_max_holds_both_ways() -> None:
    machine = tuned_by(0, 4096, 0)
    machine.feed(OPEN + CHANNEL + published(1, "e", "k", bytes(4096 - 8), frame_max=4096))
    assert machine.bodies() == [(1, bytes(4088))]
    machine.feed(b"\x03\0\x01" + (4097).to_bytes(4, "big") + b"\0")
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.FRAME_ERROR


def test_a_virtual_host_that_is_not_there() -> None:
    machine = Machine(decides=False)
    machine.feed(HELLO + START_OK)
    machine.connection.authenticated()
    machine.feed(TUNE_OK + said(0, ConnectionOpen("/none")) + CHANNEL)
    assert machine.events[-1] == Open("/none")
    machine.connection.data_to_send()
    machine.connection.close(ReplyCode.NOT_ALLOWED, "vhost /none not found", 10, 40)
    assert heard(machine.connection.data_to_send()) == [
        (0, ConnectionClose(530, "NOT_ALLOWED - vhost /none not found", 10, 40))
    ]
    assert machine.go_on() == b""
    assert machine.events[-1] == Open("/none")


@cases(
    "wire",
    [
        HELLO + said(0, QueueDeclare("q")),
        HELLO + said(1, QueueDeclare("q")),
        HELLO + TUNE_OK,
        HELLO + OPEN,
        HELLO + published(1, "e", "k", b"x"),
        HELLO + b"\x01\0\0\0\0\xff\xff\0",
        HELLO + HELLO,
    ],
)
def test_before_tuning_a_violation_is_a_closed_socket(wire: bytes) -> None:
    machine = Machine()
    sent = heard(machine.feed(wire))
    assert [type(method) for _, method in sent] == [ConnectionStart]
    assert [type(event) for event in machine.events] == [Closing]
    assert machine.connection.is_closed


@cases("wire", [CHANNEL, START_OK, published(1, "e", "k", b"x"), said(1, ChannelOpen(), QueueDeclare())])
def test_from_tuning_on_it_is_told(wire: bytes) -> None:
    machine = Machine()
    sent = heard(machine.feed(HELLO + START_OK + TUNE_OK + wire))
    assert isinstance(sent[-1][1], ConnectionClose)
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.CHANNEL_ERROR


@cases("wire", [b"", HELLO, HELLO + START_OK, HELLO + START_OK + TUNE_OK])
def test_a_handshake_has_its_time(wire: bytes) -> None:
    machine = Machine(now=100.0)
    machine.feed(wire, now=105.0)
    assert machine.connection.deadline() == 110.0
    assert machine.wait(109.9) == []
    machine.wait(110.0)
    assert machine.closing is not None
    assert machine.closing.is_final
    assert machine.connection.deadline() == float("inf")
    assert machine.feed(HANDSHAKE, now=111.0) == b""


def test_the_handshakes_time_does_not_end_an_open_connection() -> None:
    machine = opened_machine()
    assert machine.wait(29.0) == []
    assert machine.connection.is_open


def test_blocked_only_for_who_understands_it() -> None:
    machine = opened_machine()
    machine.connection.block("low on disk")
    machine.connection.unblock()
    assert heard(machine.connection.data_to_send()) == [
        (0, ConnectionBlocked("low on disk")),
        (0, ConnectionUnblocked()),
    ]
    timid = Machine()
    timid.feed(HELLO + TIMID_START_OK + TUNE_OK + OPEN)
    assert timid.connection.is_open
    timid.connection.block("low on disk")
    timid.connection.unblock()
    assert timid.connection.data_to_send() == b""
