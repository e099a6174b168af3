"""The connection machine's clock, windows and packet identifiers; and that no packets at all make it raise."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.mqtt.connection_events import Acknowledged, Closing, ConnectionLimits, Publishes, Received
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, PUBREC_WORD, PublishTemplate, encode, publish_template
from entrepot.protocols.mqtt.outgoing import RESTORED
from entrepot.protocols.mqtt.packets import (
    Acknowledgement,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.support.mqtt.machine import LIMITS, Machine
from tests.wire.mqtt.strategies import any_packet

FOREVER = float("inf")
ELSEWHERE = {PropertyId.SERVER_REFERENCE: "another.example:1883"}


def connected(version: int = 5, now: float = 0.0, limits: ConnectionLimits = LIMITS, **connect: object) -> Machine:
    machine = Machine(limits, now)
    machine.say(Connect("c", version, **connect), now=now)  # type: ignore[arg-type]
    assert machine.connection.is_open
    return machine


def send(machine: Machine, template: PublishTemplate, held: object = None) -> None:
    packet = machine.connection.deliver(template, held)
    if packet is not None:
        machine.connection.send(packet)


def delivered(machine: Machine, count: int, qos: int = 1) -> list[int]:
    template = publish_template("a", b"x", qos, version=machine.connection.version)
    for _ in range(count):
        assert machine.connection.window.room
        send(machine, template, object())
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
    machine.connection.confirm([PUBACK_WORD | 1])
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
    machine.connection.confirm([PUBACK_WORD | 1])
    machine.connection.refuse_publish(2, 1, ReasonCode.QUOTA_EXCEEDED, "full")
    machine.connection.refuse_publish(3, 1, ReasonCode.NOT_AUTHORIZED, "no")
    assert machine.read(machine.connection.data_to_send()) == [
        Puback(1),
        Puback(2, ReasonCode.QUOTA_EXCEEDED, {PropertyId.REASON_STRING: "full"}),
        Puback(3, ReasonCode.NOT_AUTHORIZED, {PropertyId.REASON_STRING: "no"}),
    ]
    assert machine.connection.unconfirmed == 0


def test_nothing_is_confirmed_after_the_end() -> None:
    machine = Machine(confirms=False)
    machine.say(Connect("c", 5), Publish("a", b"", 1, 1), Disconnect())
    machine.connection.confirm([PUBACK_WORD | 1])
    assert machine.connection.data_to_send() == b""


# -- what goes out


def test_the_client_s_receive_maximum_is_kept_and_freed_by_puback() -> None:
    """3.3.4-9"""
    machine = connected(properties={PropertyId.RECEIVE_MAXIMUM: 2})
    first, second = delivered(machine, 2)
    assert not machine.connection.window.room
    machine.say(Puback(first))
    assert isinstance(machine.events[-1], Acknowledged)
    assert len(machine.events[-1].held) == 1
    assert machine.connection.window.room
    (third,) = delivered(machine, 1)
    assert not machine.connection.window.room
    machine.say(Puback(second), Puback(third), Puback(third), Puback(99))
    assert isinstance(machine.events[-1], Acknowledged)
    assert len(machine.events[-1].held) == 2


def test_the_server_s_own_window_holds_where_the_client_has_none() -> None:
    machine = connected(4)
    delivered(machine, LIMITS.max_inflight_messages)
    assert not machine.connection.window.room


def test_qos_0_needs_no_window() -> None:
    machine = connected(properties={PropertyId.RECEIVE_MAXIMUM: 1})
    delivered(machine, 1)
    send(machine, publish_template("a", b"x", 0))
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
    assert machine.connection.deliver(template) is None
    assert machine.connection.window.room == LIMITS.max_inflight_messages
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: template.size})
    send(machine, template)
    assert len(machine.connection.data_to_send()) == template.size


def test_a_goodbye_without_text_where_the_text_does_not_fit() -> None:
    """3.14.2-3"""
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: 100})
    machine.connection.close(ReasonCode.SERVER_SHUTTING_DOWN, "x" * 100)
    assert machine.read(machine.connection.data_to_send()) == [Disconnect(ReasonCode.SERVER_SHUTTING_DOWN)]


def _said(machine: Machine, size: int) -> list[Packet]:
    """What the client is told last; no packet of it is larger than `size`."""
    data = machine.connection.data_to_send()
    assert len(data) <= size
    return machine.read(data)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (300, Disconnect(ReasonCode.USE_ANOTHER_SERVER, {PropertyId.REASON_STRING: "x" * 100, **ELSEWHERE})),
        (60, Disconnect(ReasonCode.USE_ANOTHER_SERVER, ELSEWHERE)),
        (14, Disconnect(ReasonCode.USE_ANOTHER_SERVER)),
    ],
)
def test_a_goodbye_says_as_much_as_the_client_takes(size: int, said: Packet) -> None:
    """3.1.2-24, 3.14.2-3: the reason string is left out first."""
    machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: size})
    machine.connection.close(ReasonCode.USE_ANOTHER_SERVER, "x" * 100, "another.example:1883")
    assert _said(machine, size) == [said]


@pytest.mark.parametrize(("size", "hears"), [(28, True), (18, True), (8, True), (7, False), (5, False), (4, None)])
def test_a_connack_the_client_can_take(size: int, hears: bool | None) -> None:
    """3.1.2-24: what the client can do without is left out; else it is refused, without a word where none fits."""
    machine = Machine(accepts=False)
    connect = Connect("c", 5, properties={PropertyId.MAXIMUM_PACKET_SIZE: size})
    machine.say(connect)
    closing = machine.connection.accept(connect, False, {PropertyId.RESPONSE_INFORMATION: "r/c"})
    said = _said(machine, size)
    assert (closing is None) == bool(hears)
    assert machine.connection.is_open == bool(hears)
    assert [type(packet) for packet in said] == ([] if hears is None else [Connack])
    if hears:
        assert said[0].properties[PropertyId.RECEIVE_MAXIMUM] == LIMITS.receive_maximum  # type: ignore[union-attr]
    elif hears is not None:
        assert said == [Connack(False, ReasonCode.PACKET_TOO_LARGE)]


@pytest.mark.parametrize("size", [20, 4])
def test_a_refusal_the_client_can_take(size: int) -> None:
    """3.2.2-19: CONNACK without its text, and none where not even that fits."""
    machine = Machine(accepts=False)
    machine.say(Connect("c", 5, properties={PropertyId.MAXIMUM_PACKET_SIZE: size}))
    machine.connection.refuse(ReasonCode.NOT_AUTHORIZED, "x" * 100)
    assert _said(machine, size) == ([Connack(False, ReasonCode.NOT_AUTHORIZED)] if size > 4 else [])


def test_what_could_not_be_answered_has_no_effect() -> None:
    """3.1.2-24: SUBACK and UNSUBACK have nothing to leave out."""
    for many in (
        Subscribe(1, [Subscription(f"t/{number}") for number in range(40)]),
        Unsubscribe(1, [f"t/{number}" for number in range(40)]),
    ):
        machine = connected(properties={PropertyId.MAXIMUM_PACKET_SIZE: 40})
        assert machine.say(Subscribe(2, [Subscription("t")] * 35))[0] == Suback(2, [ReasonCode.GRANTED_QOS_0] * 35)
        assert machine.say(many) == [Disconnect(ReasonCode.PACKET_TOO_LARGE)]
        assert machine.closing is not None
        assert not any(isinstance(event, Unsubscribe) for event in machine.events)


def test_an_exchange_the_client_cannot_take() -> None:
    """3.1.2-24, of AUTH."""
    machine = Machine()
    asked = {PropertyId.MAXIMUM_PACKET_SIZE: 20, PropertyId.AUTHENTICATION_METHOD: "m"}
    machine.say(Connect("c", 5, properties=asked))
    assert not machine.connection.challenge(b"x" * 20)
    assert machine.connection.data_to_send() == b""


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


# -- QoS 2 to the client


def test_qos_2_keeps_its_place_in_the_window_until_pubcomp() -> None:
    """4.3.3 and 4.9: PUBREC makes no room."""
    machine = connected(properties={PropertyId.RECEIVE_MAXIMUM: 1})
    (packet_id,) = delivered(machine, 1, 2)
    window = machine.connection.window
    assert machine.say(Pubrec(packet_id)) == [Pubrel(packet_id)]
    assert machine.events[-1] == Received([packet_id])
    assert window.room == 0
    assert machine.say(Pubcomp(packet_id)) == []
    assert isinstance(machine.events[-1], Acknowledged)
    assert (window.room, window.released, window.unreceived) == (1, set(), set())


def test_pubrec_with_an_error_ends_it() -> None:
    """4.3.3-4: no PUBREL, and the identifier is free."""
    machine = connected()
    (packet_id,) = delivered(machine, 1, 2)
    held = machine.connection.window.held[packet_id]
    assert machine.say(Pubrec(packet_id, ReasonCode.QUOTA_EXCEEDED)) == []
    assert machine.events[-1] == Acknowledged([held])
    assert machine.connection.window.held == {}


def test_pubrec_again_is_answered_again() -> None:
    machine = connected()
    (packet_id,) = delivered(machine, 1, 2)
    assert machine.say(Pubrec(packet_id)) == machine.say(Pubrec(packet_id)) == [Pubrel(packet_id)]
    assert machine.connection.window.released == {packet_id}


WRONG: list[tuple[str, int, tuple[Acknowledgement, ...]]] = [
    ("PUBACK of QoS 2", 2, (Puback(1),)),
    ("PUBACKs in a row, of QoS 2", 2, (Puback(7), Puback(1))),
    ("PUBCOMP before PUBREC", 2, (Pubcomp(1),)),
    ("PUBACK behind PUBREC", 2, (Pubrec(1), Puback(1))),
    ("PUBREC of QoS 1", 1, (Pubrec(1),)),
    ("PUBREC of QoS 1, with an error", 1, (Pubrec(1, ReasonCode.QUOTA_EXCEEDED),)),
    ("PUBCOMP of QoS 1", 1, (Pubcomp(1),)),
]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("name", "qos", "wrong"), WRONG, ids=lambda drawn: drawn if isinstance(drawn, str) else "")
def test_an_acknowledgement_of_the_wrong_type(
    name: str, qos: int, wrong: tuple[Acknowledgement, ...], version: int
) -> None:
    """4.3.2, 4.3.3: it ends the connection, and never the message, which is sent again."""
    machine = connected(version)
    assert delivered(machine, 2, 1) == [1, 2] if qos == 1 else delivered(machine, 1, 2) == [1]
    if version == 4:
        wrong = tuple(type(each)(each.packet_id) for each in wrong)
    said = machine.say(*wrong)
    goodbyes = [packet.reason for packet in said if isinstance(packet, Disconnect)]
    assert goodbyes == ([ReasonCode.PROTOCOL_ERROR] if version == 5 else []), name
    assert machine.closing is not None
    assert machine.closing.reason is ReasonCode.PROTOCOL_ERROR
    assert 1 in machine.connection.window.held


def test_what_came_before_a_wrong_acknowledgement_counts() -> None:
    machine = connected()
    delivered(machine, 1, 1)
    delivered(machine, 1, 2)
    machine.say(Puback(1), Puback(2))
    assert isinstance(machine.events[-2], Acknowledged)
    assert list(machine.connection.window.held) == [2]


@pytest.mark.parametrize("step", [1, 1000])
def test_what_was_acknowledged_before_disconnect_counts(step: int) -> None:
    """A client that acknowledges and leaves in one segment has got its messages."""
    machine = connected()
    first, second = delivered(machine, 1, 1) + delivered(machine, 1, 2)
    machine.say(Pubrec(second), Publish("a", b"", 2, 9))
    wire = b"".join(encode(packet, 5) for packet in (Puback(first), Pubcomp(second), Pubrel(9), Disconnect()))
    machine.events.clear()
    out = b"".join([machine.feed(wire[at : at + step]) for at in range(0, len(wire), step)])
    assert machine.read(out) == [Pubcomp(9)]
    assert sum(len(event.held) for event in machine.events if isinstance(event, Acknowledged)) == 2
    assert machine.connection.window.held == {}
    assert machine.closing is not None


# -- QoS 2 from the client


@pytest.mark.parametrize("version", [4, 5])
def test_a_duplicate_before_pubrec_is_handed_on_once(version: int) -> None:
    """4.3.3-10: and PUBREC is sent once it is confirmed."""
    machine = Machine(confirms=False)
    machine.say(Connect("c", version))
    for _ in range(3):
        assert machine.say(Publish("a", b"x", 2, 5, dup=True)) == []
    runs = [event for event in machine.events if isinstance(event, Publishes)]
    assert [len(run.packets) for run in runs] == [1]
    assert machine.connection.unconfirmed == 1
    machine.connection.confirm([PUBREC_WORD | 5])
    assert machine.read(machine.connection.data_to_send()) == [Pubrec(5)]
    assert machine.connection.unconfirmed == 1
    assert machine.say(Publish("a", b"x", 2, 5, dup=True)) == [Pubrec(5)]
    assert machine.say(Pubrel(5)) == [Pubcomp(5)]
    assert machine.connection.unconfirmed == 0


def test_a_refused_publish_of_qos_2_is_over() -> None:
    """4.3.3-9 and -10: behind PUBREC with an error the identifier is a new message's."""
    machine = Machine(confirms=False)
    machine.say(Connect("c", 5), Publish("a", b"x", 2, 5))
    machine.connection.refuse_publish(5, 2, ReasonCode.QUOTA_EXCEEDED, "full")
    (refused,) = machine.read(machine.connection.data_to_send())
    assert isinstance(refused, Pubrec)
    assert refused.reason is ReasonCode.QUOTA_EXCEEDED
    assert machine.connection.unconfirmed == 0
    machine.say(Publish("a", b"y", 2, 5))
    assert isinstance(machine.events[-1], Publishes)
    assert machine.connection.unconfirmed == 1


