"""What only frames show, on our server and on RabbitMQ: bytes of properties, sizes of frames, heartbeats, no-wait."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pamqp import body, commands, header
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange, Queue

from tests.conformance.amqp.wire_client import HEADER, Dropped, Wire, publishing
from tests.tiers.marks import interop_only

FRAME_END = b"\xce"
HEARTBEAT_SECONDS = 1
TRIES = 4
"""Of what a machine that stops for longer than a heartbeat makes impossible."""


@pytest.fixture(params=["serve", interop_only("rabbitmq")])
def wire(request: pytest.FixtureRequest, amqp_port: Callable[[str], int]) -> Iterator[Wire]:
    with Wire(amqp_port(request.param)) as connected:
        yield connected


def _short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


FIELDS = (
    b"t\x01",
    b"b\x80",
    b"s\x80\x00",
    b"I\x80\x00\x00\x00",
    b"l\x80" + bytes(7),
    b"f\x40\x49\x0f\xdb",
    b"d\x40\x09\x21\xfb\x54\x44\x2d\x18",
    b"D\x02\x00\x00\x30\x39",
    b"S" + _long("ünï".encode()),
    b"x" + _long(bytes(range(256))),
    b"T" + struct.pack(">Q", 1_700_000_000),
    b"V",
    b"F" + _long(_short(b"inner") + b"S" + _long(b"value")),
    b"A" + _long(b"I\x00\x00\x00\x01" + b"S" + _long(b"two") + b"V"),
)
"""A value of each type of field that RabbitMQ reads."""

PROPERTIES = struct.pack(">H", 0xFFFC) + b"".join(
    (
        _short(b"application/x"),
        _short(b"gzip"),
        _long(b"".join(_short(b"field %d" % number) + field for number, field in enumerate(FIELDS))),
        b"\x02",
        b"\x07",
        _short(b"correlation"),
        _short(b"reply"),
        _short(b"60000"),
        _short(b"message"),
        struct.pack(">Q", 1_700_000_000),
        _short(b"type"),
        _short(b"guest"),
        _short(b"app"),
        _short(b"cluster"),
    )
)
"""Every property there is, cluster id too, as the bytes of a content header."""


def _published(wire: Wire, queue: str, properties: bytes) -> bytes:
    """Publish a message with these bytes of properties and wait for its confirm; the payload of its content header."""
    wire.ask(Confirm.Select())
    wire.send(Basic.Publish(routing_key=queue))
    payload = struct.pack(">HHQ", 60, 0, 1) + properties
    wire.raw(struct.pack(">BHI", 2, 1, len(payload)) + payload + FRAME_END)
    wire.send(body.ContentBody(b"x"))
    wire.until(lambda channel, found: isinstance(found, Basic.Ack))
    return payload


@pytest.mark.parametrize("properties", [PROPERTIES, b"\x00\x00"], ids=["all", "none"])
def test_properties_are_the_same_bytes(wire: Wire, properties: bytes) -> None:
    wire.opened()
    queue = wire.ask(Queue.Declare(queue="", exclusive=True)).queue
    payload = _published(wire, queue, properties)
    wire.send(Basic.Get(queue=queue, no_ack=True))
    while payload not in wire.more():
        assert len(wire.more()) < 10_000, "the properties are others"


def test_types_of_headers_stay_in_a_dead_letter(wire: Wire) -> None:
    """A publisher's own fields leave byte for byte, and counts are longs: Java's clients cast them."""
    wire.opened()
    dead = wire.ask(Queue.Declare(queue="", exclusive=True)).queue
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue = wire.ask(Queue.Declare(queue="", exclusive=True, arguments=arguments)).queue
    _published(wire, queue, PROPERTIES)
    tag = wire.ask(Basic.Get(queue=queue)).delivery_tag
    wire.until(lambda channel, found: isinstance(found, body.ContentBody))
    wire.send(Basic.Reject(delivery_tag=tag, requeue=False))
    wire.send(Basic.Consume(queue=dead, no_ack=True))
    while b"x-first-death-reason" not in (found := wire.more()):
        assert len(found) < 10_000, "no dead letter came"
    for number, field in enumerate(FIELDS):
        assert _short(b"field %d" % number) + field in found, field
    assert _short(b"count") + b"l" in found


def test_frames_are_no_larger_than_negotiated(wire: Wire) -> None:
    wire.opened(frame_max=4096)
    queue = wire.ask(Queue.Declare(queue="", exclusive=True)).queue
    content = bytes(range(250)) * 80
    sent: list[Any] = [Basic.Publish(routing_key=queue), header.ContentHeader(0, len(content), Basic.Properties())]
    sent += [body.ContentBody(content[at : at + 4088]) for at in range(0, len(content), 4088)]
    wire.ask(Confirm.Select())
    wire.send(*sent)
    wire.until(lambda channel, found: isinstance(found, Basic.Ack))
    wire.send(Basic.Get(queue=queue, no_ack=True))
    parts: list[bytes] = []
    while sum(map(len, parts)) < len(content):
        found = wire.next()[1]
        if isinstance(found, body.ContentBody):
            parts.append(found.value)
    assert b"".join(parts) == content
    assert [len(part) for part in parts] == [4088] * 4 + [20_000 - 4 * 4088]


def test_a_body_in_many_small_frames(wire: Wire) -> None:
    wire.opened()
    queue = wire.ask(Queue.Declare(queue="", exclusive=True)).queue
    wire.ask(Confirm.Select())
    wire.send(Basic.Publish(routing_key=queue), header.ContentHeader(0, 500, Basic.Properties()))
    for part in (b"a" * 1, b"b" * 299, b"c" * 200):
        wire.send(body.ContentBody(part))
    wire.until(lambda channel, found: isinstance(found, Basic.Ack))
    wire.ask(Basic.Get(queue=queue, no_ack=True))
    wire.until(lambda channel, found: isinstance(found, header.ContentHeader))
    assert wire.next()[1].value == b"a" + b"b" * 299 + b"c" * 200


def test_two_channels_interleave_their_contents(wire: Wire) -> None:
    wire.opened()
    wire.open_channel(2)
    queue = wire.ask(Queue.Declare(queue="", exclusive=True)).queue
    for channel in (1, 2):
        wire.ask(Confirm.Select(), channel=channel)
    for step in range(3):
        for channel, letter in ((1, b"1"), (2, b"2")):
            wire.send(publishing(key=queue, content=letter * 3)[step], channel=channel)
    answered: list[int] = []
    while len(answered) < 2:
        number, found = wire.next()
        assert isinstance(found, Basic.Ack)
        answered.append(number)
    assert sorted(answered) == [1, 2]
    assert wire.ask(Queue.Declare(queue=queue, passive=True)).message_count == 2


HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def test_heartbeats_come(wire: Wire) -> None:
    silent = wire.unopened()
    silent.tuned(heartbeat=2)
    silent.send(Connection.Open(virtual_host="/"), channel=0)
    silent.until(lambda channel, found: isinstance(found, Connection.OpenOk))
    assert silent.more().startswith(HEARTBEAT)


@pytest.mark.soak  # in the default tier: the connection's machine with a clock that is given
def test_heartbeats_come_and_are_wanted(wire: Wire) -> None:
    """Tried again where the server itself had no time to say a word before the client had been silent for too long."""
    for _ in range(TRIES):
        silent = wire.unopened()
        silent.tuned(heartbeat=HEARTBEAT_SECONDS)
        silent.send(Connection.Open(virtual_host="/"), channel=0)
        spoke = time.monotonic()
        seen = b""
        try:
            silent.until(lambda channel, found: isinstance(found, Connection.OpenOk))
            while time.monotonic() - spoke < 30:
                seen = silent.more()
        except Dropped:
            pass
        assert 1 < time.monotonic() - spoke < 30, "a silent client is kept, but not for ever"
        assert seen.replace(HEARTBEAT, b"") == b""
        if seen:
            return
    raise AssertionError("no heartbeat came")


@pytest.mark.soak
def test_any_traffic_is_a_heartbeat(wire: Wire) -> None:
    """Tried again where the client itself was silent for as long as a heartbeat."""
    for _ in range(TRIES):
        busy = wire.other(heartbeat=HEARTBEAT_SECONDS)
        began = spoke = time.monotonic()
        longest = 0.0
        try:
            while spoke - began < 4:
                busy.ask(Basic.Qos(prefetch_count=1))
                longest, spoke = max(longest, time.monotonic() - spoke), time.monotonic()
            assert isinstance(busy.ask(Queue.Declare(queue="", exclusive=True)), Queue.DeclareOk)
            return
        except (Dropped, ConnectionError):
            if max(longest, time.monotonic() - spoke) < HEARTBEAT_SECONDS:
                raise
    raise AssertionError(f"this machine stops for longer than {HEARTBEAT_SECONDS} s each time")


def test_no_wait(wire: Wire) -> None:
    wire.opened()
    exchange, queue = wire.name("e"), wire.name("q")
    wire.send(
        Confirm.Select(nowait=True),
        Exchange.Declare(exchange=exchange, exchange_type="fanout", nowait=True, auto_delete=True),
        Queue.Declare(queue=queue, exclusive=True, nowait=True),
        Queue.Bind(queue=queue, exchange=exchange, nowait=True),
        Basic.Consume(queue=queue, consumer_tag="t", no_ack=True, nowait=True),
        *publishing(exchange, content=b"x"),
    )
    seen = [wire.next()[1].name for _ in range(4)]
    assert sorted(seen) == sorted(["Basic.Deliver", "ContentHeader", "ContentBody", "Basic.Ack"])
    wire.send(
        Basic.Cancel(consumer_tag="t", nowait=True),
        Queue.Purge(queue=queue, nowait=True),
        Queue.Delete(queue=queue, nowait=True),
        Exchange.Delete(exchange=exchange, nowait=True),
    )
    assert isinstance(wire.ask(Basic.Qos(prefetch_count=1)), Basic.QosOk), "nothing else was answered"


def test_methods_of_one_write_are_answered_in_order(wire: Wire) -> None:
    wire.opened()
    wire.send(
        Queue.Declare(queue="", exclusive=True),
        Queue.Bind(queue="", exchange="amq.direct", routing_key=wire.name("k")),
        Basic.Qos(prefetch_count=5),
        Queue.Purge(queue=""),
        Basic.Get(queue=""),
        Queue.Delete(queue=""),
    )
    names = [wire.next()[1].name for _ in range(6)]
    assert names == [
        "Queue.DeclareOk",
        "Queue.BindOk",
        "Basic.QosOk",
        "Queue.PurgeOk",
        "Basic.GetEmpty",
        "Queue.DeleteOk",
    ]


def test_many_channels(wire: Wire) -> None:
    """All of them are opened, closed, and opened again."""
    wire.opened()
    for _turn in range(2):
        for number in range(2, 500):
            wire.send(Channel.Open(), channel=number)
        opened = [wire.next() for _ in range(2, 500)]
        assert {(number, found.name) for number, found in opened} == {(n, "Channel.OpenOk") for n in range(2, 500)}
        for number in range(2, 500):
            wire.send(Channel.Close(0, "", 0, 0), channel=number)
        closed = [wire.next() for _ in range(2, 500)]
        assert {(number, found.name) for number, found in closed} == {(n, "Channel.CloseOk") for n in range(2, 500)}


def test_what_the_server_says_of_itself(wire: Wire) -> None:
    wire.raw(HEADER)
    start = wire.until(lambda channel, found: isinstance(found, commands.Connection.Start))
    properties = start.server_properties
    assert properties["product"] == "RabbitMQ"
    assert [int(part) for part in properties["version"].split(".")] >= [3, 3]
    can = {name for name, value in properties["capabilities"].items() if value}
    assert can >= {"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify"}
    assert can >= {"connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos"}
    assert "direct_reply_to" in can
    assert {"PLAIN", "AMQPLAIN"} <= set(start.mechanisms.split())
    assert "en_US" in start.locales.split()


def test_amqplain(wire: Wire) -> None:
    table = _short(b"LOGIN") + b"S" + _long(b"guest") + _short(b"PASSWORD") + b"S" + _long(b"guest")
    assert isinstance(wire.started(mechanism="AMQPLAIN", response=table.decode()), Connection.Tune)


def test_update_secret(wire: Wire) -> None:
    wire.opened()
    wire.send(Connection.UpdateSecret(new_secret="guest", reason="rotation"), channel=0)
    assert isinstance(wire.next()[1], Connection.UpdateSecretOk)


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "a b*#.=|{}[]()'\"\\", "\N{GRINNING FACE}/ "])
def test_names_of_any_kind(wire: Wire, name: str) -> None:
    """Names are up to 255 bytes of anything; pamqp would not let them pass."""
    wire.opened()
    named = _short(name.encode())
    declare = struct.pack(">HHH", 50, 10, 0) + named + b"\x08" + _long(b"")
    wire.raw(struct.pack(">BHI", 1, 1, len(declare)) + declare + FRAME_END)
    assert wire.next()[1].queue == name
    publish = struct.pack(">HHH", 60, 40, 0) + b"\x00" + named + b"\x00"
    wire.ask(Confirm.Select())
    wire.raw(struct.pack(">BHI", 1, 1, len(publish)) + publish + FRAME_END)
    wire.send(*publishing(content=b"x")[1:])
    wire.until(lambda channel, found: isinstance(found, Basic.Ack))
    delete = struct.pack(">HHH", 50, 40, 0) + named + b"\x00"
    wire.raw(struct.pack(">BHI", 1, 1, len(delete)) + delete + FRAME_END)
    assert wire.next()[1].message_count == 1
