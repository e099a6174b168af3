"""Messages put together from frames, and the limits of channels."""

from __future__ import annotations

from dataclasses import replace

from entrepot.protocols.amqp.connection_events import Acks, ChannelClosed, Method, Publish, Publishes
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.frames import BODY, HEADER, frame, header_payload
from entrepot.protocols.amqp.methods_basic import (
    BasicAck,
    BasicCancelOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    ConfirmSelect,
    TxSelect,
)
from entrepot.protocols.amqp.methods_connection import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import LIMITS, frames_of, heard, opened_machine, published, said
from tests.support.cases import cases

HEADERS = ContentHeader.of(content_type="text/plain", headers={"a": 1}, delivery_mode=2, expiration="1000")


@cases("step", [1, 11, 4096, 100_000])
@cases("size", [0, 1, 4087, 4088, 4089, 20_000])
def test_a_message_comes_as_it_was_sent(size: int, step: int) -> None:
    machine = opened_machine()
    body = bytes(range(256)) * 80
    wire = published(1, "exchange", "röuting.key", body[:size], HEADERS)
    for at in range(0, len(wire), step):
        machine.feed(wire[at : at + step])
    assert machine.events == [Publishes(1, [Publish("exchange", "röuting.key", False, HEADERS, body[:size])])]


def test_a_run_is_one_event() -> None:
    machine = opened_machine()
    machine.feed(b"".join([published(1, "e", f"k{at}", b"%d" % at) for at in range(100)]))
    assert len(machine.events) == 1
    assert machine.bodies() == [(1, b"%d" % at) for at in range(100)]


def test_mandatory_and_names_of_any_text() -> None:
    machine = opened_machine()
    for name in ("*" * 255, "é" * 127, "a{}|=\0"):
        machine.feed(said(1, BasicPublish(name, name, mandatory=True)) + frame(HEADER, 1, header_payload(b"\0\0", 0)))
        event = machine.events[-1]
        assert isinstance(event, Publishes)
        assert event.publishes[0][:3] == (name, name, True)


def test_messages_of_several_channels_may_interleave() -> None:
    machine = opened_machine(channels=2)
    one, two = published(1, "e", "k", b"1" * 5000), published(2, "e", "k", b"2" * 5000)
    cuts = [0, 19, 41, 41 + 4096]  # method, header, first body
    for start, end in zip(cuts, [*cuts[1:], len(one)], strict=True):
        machine.feed(one[start:end])
        machine.feed(two[start:end])
    assert machine.bodies() == [(1, b"1" * 5000), (2, b"2" * 5000)]


def test_empty_body_frames_are_let_pass_and_not_kept() -> None:
    machine = opened_machine()
    machine.feed(said(1, BasicPublish("e", "k")) + frame(HEADER, 1, header_payload(b"\0\0", 2)))
    machine.feed(frame(BODY, 1, b"") * 1000)
    assert machine.connection._channels[1]._body.tell() == 0
    machine.feed(frame(BODY, 1, b"a") + frame(BODY, 1, b"") + frame(BODY, 1, b"b"))
    assert machine.bodies() == [(1, b"ab")]


def test_a_body_behind_an_empty_message_has_no_place() -> None:
    machine = opened_machine()
    machine.feed(published(1, "e", "k", b"") + frame(BODY, 1, b"x"))
    assert machine.bodies() == [(1, b"")]
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.UNEXPECTED_FRAME


@cases("step", [1, 100_000])
def test_a_message_that_is_too_large_ends_its_channel_only(step: int) -> None:
    machine = opened_machine(channels=2)
    wire = published(1, "e", "k", bytes(20_001)) + said(1, BasicAck(1)) + published(2, "e", "k", b"other")
    sent = b"".join([machine.feed(wire[at : at + step]) for at in range(0, len(wire), step)])
    text = "message size 20001 is larger than configured max size 20000"
    assert heard(sent) == [(1, ChannelClose(406, f"PRECONDITION_FAILED - {text}", 60, 40))]
    assert machine.events[0] == ChannelClosed(1, False, 406, text)
    assert machine.bodies() == [(2, b"other")]
    assert machine.say(1, ChannelCloseOk(), ChannelOpen())[0][0] == 1


def test_the_largest_message_holds_for_small_ones_too() -> None:
    machine = opened_machine(replace(LIMITS, max_message_size_bytes=100))
    machine.feed(published(1, "e", "k", bytes(100)) + published(1, "e", "k", bytes(101)))
    assert machine.bodies() == [(1, bytes(100))]
    assert isinstance(machine.events[-1], ChannelClosed)