def test_an_identifier_that_an_earlier_connection_left() -> None:
    """4.3.3-10 over connections: the publish again is handed on, to be recognised; PUBREL alone completes."""
    machine = connected()
    machine.connection.incoming = {5: RESTORED, 6: RESTORED}
    assert machine.say(Publish("a", b"x", 2, 5, dup=True), Pubrel(6)) == [Pubrec(5), Pubcomp(6)]
    assert sum(isinstance(event, Publishes) for event in machine.events) == 1
    assert machine.say(Pubrel(5)) == [Pubcomp(5)]
    assert (machine.connection.incoming, machine.connection.unconfirmed) == ({}, 0)


# -- topic aliases to the client


def sent(machine: Machine, *templates: PublishTemplate) -> list[tuple[str, int]]:
    """Each packet's topic and alias."""
    for template in templates:
        send(machine, template)
    packets = machine.read(machine.connection.data_to_send())
    assert all(isinstance(packet, Publish) for packet in packets)
    return [
        (packet.topic, packet.properties.get(PropertyId.TOPIC_ALIAS, 0))
        for packet in packets
        if isinstance(packet, Publish)
    ]


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (2, 2), (9, 2)])
def test_aliases_up_to_the_smaller_maximum(asked: int, given: int) -> None:
    """3.1.2-26"""
    machine = connected(properties={PropertyId.TOPIC_ALIAS_MAXIMUM: asked})
    names = ["topic/one", "topic/two", "topic/three"]
    templates = [publish_template(name, b"x") for name in names]
    assert sent(machine, *templates) == [(name, at + 1 if at < given else 0) for at, name in enumerate(names)]
    assert sent(machine, *templates) == [("", at + 1) if at < given else (name, 0) for at, name in enumerate(names)]


