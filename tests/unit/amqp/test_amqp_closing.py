"""The ends of connections and channels, from both sides and from both at once."""

from __future__ import annotations

from entrepot.protocols.amqp.connection_events import Acks, ChannelClosed, ChannelOpened, Closed, Closing, Method
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicPublish, BasicQosOk
from entrepot.protocols.amqp.methods_connection import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
)
from entrepot.protocols.amqp.methods_topology import QueueDeclare
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import HELLO, LIMITS, START_OK, TUNE_OK, Machine, heard, opened_machine, published, said
from tests.support.cases import cases

NOT_FOUND = AmqpError(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'", 50, 10)
TOLD = ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)
BYE = ConnectionClose(200, "bye", 0, 0)


def test_the_clients_end_is_answered_when_the_caller_is_done() -> None:
    machine = opened_machine(ends=False)
    assert machine.feed(said(0, BYE) + published(1, "e", "k", b"late") + said(0, BYE)) == b""
    assert machine.events == [Closing(200, "bye", is_clients=True)]
    machine.connection.send(1, BasicQosOk())
    assert not machine.connection.is_closed
    machine.connection.close_ok()
    assert heard(machine.connection.data_to_send()) == [(0, ConnectionCloseOk())]
    assert machine.connection.is_closed
    machine.connection.close_ok()
    assert machine.connection.data_to_send() == b""


def test_the_servers_end_waits_for_close_ok() -> None:
    machine = opened_machine()
    closing = machine.connection.close(ReplyCode.CONNECTION_FORCED, "shutting down")
    assert closing == Closing(320, "shutting down")
    assert heard(machine.connection.data_to_send()) == [
        (0, ConnectionClose(320, "CONNECTION_FORCED - shutting down", 0, 0))
    ]
    assert machine.feed(published(1, "e", "k", b"late") + said(2, ChannelOpen(), QueueDeclare())) == b""
    assert not machine.connection.is_closed
    machine.feed(said(0, ConnectionCloseOk()))
    assert machine.events == [Closed()]
    assert machine.connection.is_closed


def test_closing_again_says_nothing_again() -> None:
    machine = opened_machine()
    machine.connection.close(ReplyCode.CONNECTION_FORCED, "shutting down")
    machine.connection.data_to_send()
    assert not machine.connection.close(ReplyCode.INTERNAL_ERROR, "again").is_final
    assert machine.connection.data_to_send() == b""


def test_both_close_at_once() -> None:
    machine = opened_machine()
    machine.connection.close(ReplyCode.CONNECTION_FORCED, "shutting down")
    machine.connection.data_to_send()
    assert machine.say(0, BYE) == [(0, ConnectionCloseOk())]
    assert machine.events == [Closed()]


def test_close_ok_that_does_not_come() -> None:
    machine = opened_machine()
    machine.connection.close(ReplyCode.CONNECTION_FORCED, "shutting down")
    assert machine.connection.deadline() <= 1000.0
    assert machine.wait(1000.0)[0][0] == 0  # the goodbye itself
    assert machine.connection.deadline() == 1000.0 + LIMITS.closing_timeout_seconds
    assert machine.wait(1009.9) == []
    assert machine.events == []
    machine.wait(1010.0)
    assert machine.events == [Closed()]
    assert machine.connection.is_closed


def test_a_callers_part_that_does_not_come() -> None:
    machine = opened_machine(ends=False)
    machine.feed(said(0, BYE), now=5.0)
    machine.wait(6.0)
    machine.wait(16.0)
    assert machine.events[1:] == [Closed()]


def test_the_clients_end_of_a_channel() -> None:
    machine = opened_machine(ends=False)
    machine.feed(said(1, ChannelClose(200, "bye")) + published(1, "e", "k", b"late") + said(1, ChannelOpen()))
    assert machine.events == [ChannelClosed(1, True, 200, "bye")]
    machine.connection.send(1, BasicQosOk())
    machine.connection.confirm(1, [1])
    assert machine.connection.data_to_send() == b""
    machine.connection.close_channel_ok(1)
    assert heard(machine.connection.data_to_send()) == [(1, ChannelCloseOk())]
    assert machine.say(1, ChannelOpen()) == [(1, ChannelOpenOk())]
    assert machine.connection.is_channel_open(1)


def test_the_servers_end_of_a_channel() -> None:
    machine = opened_machine(channels=2)
    machine.connection.close_channel(1, NOT_FOUND)
    machine.connection.close_channel(1, NOT_FOUND)
    assert heard(machine.connection.data_to_send()) == [(1, TOLD)]
    assert not machine.connection.is_channel_open(1)
    late = published(1, "e", "k", b"late") + said(1, BasicAck(1), QueueDeclare(), ChannelOpen())
    late += published(1, "e", "k", b"late", ContentHeader(b"\xff\xff")) + said(1, BasicPublish("e", immediate=True))
    assert machine.feed(late + published(2, "e", "k", b"other")) == b""
    assert machine.bodies() == [(2, b"other")]
    assert len(machine.events) == 1
    assert machine.say(1, ChannelCloseOk()) == []
    assert machine.say(1, ChannelOpen()) == [(1, ChannelOpenOk())]
    assert machine.events[1:] == [ChannelOpened(1)]


def test_within_a_message_a_channel_can_end() -> None:
    machine = opened_machine()
    half = published(1, "e", "k", b"x" * 5000)
    machine.feed(half[:4200])
    machine.connection.close_channel(1, NOT_FOUND)
    machine.feed(half[4200:] + said(1, ChannelCloseOk(), ChannelOpen()))
    machine.feed(published(1, "e", "k", b"new"))
    assert machine.bodies() == [(1, b"new")]


def test_both_close_a_channel_at_once() -> None:
    """One client answers the close that crossed its own, another takes its own for the end."""
    for answered in (True, False):
        machine = opened_machine()
        machine.connection.close_channel(1, NOT_FOUND)
        machine.connection.data_to_send()
        assert machine.say(1, ChannelClose(200, "bye")) == [(1, ChannelCloseOk())]
        assert machine.events == []
        if answered:
            machine.feed(said(1, ChannelCloseOk()))
        assert machine.say(1, ChannelOpen()) == [(1, ChannelOpenOk())]
        assert machine.events == [ChannelOpened(1)]


def test_order_is_kept_up_to_the_end() -> None:
    machine = opened_machine(channels=2)
    machine.feed(
        published(1, "e", "a", b"1")
        + published(2, "e", "a", b"2")
        + said(2, BasicAck(1), BasicAck(2, True))
        + said(1, QueueDeclare("q"))
        + published(1, "e", "a", b"3")
        + said(1, ChannelClose(200, "bye"))
        + said(0, BYE)
    )
    assert [type(event).__name__ for event in machine.events] == [
        *("Publishes", "Publishes", "Acks", "Method", "Publishes", "ChannelClosed", "Closing")
    ]
    assert machine.events[2] == Acks(2, [(80, 1, False, False), (80, 2, True, False)])
    assert machine.events[3] == Method(1, QueueDeclare("q"))


@cases("wire", [HELLO, HELLO + START_OK, HELLO + START_OK + TUNE_OK])
def test_a_client_may_go_before_it_is_in(wire: bytes) -> None:
    machine = Machine()
    machine.feed(wire)
    assert machine.say(0, BYE)[-1] == (0, ConnectionCloseOk())
    assert machine.closing == Closing(200, "bye", is_clients=True)
    assert machine.connection.is_closed