def test_a_run_of_settlements_ends_where_one_is_not_sound() -> None:
    machine = opened_machine()
    machine.feed(said(1, BasicAck(1)) + said(1, BasicAck(2))[:-1] + b"\xcd" + said(1, BasicAck(3)))
    assert machine.events[0] == Acks(1, [(80, 1, False, False)])
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.FRAME_ERROR


def test_messages_in_part_have_a_limit_together() -> None:
    machine = opened_machine(channels=2)
    parts = {
        number: [
            frame(kind, number, payload) for kind, _, payload in frames_of(published(number, "e", "k", bytes(20_000)))
        ]
        for number in (1, 2)
    }
    for number in (1, 2):
        machine.feed(b"".join(parts[number][:5]))  # three bodies of 4088 bytes, so 24528 in all
    machine.feed(b"".join(parts[1][5:]))
    assert machine.bodies() == [(1, bytes(20_000))]
    machine.feed(b"".join(parts[1][:6]))  # 16352 beside the 12264 of the other channel
    assert machine.closing is None
    machine.feed(parts[2][5])
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.RESOURCE_ERROR


def test_what_ended_within_a_message_does_not_count() -> None:
    machine = opened_machine()
    for _ in range(10):
        machine.feed(published(1, "e", "k", bytes(20_000))[:15_000])
        rest = published(1, "e", "k", bytes(20_000))[15_000:]
        machine.connection.close_channel(1, AmqpError(ReplyCode.NOT_FOUND, "gone"))
        machine.feed(rest + said(1, ChannelCloseOk(), ChannelOpen()))
    assert machine.closing is None
    assert machine.connection.incomplete_bytes == 0


def test_settlements_are_a_run_in_order() -> None:
    machine = opened_machine()
    wire = said(
        1,
        BasicAck(1),
        BasicNack(2, multiple=True, requeue=False),
        BasicNack(3, multiple=False, requeue=True),
        BasicReject(4, requeue=True),
        BasicReject(2**64 - 1),
        BasicAck(0, multiple=True),
    )
    expected = [
        (80, 1, False, False),
        (120, 2, True, False),
        (120, 3, False, True),
        (90, 4, False, True),
        (90, 2**64 - 1, False, False),
        (80, 0, True, False),
    ]
    machine.feed(wire)
    assert machine.events == [Acks(1, expected)]
    machine.events.clear()
    for at in range(len(wire)):
        machine.feed(wire[at : at + 1])
    assert machine.events == [Acks(1, [settlement]) for settlement in expected]


def test_runs_end_where_the_channel_changes() -> None:
    machine = opened_machine(channels=2)
    machine.feed(said(1, BasicAck(1)) + said(2, BasicAck(1)) + said(1, BasicAck(2)))
    assert [(event.channel, event.settlements[0][1]) for event in machine.events] == [(1, 1), (2, 1), (1, 2)]  # type: ignore[union-attr]


@cases("method", [ConfirmSelect(), TxSelect(), ChannelFlow(False), BasicCancelOk("c")])
def test_other_methods_are_the_callers(method: object) -> None:
    machine = opened_machine()
    assert machine.say(1, method) == []  # type: ignore[arg-type]
    assert machine.events == [Method(1, method)]  # type: ignore[arg-type]


def test_a_new_secret() -> None:
    machine = opened_machine()
    machine.say(0, ConnectionUpdateSecret(b"token", "expires"))
    assert machine.events == [Method(0, ConnectionUpdateSecret(b"token", "expires"))]
    machine.connection.answer(ConnectionUpdateSecretOk())
    assert heard(machine.connection.data_to_send()) == [(0, ConnectionUpdateSecretOk())]


def test_channel_numbers_are_free_their_count_is_not() -> None:
    machine = opened_machine(channels=0)
    for number in (65_535, 7, 1, 300):
        machine.say(number, ChannelOpen())
        assert machine.connection.is_channel_open(number)
    machine.say(7, ChannelClose(200, "bye"))
    machine.say(8, ChannelOpen())
    assert machine.connection.is_channel_open(8)
    machine.say(9, ChannelOpen())
    assert machine.closing is not None
    assert machine.closing.reply_code == ReplyCode.NOT_ALLOWED
    assert machine.closing.text == "number of channels opened (4) has reached the negotiated channel_max (4)"