def test_no_aliases_where_the_client_takes_none() -> None:
    """3.1.2-27"""
    machine = connected()
    assert not machine.connection.has_aliases
    assert sent(machine, *[publish_template("topic/one", b"x")] * 2) == [("topic/one", 0)] * 2


def test_an_alias_that_did_not_fit_is_not_taken_for_known() -> None:
    """3.1.2-24, 3.3.2-8"""
    large, small = publish_template("topic/one", b"x" * 30), publish_template("topic/one", b"x")
    asked = {PropertyId.TOPIC_ALIAS_MAXIMUM: 2, PropertyId.MAXIMUM_PACKET_SIZE: large.size}
    machine = connected(properties=asked)
    assert sent(machine, large, small, large) == [("topic/one", 0), ("topic/one", 1), ("", 1)]


def test_an_alias_that_is_longer_than_its_topic_and_does_not_fit() -> None:
    small, large = publish_template("a", b"x" * 10), publish_template("a", b"x" * 30)
    asked = {PropertyId.TOPIC_ALIAS_MAXIMUM: 2, PropertyId.MAXIMUM_PACKET_SIZE: large.size}
    assert sent(connected(properties=asked), small, large) == [("a", 1), ("a", 0)]


def test_what_is_held_back_tells_of_no_alias() -> None:
    machine = connected(properties={PropertyId.TOPIC_ALIAS_MAXIMUM: 2})
    template = publish_template("topic/one", b"x", 1)
    late = machine.connection.deliver(template, is_sent_next=False)
    assert late is not None
    assert sent(machine, publish_template("topic/one", b"y")) == [("topic/one", 1)]
    machine.connection.send(late)
    assert sent(machine) == [("topic/one", 0)]


