"""Cases of connections, frames, and of channels as such."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pamqp import body, header
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.conformance.amqp.register import case
from tests.conformance.amqp.wire_client import HEADER, Dropped, Said, Wire, publishing

# -- the connection ---------------------------------------------------------------------------------------------------


def _header_answer(wire: Wire, sent: bytes) -> Said:
    """The header that comes back before the socket ends, or that the server started."""
    wire.raw(sent)
    found = b""
    try:
        while not found.startswith(b"\x01"):
            found = wire.more()
    except Dropped:
        return (found.hex(), "dropped")
    return ("started",)


for _name, _header in (
    ("header of AMQP 0-9", b"AMQP\x01\x01\x00\x09"),
    ("header of another minor version", b"AMQP\x00\x00\x09\x02"),
    ("header of HTTP", b"GET / HTTP/1.1\r\n"),
):
    case(_name)(lambda wire, sent=_header: _header_answer(wire, sent))  # type: ignore[misc]


@case("wrong password, the client can be told")
def _(wire: Wire) -> Said:
    found = wire.started(response="\0guest\0wrong")
    return ("connection", found.reply_code, found.reply_text, found.class_id, found.method_id)


@case("wrong password, the client cannot be told")
def _(wire: Wire) -> Said:
    try:
        found = wire.started(response="\0guest\0wrong", client_properties={})
    except Dropped:
        return ("dropped",)
    return ("connection", found.reply_code)


@case("unknown mechanism")
def _(wire: Wire) -> Said:
    try:
        found = wire.started(mechanism="MAGIC", response="x")
    except Dropped:
        return ("dropped",)
    return ("connection", found.reply_code, found.reply_text, found.class_id, found.method_id)


@case("missing vhost")
def _(wire: Wire) -> Said:
    wire.tuned()
    wire.send(Connection.Open(virtual_host="missing"), channel=0)
    return wire.answered()


def _tune(**tune_ok: int) -> Callable[[Wire], Said]:
    def play(wire: Wire) -> Said:
        wire.tuned(**tune_ok)
        try:
            wire.send(Connection.Open(virtual_host="/"), channel=0)
            found = wire.next()[1]
        except (Dropped, ConnectionError):
            return ("dropped",)
        return (found.name,) if not isinstance(found, Connection.Close) else (found.reply_code, found.reply_text)

    return play


case("tune: a larger frame_max")(_tune(frame_max=10_000_000))
case("tune: frame_max 0")(_tune(frame_max=0))
case("tune: frame_max below 4096")(_tune(frame_max=4095))
case("tune: frame_max 4096")(_tune(frame_max=4096))
case("tune: a larger channel_max")(_tune(channel_max=65_535))
case("tune: channel_max 0")(_tune(channel_max=0))


@case("a method on a channel that is not open")
def _(wire: Wire) -> Said:
    wire.opened()
    return wire.said(Queue.Declare(queue="q"), channel=2)


@case("channel.open twice")
def _(wire: Wire) -> Said:
    wire.opened()
    return wire.said(Channel.Open())


@case("a channel's method on channel 0")
def _(wire: Wire) -> Said:
    wire.opened()
    return wire.said(Queue.Declare(queue="q"), channel=0)


@case("a channel above channel_max")
def _(wire: Wire) -> Said:
    wire.opened(channel_max=5)
    return wire.said(Channel.Open(), channel=6)


@case("a connection's method on channel 1")
def _(wire: Wire) -> Said:
    wire.opened()
    return wire.said(Connection.Open(virtual_host="/"))


def _raw(name: str, *parts: bytes) -> None:
    @case(name)
    def _(wire: Wire) -> Said:
        wire.opened()
        wire.raw(b"".join(parts))
        return wire.answered()


def _frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


_QOS = struct.pack(">HHIHB", 60, 10, 0, 0, 0)
_raw("unknown class", _frame(1, 1, struct.pack(">HH", 99, 10)))
_raw("unknown method", _frame(1, 1, struct.pack(">HH", 50, 99)))
_raw("a method that is cut short", _frame(1, 1, struct.pack(">HH", 50, 10) + b"\x00"))
_raw("a frame with a wrong end", _frame(1, 1, _QOS, b"\x00"))
_raw("a frame of an unknown type", _frame(7, 1, b"x"))
_raw("a frame above frame_max", struct.pack(">BHI", 1, 1, 200_000) + b"\x00" * 200_001)
_raw("a server's method from a client", _frame(1, 1, struct.pack(">HH", 60, 11)))


def _frames(name: str, *frames: Any) -> None:
    @case(name)
    def _(wire: Wire) -> Said:
        wire.opened()
        return wire.said(*frames)


_frames("a header without a method", header.ContentHeader(0, 1, Basic.Properties()))
_frames("a body without a method", body.ContentBody(b"x"))
_frames("a method inside a publish", Basic.Publish(routing_key="q"), Queue.Declare(queue="q"))
_frames("a body longer than announced", *publishing(key="q", content=b"x")[:2], body.ContentBody(b"xy"))


@case("a header of another class")
def _(wire: Wire) -> Said:
    wire.opened()
    wire.send(Basic.Publish(routing_key="q"))
    wire.raw(_frame(2, 1, struct.pack(">HHQH", 50, 0, 1, 0)))
    return wire.answered()


@case("after channel.close everything is ignored")
def _(wire: Wire) -> Said:
    wire.opened()
    missing = Queue.Declare(queue=wire.name("missing"), passive=True)
    wire.send(missing, missing, Basic.Ack(delivery_tag=7), *publishing(wire.name("nowhere")))
    first = wire.answered()
    wire.send(Channel.CloseOk())
    wire.open_channel(1)
    return first[:2] + wire.said()


@case("another header while the connection is open")
def _(wire: Wire) -> Said:
    wire.opened()
    wire.raw(HEADER)
    return wire.answered()
