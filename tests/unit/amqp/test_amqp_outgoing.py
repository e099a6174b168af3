"""What is sent: deliveries, confirms, returns, in frames that the client agreed to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.amqp.confirms import Confirms
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import LARGE_BODY, ContentTemplate, content_template
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.frames import BODY, HEADER
from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.methods_basic import (
    BasicAck,
    BasicConsumeOk,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
)
from entrepot.protocols.amqp.methods_connection import ConnectionTuneOk
from entrepot.protocols.amqp.outgoing import SLICE_BYTES
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.machine import CHANNEL, HELLO, OPEN, START_OK, Machine, heard, opened_machine, said
from tests.support.cases import cases

PROPERTIES = ContentHeader.of(message_id="m", headers={"a": [1, None]}).data


def template(body: bytes = b"body") -> ContentTemplate:
    return content_template("ex", "key", PROPERTIES, body)


def header(size: int) -> tuple[int, bytes]:
    return HEADER, b"\0\x3c\0\0" + size.to_bytes(8, "big") + PROPERTIES


def machine_with(frame_max: int) -> Machine:
    machine = Machine()
    machine.feed(HELLO + START_OK + said(0, ConnectionTuneOk(0, frame_max, 0)) + OPEN + CHANNEL)
    return machine


def sent(machine: Machine) -> list[object]:
    out = heard(machine.connection.data_to_send())
    assert {channel for channel, _ in out} <= {1}
    return [what for _, what in out]


def test_a_delivery() -> None:
    machine = opened_machine()
    machine.connection.deliver_run(1, "tag", [(2**64 - 1, True, template())])
    assert sent(machine) == [BasicDeliver("tag", 2**64 - 1, True, "ex", "key"), header(4), (BODY, b"body")]


@cases("size", [0, 1, 4087, 4088, 4089, 8176, 8177, 20_000])
def test_bodies_are_cut_where_the_client_wants_it(size: int) -> None:
    body = bytes(range(251)) * 80
    message = template(body[:size])
    for frame_max in (4096, 8192, 4096):
        machine = machine_with(frame_max)
        machine.connection.deliver_run(1, "tag", [(1, False, message)])
        method, head, *bodies = sent(machine)
        assert (method, head) == (BasicDeliver("tag", 1, False, "ex", "key"), header(size))
        payloads = [what[1] for what in bodies if isinstance(what, tuple) and what[0] == BODY]
        assert len(payloads) == len(bodies)
        assert b"".join(payloads) == body[:size]
        assert [len(payload) for payload in payloads[:-1]] == [frame_max - 8] * (len(payloads) - 1)
        assert all(0 < len(payload) <= frame_max - 8 for payload in payloads)


def test_a_run_and_its_channels() -> None:
    machine = opened_machine(channels=2)
    one, two = template(b"1"), template(b"2")
    machine.connection.deliver_run(1, "a", [(1, False, one), (2, True, two)])
    machine.connection.deliver_run(2, "b", [(1, False, one)])
    out = heard(machine.connection.data_to_send())
    assert [(channel, what) for channel, what in out if isinstance(what, BasicDeliver)] == [
        (1, BasicDeliver("a", 1, False, "ex", "key")),
        (1, BasicDeliver("a", 2, True, "ex", "key")),
        (2, BasicDeliver("b", 1, False, "ex", "key")),
    ]
    assert [(channel, what[1]) for channel, what in out if isinstance(what, tuple) and what[0] == BODY] == [
        (1, b"1"),
        (1, b"2"),
        (2, b"1"),
    ]


def test_get_and_return() -> None:
    machine = opened_machine()
    machine.connection.get_ok(1, 7, True, template(), 3)
    machine.connection.return_(1, 312, "NO_ROUTE", "ex", "key", template())
    assert sent(machine) == [
        BasicGetOk(7, True, "ex", "key", 3),
        header(4),
        (BODY, b"body"),
        BasicReturn(312, "NO_ROUTE", "ex", "key"),
        header(4),
        (BODY, b"body"),
    ]


def test_nothing_goes_out_on_a_channel_that_is_not_open() -> None:
    machine = opened_machine()
    machine.connection.close_channel(1, AmqpError(ReplyCode.NOT_FOUND, "gone"))
    machine.connection.data_to_send()
    for channel in (1, 2, 0):
        machine.connection.deliver_run(channel, "tag", [(1, False, template())])
        machine.connection.get_ok(channel, 7, True, template(), 3)
        machine.connection.return_(channel, 312, "NO_ROUTE", "ex", "key", template())
        machine.connection.confirm(channel, [1])
        machine.connection.send(channel, BasicConsumeOk("c"))
    assert machine.connection.data_to_send() == b""


def test_what_fits_no_frame_is_an_error_and_sends_nothing() -> None:
    machine = machine_with(4096)
    properties = ContentHeader.of(headers={"k": "x" * 5000}).data
    message = content_template("ex", "key", properties, b"body")
    for _ in range(2):
        with pytest.raises(ValueError, match="properties of 50"):
            machine.connection.deliver_run(1, "tag", [(1, False, message)])
        with pytest.raises(ValueError, match="properties of 50"):
            machine.connection.return_(1, 312, "NO_ROUTE", "ex", "key", message)
    with pytest.raises(ValueError, match="256"):
        machine.connection.deliver_run(1, "t" * 256, [(1, False, template())])
    assert machine.connection.data_to_send() == b""


def test_many_consumer_tags() -> None:
    machine = opened_machine()
    for at in range(1000):
        machine.connection.deliver_run(1, f"tag{at}", [(1, False, template())])
        assert len(machine.connection._consumers) <= 256
    delivered = [what for what in sent(machine) if isinstance(what, BasicDeliver)]
    assert [method.consumer_tag for method in delivered] == [f"tag{at}" for at in range(1000)]


# -- confirms ----------------------------------------------------------------------------------------------------


def acks(data: bytes) -> list[AmqpMethod | object]:
    return [method for _, method in heard(data)]


def test_consecutive_tags_are_one_frame() -> None:
    confirms = Confirms()
    assert acks(confirms.frames(1, [1])) == [BasicAck(1)]
    assert acks(confirms.frames(1, [2, 3, 4])) == [BasicAck(4, multiple=True)]
    assert acks(confirms.frames(1, range(5, 1001))) == [BasicAck(1000, multiple=True)]
    assert confirms.frames(1, []) == b""
    assert acks(confirms.frames(1, range(1002, 1004))) == [BasicAck(1002), BasicAck(1003)]
    assert acks(Confirms().frames(1, range(1, 4, 2))) == [BasicAck(1), BasicAck(3)]


def test_multiple_never_speaks_of_what_is_not_settled() -> None:
    confirms = Confirms()
    assert acks(confirms.frames(1, [3, 4])) == [BasicAck(3), BasicAck(4)]
    assert acks(confirms.frames(1, [1], is_nack=True)) == [BasicNack(1)]
    assert acks(confirms.frames(1, [2])) == [BasicAck(2)]
    assert acks(confirms.frames(1, [6, 5])) == [BasicAck(6, multiple=True)]


@given(data=st.data(), count=st.integers(1, 40))
def test_a_client_learns_exactly_what_was_confirmed(data: st.DataObject, count: int) -> None:
    tags = data.draw(st.permutations(range(1, count + 1)) | st.just(list(range(1, count + 1))))
    confirms = Confirms()
    outstanding = set(tags)
    learned: dict[int, bool] = {}
    wanted: dict[int, bool] = {}
    while tags:
        taken = data.draw(st.integers(1, len(tags)))
        batch, tags = tags[:taken], tags[taken:]
        is_nack = data.draw(st.booleans())
        wanted.update(dict.fromkeys(batch, is_nack))
        for method in acks(confirms.frames(1, batch, is_nack=is_nack)):
            assert isinstance(method, BasicAck | BasicNack)
            tag = method.delivery_tag
            spoken = {each for each in outstanding if each <= tag} if method.multiple else {tag}
            assert spoken <= outstanding, "settled twice"
            outstanding -= spoken
            learned.update(dict.fromkeys(spoken, isinstance(method, BasicNack)))
        assert learned == wanted
    assert confirms._beyond == set()


@given(size=st.integers(LARGE_BODY, LARGE_BODY + 300_000), frame_max=st.sampled_from([4096, 8192]))
def test_a_large_message_leaves_in_slices(size: int, frame_max: int) -> None:
    """They are the bytes that a smaller one's frames would have; what comes later follows."""
    body = (b"0123456789" * (size // 10 + 1))[:size]
    sliced, whole = machine_with(frame_max), machine_with(frame_max)
    assert sliced.connection.data_to_send() == whole.connection.data_to_send()
    run = [(1, False, template()), (2, True, template(body)), (3, False, template())]
    sliced.connection.deliver_large_run(1, "tag", run)
    whole.connection.deliver_run(1, "tag", run)
    for machine in (sliced, whole):
        machine.connection.confirm(1, [])
        machine.connection.send(1, BasicConsumeOk("after"))
    slices = []
    while sliced.connection.is_slicing:
        slices.append(sliced.connection.slice_to_send())
    assert b"".join(slices) + sliced.connection.data_to_send() == whole.connection.data_to_send()
    assert max(map(len, slices)) <= SLICE_BYTES + frame_max
    assert len(slices) > 1


def test_gets_and_returns_of_large_messages() -> None:
    """The end of the connection wants all of it at once."""
    machine, message = machine_with(4096), template(bytes(LARGE_BODY))
    sent(machine)
    machine.connection.get_ok(1, 7, True, message, 3)
    machine.connection.return_(1, 312, "NO_ROUTE", "ex", "key", message)
    assert machine.connection.is_slicing
    got, *content = sent(machine)
    assert not machine.connection.is_slicing
    assert isinstance(got, BasicGetOk)
    bodies = [each[1] for each in content if isinstance(each, tuple) and each[0] == BODY]
    assert b"".join(bodies) == bytes(2 * LARGE_BODY)
    assert sum(isinstance(each, BasicReturn) for each in content) == 1


def test_properties_beyond_a_frame_are_refused_for_large_messages_too() -> None:
    machine = machine_with(4096)
    sent(machine)
    wide = ContentHeader.of(headers={"a": "x" * 5000}).data
    with pytest.raises(ValueError, match="properties"):
        machine.connection.get_ok(1, 1, False, content_template("ex", "key", wide, bytes(LARGE_BODY)), 0)
    assert not machine.connection.is_slicing and sent(machine) == []