# -- before CONNECT is decided


def deciding(version: int = 5, now: float = 0.0, **connect: object) -> Machine:
    machine = Machine(now=now, accepts=False)
    machine.say(Connect("c", version, **connect), now=now)  # type: ignore[arg-type]
    assert machine.connection.is_deciding
    return machine


@pytest.mark.parametrize("step", [1, 1000])
def test_what_comes_behind_connect_waits_for_the_answer(step: int) -> None:
    """3.1.4-6: a client need not wait for CONNACK."""
    machine = Machine(accepts=False)
    said = (Connect("c", 5), Pingreq(), Publish("a", b"x", 2, 1), Pubrel(1), Disconnect())
    wire = b"".join(encode(packet, 5) for packet in said)
    for at in range(0, len(wire), step):
        assert machine.feed(wire[at : at + step]) == b""
    assert len(machine.events) == 1
    connack, *answers = machine.read(machine.accept())
    assert isinstance(connack, Connack)
    assert answers[:2] == [Pingresp(), Pubrec(1)]
    assert machine.closing is not None
    assert machine.closing.reason is ReasonCode.NORMAL_DISCONNECTION


def test_bad_input_behind_connect_is_told_after_the_answer() -> None:
    machine = deciding()
    assert machine.feed(b"\x00\x00") == b""
    connack, goodbye = machine.read(machine.accept())
    assert isinstance(connack, Connack)
    assert isinstance(goodbye, Disconnect)
    assert goodbye.reason is ReasonCode.MALFORMED_PACKET


