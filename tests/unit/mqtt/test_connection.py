"""The connection machine's clock, windows and packet identifiers; and that no packets at all make it raise."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.mqtt.connection import Acknowledged, Closing, ConnectionLimits
from protocols.mqtt.decoder import Decoder
from protocols.mqtt.encoder import encode, publish_template
from protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Publish,
    Subscribe,
    Subscription,
)
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.support.mqtt_machine import LIMITS, Machine
from tests.wire.mqtt.strategies import any_packet

FOREVER = float("inf")


def connected(version: int = 5, now: float = 0.0, limits: ConnectionLimits = LIMITS, **connect: object) -> Machine:
    machine = Machine(limits, now)
    machine.say(Connect("c", version, **connect), now=now)  # type: ignore[arg-type]
    assert machine.connection.is_open
    return machine


def delivered(machine: Machine, count: int, qos: int = 1) -> list[int]:
    template = publish_template("a", b"x", qos, version=machine.connection.version)
    for _ in range(count):
        assert machine.connection.has_window
        machine.connection.deliver(template)
    return [
        packet.packet_id for packet in machine.read(machine.connection.data_to_send()) if isinstance(packet, Publish)
    ]


# -- time


def test_no_connect_in_time_closes_without_a_word() -> None:
    machine = Machine(now=100.0)
    assert machine.connection.deadline() == 110.0
    assert list(machine.connection.handle_timeout(109.9)) == []
    (closing,) = machine.connection.handle_timeout(110.0)
    assert isinstance(closing, Closing)
    assert closing.reason is ReasonCode.MAXIMUM_CONNECT_TIME
    assert machine.connection.data_to_send() == b""
    assert machine.connection.deadline() == FOREVER


def test_a_part_of_connect_does_not_move_the_connect_deadline() -> None:
    machine = Machine(now=0.0)
    machine.feed(encode(Connect("c", 5), 5)[:-1], now=9.0)
    assert machine.connection.deadline() == 10.0


@pytest.mark.parametrize("version", [4, 5])
def test_keep_alive_times_out_after_one_and_a_half(version: int) -> None:
    """3.1.2-22"""
    machine = connected(version, 100.0, keep_alive=10)
    assert machine.connection.deadline() == 115.0
    assert list(machine.connection.handle_timeout(114.9)) == []
    (closing,) = machine.connection.handle_timeout(115.0)
    assert isinstance(closing, Closing)
    assert closing.reason is ReasonCode.KEEP_ALIVE_TIMEOUT
    assert closing.publishes_will
    said = machine.read(machine.connection.data_to_send())
    assert [packet.reason for packet in said if isinstance(packet, Disconnect)] == (
        [ReasonCode.KEEP_ALIVE_TIMEOUT] if version == 5 else []
    )
    assert machine.connection.is_closed


def test_keep_alive_of_zero_is_for_ever() -> None:
    machine = connected(keep_alive=0)
    assert machine.connection.deadline() == FOREVER
    assert list(machine.connection.handle_timeout(1e9)) == []
    assert machine.connection.is_open


def test_a_whole_packet_is_a_sign_of_life_and_a_part_is_not() -> None:
    machine = connected(keep_alive=10)
    machine.feed(b"\xc0", now=5.0)
    assert machine.connection.deadline() == 15.0
    machine.feed(b"\x00", now=7.0)
    assert machine.connection.deadline() == 22.0


@pytest.mark.parametrize(("asked", "granted"), [(0, 60), (100, 60), (60, None), (30, None)])
def test_server_keep_alive(asked: int, granted: int | None) -> None:
    """3.1.2-21: what CONNACK says holds instead of what was asked for."""
    machine = Machine(dataclasses.replace(LIMITS, keep_alive_max_seconds=60))
    (connack,) = machine.say(Connect("c", 5, keep_alive=asked))
    assert isinstance(connack, Connack)
    assert connack.properties.get(PropertyId.SERVER_KEEP_ALIVE) == granted
    assert machine.connection.deadline() == (granted or asked) * 1.5


def test_a_pause_of_the_server_is_not_held_against_the_client() -> None:
    machine = connected(keep_alive=10)
    machine.connection.note_alive(100.0)
    assert machine.connection.deadline() == 115.0


# -- what comes in


def test_receive_maximum() -> None:
    """3.3.4-9 and 3.3.4-7: three may be unconfirmed, the fourth ends it; room comes back with PUBACK."""
    machine = Machine(confirms=False)
    publishes = [Publish("a", b"", 1, packet_id) for packet_id in (1, 2, 3, 4)]
    machine.say(Connect("c", 5), *publishes[:3])
    assert machine.connection.is_open
    machine.connection.confirm([1])
    assert machine.read(machine.connection.data_to_send()) == [Puback(1)]
    assert machine.say(publishes[3]) == []
    said = machine.say(Publish("a", b"", 1, 5))
    assert [packet.reason for packet in said if isinstance(packet, Disconnect)] == [ReasonCode.RECEIVE_MAXIMUM_EXCEEDED]


def test_version_4_has_no_receive_maximum() -> None:
    machine = Machine(confirms=False)
    machine.say(Connect("c", 4), *[Publish("a", b"", 1, packet_id) for packet_id in range(1, 50)])
    assert machine.connection.is_open


def test_refused_publishes_leave_the_window_too() -> None:
    machine = Machine(confirms=False)
    machine.say(Connect("c", 5), *[Publish("a", b"", 1, packet_id) for packet_id in (1, 2, 3)])
    machine.connection.confirm([1], [(2, ReasonCode.QUOTA_EXCEEDED), (3, ReasonCode.NOT_AUTHORIZED)])
    assert machine.read(machine.connection.data_to_send()) == [
        Puback(1),
        Puback(2, ReasonCode.QUOTA_EXCEEDED),
        Puback(3, ReasonCode.NOT_AUTHORIZED),
    ]
    assert machine.connection.unconfirmed == 0


def test_nothing_is_confirmed_after_the_end() -> None:
    machine = Machine(confirms=False)
    machine.say(Connect("c", 5), Publish("a", b"", 1, 1), Disconnect())
    machine.connection.confirm([1])
    assert machine.connection.data_to_send() == b""


# -- what goes out


def test_the_client_s_receive_maximum_is_kept_and_freed_by_puback() -> None:
    """3.3.4-9"""
    machine = connected(properties={PropertyId.RECEIVE_MAXIMUM: 2})
    first, second = delivered(machine, 2)
    assert not machine.connection.has_window
    machine.say(Puback(first))
    assert machine.events[-1] == Acknowledged(1)
    assert machine.connection.has_window
    (third,) = delivered(machine, 1)
    assert not machine.connection.has_window
    machine.say(Puback(second), Puback(third), Puback(third), Puback(99))
    assert machine.events[-1] == Acknowledged(2)


def test_the_server_s_own_window_holds_where_the_client_has_none() -> None:
    machine = connected(4)
    delivered(machine, LIMITS.max_inflight_messages)
    assert not machine.connection.has_window


def test_qos_0_needs_no_window() -> None:
    machine = connected(properties={PropertyId.RECEIVE_MAXIMUM: 1})
    delivered(machine, 1)
    machine.connection.deliver(publish_template("a", b"x", 0))
    assert machine.read(machine.connection.data_to_send()) == [Publish("a", b"x")]


def test_packet_identifiers_are_unique_and_never_zero() -> None:
    """2.2.1-3 and 2.2.1-4, round the end of the numbers and past one that is still in use."""
    limits = dataclasses.replace(LIMITS, max_inflight_messages=3)
    machine = connected(limits=limits)
    (kept,) = delivered(machine, 1)
    seen = []
    for _ in range(66_000 // 2):
        pair = delivered(machine, 2)
        assert kept not in pair
        assert pair[0] != pair[1]
        seen += pair
        machine.feed(encode(Puback(pair[0]), 5) + encode(Puback(pair[1]), 5))
        machine.events.clear()
    assert min(seen) >= 1
    assert max(seen) == 65_535


def test_a_message_over_the_client_s_maximum_is_not_sent() -> None:
    """3.1.2-25: and it counts as delivered, so it takes no room."""
    template = publish_template("a", b"x" * 20, 1)
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: template.size - 1})
    machine.connection.deliver(template)
    assert machine.connection.data_to_send() == b""
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: template.size})
    machine.connection.deliver(template)
    assert len(machine.connection.data_to_send()) == template.size


def test_a_goodbye_without_text_where_the_text_does_not_fit() -> None:
    """3.14.2-3"""
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: 100})
    machine.connection.close(ReasonCode.SERVER_SHUTTING_DOWN, "x" * 100)
    assert machine.read(machine.connection.data_to_send()) == [Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, ConnectReturnCode.IDENTIFIER_REJECTED),
        (ReasonCode.NOT_AUTHORIZED, ConnectReturnCode.NOT_AUTHORIZED),
        (ReasonCode.QUOTA_EXCEEDED, ConnectReturnCode.SERVER_UNAVAILABLE),
        (ReasonCode.RETAIN_NOT_SUPPORTED, None),
    ],
)
def test_refusals(reason: ReasonCode, code: ConnectReturnCode | None) -> None:
    for version in (4, 5):
        machine = Machine()
        for _connect in machine.connection.receive_data(encode(Connect("c", version), version), 0.0):
            closing = machine.connection.refuse(reason, "no")
            assert closing.reason is reason
        said = machine.read(machine.connection.data_to_send())
        expected = reason if version == 5 else code
        assert [packet.reason for packet in said if isinstance(packet, Connack)] == (
            [] if expected is None else [expected]
        )
        assert machine.connection.is_closed


# -- anything


def _clients() -> st.SearchStrategy[list[tuple[int, Packet]]]:
    quiet = st.sampled_from(
        [
            Pingreq(),
            Publish("a/b", b"x"),
            Publish("a/b", b"x", 1, 7),
            Puback(1),
            Subscribe(3, [Subscription("a/#", 1), Subscription("bad#", 1)]),
        ]
    )
    return st.sampled_from([4, 5]).flatmap(
        lambda version: st.tuples(
            st.booleans(), st.lists(st.one_of(quiet, quiet, any_packet(version)), max_size=12)
        ).map(lambda drawn: [(version, p) for p in ([Connect("c", version)] if drawn[0] else []) + drawn[1]])
    )


@given(said=_clients(), step=st.integers(1, 64), deliveries=st.integers(0, 4))
def test_any_packets_end_in_an_open_or_a_closed_connection(
    said: list[tuple[int, Packet]], step: int, deliveries: int
) -> None:
    wire = b"".join(encode(packet, version) for version, packet in said)
    machine, whole = Machine(), Machine()
    out = b""
    for at in range(0, len(wire), step):
        out += machine.feed(wire[at : at + step])
        if machine.connection.is_open and deliveries and machine.connection.has_window:
            deliveries -= 1
            machine.connection.deliver(publish_template("a", b"x", 1, version=machine.connection.version))
    out += machine.connection.data_to_send()
    whole.feed(wire)
    machine.read(out)
    assert machine.connection.is_open == whole.connection.is_open
    assert (machine.closing and machine.closing.reason) == (whole.closing and whole.closing.reason)
    if machine.connection.is_closed:
        assert isinstance(machine.events[-1], Closing)
        assert sum(isinstance(event, Closing) for event in machine.events) == 1
        assert machine.connection.deadline() == FOREVER


@given(noise=st.binary(max_size=200), step=st.integers(1, 200), version=st.sampled_from([0, 4, 5]))
def test_any_bytes(noise: bytes, step: int, version: int) -> None:
    machine = connected(version) if version else Machine()
    for at in range(0, len(noise), step):
        out = machine.feed(noise[at : at + step])
        reader = Decoder(1 << 20, machine.connection.version or 4)
        reader.feed(out)
        assert reader.error is None
    assert machine.connection.is_closed == (machine.closing is not None)
