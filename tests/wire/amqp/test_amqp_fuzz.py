"""No bytes make the machine raise, hang, or say anything but events with at most one end; and how they are cut into
reads makes no difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.amqp.connection_events import Acks, Closed, Closing, Event, Publishes
from entrepot.protocols.amqp.errors import FrameError
from entrepot.protocols.amqp.field_table import check_table, decode_table
from entrepot.protocols.amqp.frames import METHOD, frame
from entrepot.protocols.amqp.method_codec import encode_method
from tests.support.amqp.machine import CHANNEL, HANDSHAKE, LIMITS, Machine, opened_machine, published
from tests.wire.amqp.strategies import every_method, headers


def drain(machine: Machine, wire: bytes, step: int) -> tuple[list[Any], bytes]:
    """What a machine says to these bytes, its runs laid out, and what it sends."""
    sent = b""
    for at in range(0, len(wire), step):
        sent += machine.feed(wire[at : at + step])
        held = machine.connection._decoder._partial
        assert held is None or len(held) < LIMITS.frame_max + 8
    assert_one_end(machine.events)
    return laid_out(machine.events), sent


def assert_one_end(events: list[Event]) -> None:
    kinds = [type(event) for event in events]
    assert kinds.count(Closing) <= 1
    if Closing in kinds:
        assert kinds[kinds.index(Closing) + 1 :] in ([], [Closed])


def laid_out(events: list[Event]) -> list[Any]:
    out: list[Any] = []
    for event in events:
        if isinstance(event, Publishes):
            out += [(event.channel, publish) for publish in event.publishes]
        elif isinstance(event, Acks):
            out += [(event.channel, settlement) for settlement in event.settlements]
        else:
            out.append(repr(event))
    return out


def drained_alike(new: Any, wire: bytes, step: int) -> None:
    whole = drain(new(), wire, 1_000_000)
    assert drain(new(), wire, step) == whole
    assert drain(new(), wire, 1) == whole


@pytest.mark.parametrize("new", [Machine, opened_machine])
@given(data=st.binary(max_size=400), step=st.integers(1, 50))
def test_random_bytes(new: Any, data: bytes, step: int) -> None:
    drained_alike(new, data, step)


def conversation(draw: st.DrawFn, most: int) -> bytearray:
    out = bytearray()
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.integers(0, 3))
        channel = draw(st.integers(0, 2))
        if kind == 0:
            out += frame(METHOD, channel, encode_method(draw(every_method)))
        elif kind == 1:
            out += frame(draw(st.sampled_from([1, 2, 3, 8])), channel, draw(st.binary(max_size=30)))
        else:
            out += published(channel, "e", "k", draw(st.binary(max_size=40)), draw(headers), 4096)
    return out


conversations = st.composite(conversation)


@given(wire=conversations(5), step=st.integers(1, 99))
def test_frames_in_any_order(wire: bytearray, step: int) -> None:
    drained_alike(opened_machine, bytes(wire), step)


@given(data=st.data(), step=st.integers(1, 99))
def test_sound_bytes_with_one_changed(data: st.DataObject, step: int) -> None:
    wire = bytearray(HANDSHAKE + CHANNEL)
    wire += data.draw(conversations(3))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    drained_alike(Machine, bytes(wire), step)


@given(data=st.binary(max_size=200))
def test_tables_of_random_bytes(data: bytes) -> None:
    wire = len(data).to_bytes(4, "big") + data
    try:
        decoded: object = decode_table(wire, 0, len(wire))[1]
    except FrameError:
        decoded = FrameError
    try:
        checked: object = check_table(wire, 0, len(wire))
    except FrameError:
        checked = FrameError
    assert decoded == checked