def test_nothing_goes_on_behind_a_refusal() -> None:
    machine = deciding()
    machine.say(Pingreq(), Publish("a", b"x"))
    machine.connection.refuse(ReasonCode.NOT_AUTHORIZED, "no")
    assert list(machine.connection.go_on()) == []
    (connack,) = machine.read(machine.connection.data_to_send())
    assert isinstance(connack, Connack)


@pytest.mark.parametrize(
    ("version", "reason"), [(4, ConnectReturnCode.SERVER_UNAVAILABLE), (5, ReasonCode.SERVER_UNAVAILABLE)]
)
def test_a_decision_that_takes_too_long(version: int, reason: int) -> None:
    """The time is the server's own, whatever the keep alive."""
    machine = deciding(version, 100.0, keep_alive=1)
    assert machine.connection.deadline() == 110.0
    assert machine.connection.handle_timeout(109.9) == []
    (closing,) = machine.connection.handle_timeout(110.0)
    assert isinstance(closing, Closing)
    (connack,) = machine.read(machine.connection.data_to_send())
    assert isinstance(connack, Connack)
    assert connack.reason == reason
    assert machine.connection.is_closed


def test_a_server_that_stops_while_it_decides_says_so_in_connack_s_words() -> None:
    """3.2.2-8: CONNACK has no 0x8B."""
    machine = deciding()
    machine.connection.close(ReasonCode.SERVER_SHUTTING_DOWN, "the end")
    (connack,) = machine.read(machine.connection.data_to_send())
    assert isinstance(connack, Connack)
    assert connack.reason is ReasonCode.SERVER_UNAVAILABLE


# -- texts


@pytest.mark.parametrize(
    "asked", [{PropertyId.REQUEST_PROBLEM_INFORMATION: 0}, {PropertyId.MAXIMUM_PACKET_SIZE: 100}], ids=["0", "size"]
)
def test_an_acknowledgement_without_its_text(asked: dict[PropertyId, int]) -> None:
    """3.1.2-29, 3.4.2-2, 3.5.2-2"""
    machine = Machine(confirms=False)
    machine.say(Connect("c", 5, properties=asked), Publish("a", b"", 1, 1), Publish("a", b"", 2, 2))
    machine.connection.refuse_publish(1, 1, ReasonCode.QUOTA_EXCEEDED, "x" * 100)
    machine.connection.refuse_publish(2, 2, ReasonCode.QUOTA_EXCEEDED, "x" * 100)
    assert machine.read(machine.connection.data_to_send()) == [
        Puback(1, ReasonCode.QUOTA_EXCEEDED),
        Pubrec(2, ReasonCode.QUOTA_EXCEEDED),
    ]


def test_a_goodbye_has_its_text_where_problem_information_is_off() -> None:
    """3.1.2.11.7: DISCONNECT may have it all the same."""
    machine = connected(properties={PropertyId.REQUEST_PROBLEM_INFORMATION: 0})
    machine.connection.close(ReasonCode.SERVER_SHUTTING_DOWN, "the end")
    (goodbye,) = machine.read(machine.connection.data_to_send())
    assert isinstance(goodbye, Disconnect)
    assert goodbye.properties == {PropertyId.REASON_STRING: "the end"}


# -- anything


def _clients() -> st.SearchStrategy[list[tuple[int, Packet]]]:
    quiet = st.sampled_from(
        [
            Pingreq(),
            Publish("a/b", b"x"),
            Publish("a/b", b"x", 1, 7),
            Publish("a/b", b"x", 2, 8),
            Pubrel(8),
            Puback(1),
            Pubrec(2),
            Pubcomp(2),
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
    acknowledges = any(isinstance(packet, Puback | Pubrec | Pubcomp) for _, packet in said)
    out, sent = b"", 0
    for at in range(0, len(wire), step):
        out += machine.feed(wire[at : at + step])
        if machine.connection.is_open and deliveries and machine.connection.window.room:
            deliveries, sent = deliveries - 1, sent + 1
            send(machine, publish_template("a", b"x", 1 + deliveries % 2, version=machine.connection.version))
    out += machine.connection.data_to_send()
    whole.feed(wire)
    machine.read(out)
    if not (sent and acknowledges):  # else it depends on what was sent whether an acknowledgement is of the right type
        assert machine.connection.is_open == whole.connection.is_open
        assert (machine.closing and machine.closing.reason) == (whole.closing and whole.closing.reason)
    if machine.connection.is_closed:
        assert isinstance(machine.events[-1], Closing)
        assert sum(isinstance(event, Closing) for event in machine.events) == 1
        assert machine.connection.deadline() == FOREVER


def test_another_connect_of_an_unknown_version_is_a_protocol_error() -> None:
    """0x84 is a word of CONNACK alone (3.14.2.1)."""
    machine = connected()
    [goodbye] = machine.read(machine.feed(bytes.fromhex("100e00044d51545415020000006a000163")))
    assert isinstance(goodbye, Disconnect) and goodbye.reason == ReasonCode.PROTOCOL_ERROR


@given(noise=st.binary(max_size=200), step=st.integers(1, 200), version=st.sampled_from([0, 4, 5]))
def test_any_bytes(noise: bytes, step: int, version: int) -> None:
    machine = connected(version) if version else Machine()
    for at in range(0, len(noise), step):
        out = machine.feed(noise[at : at + step])
        reader = Decoder(1 << 20, machine.connection.version or 4)
        reader.feed(out)
        assert reader.error is None
    assert machine.connection.is_closed == (machine.closing is not None)
