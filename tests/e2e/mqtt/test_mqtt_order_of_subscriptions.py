"""SUBSCRIBE and UNSUBSCRIBE take effect in the order of the publishes around them, which come in one segment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from entrepot.domain.routing.queue_selector import queue_for_key
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.client import RawClient

QUEUES = 24
"""A multiple of the queues of any new topic: 4 on each broker."""
LAST = b"last"
"""Published behind everything: what had to come has come before it."""
Heard = list[tuple[bytes, bool]]
"""Payloads and retain flags."""


def pub(payload: bytes, *, retain: bool = False) -> Publish:
    return Publish("", payload, 0, 0, retain)


def sub(**options: int) -> Subscribe:
    return Subscribe(9, [Subscription("", 2, **options)])  # type: ignore[arg-type]


UNSUB = Unsubscribe(9, [""])
KEPT = pub(b"kept", retain=True)

# name: what is retained before, what is said in one segment, what is heard, where nothing else comes
SEQUENCES: list[tuple[str, Sequence[Packet], Sequence[Packet], Heard]] = [
    ("a publish before is not for it", (), (pub(b"1"), sub()), []),
    ("a publish behind is", (), (sub(), pub(b"1")), [(b"1", False)]),
    (
        "some before, some behind",
        (),
        (pub(b"1"), pub(b"2"), sub(), pub(b"3"), pub(b"4")),
        [(b"3", False), (b"4", False)],
    ),
    ("retained before", (), (pub(b"1", retain=True), sub()), [(b"1", True)]),
    ("retained before, behind another", (KEPT,), (pub(b"1", retain=True), sub()), [(b"1", True)]),
    ("retained and deleted before", (), (pub(b"1", retain=True), pub(b"", retain=True), sub()), []),
    ("retained before, and not wanted", (), (pub(b"1", retain=True), sub(retain_handling=2)), []),
    ("retained behind", (), (sub(), pub(b"1", retain=True)), [(b"1", False)]),
    ("retained behind another", (KEPT,), (sub(), pub(b"1", retain=True)), [(b"kept", True), (b"1", False)]),
    (
        "retained behind and wanted as published",
        (),
        (sub(retain_as_published=1), pub(b"1", retain=True)),
        [(b"1", True)],
    ),
    ("not its own", (), (pub(b"1"), sub(no_local=1), pub(b"2")), []),
    ("until it is given up", (), (sub(), pub(b"1"), UNSUB, pub(b"2")), [(b"1", False)]),
    (
        "again and again",
        (),
        (pub(b"1"), sub(), pub(b"2"), UNSUB, pub(b"3"), sub(), pub(b"4"), UNSUB, pub(b"5"), sub(), pub(b"6")),
        [(b"2", False), (b"4", False), (b"6", False)],
    ),
]


def _placed(packets: Sequence[Packet], name: str, qos: int) -> list[Packet]:
    """The packets with a topic of their own."""
    found: list[Packet] = []
    for number, packet in enumerate(packets, 1):
        if isinstance(packet, Publish):
            found.append(Publish(name, packet.payload, qos, number if qos else 0, packet.retain))
        elif isinstance(packet, Subscribe):
            wanted = packet.subscriptions[0]
            options = (wanted.no_local, wanted.retain_as_published, wanted.retain_handling)
            found.append(Subscribe(number, [Subscription(name, wanted.qos, *options)]))
        else:
            found.append(Unsubscribe(number, [name]))
    return found


def _hello(version: int, *, stays: bool, name: str) -> Connect:
    properties = {PropertyId.SESSION_EXPIRY_INTERVAL: 60} if stays and version == 5 else {}
    return Connect(name, version, not stays, properties=properties)


def _last(name: str) -> str:
    """A name in the same queue: what is published to it comes behind what was published to the other."""
    queues = range(QUEUES)
    names = (f"{name}/last{number}" for number in count())
    return next(each for each in names if queue_for_key(each, queues) == queue_for_key(name, queues))


def _heard(client: RawClient, name: str, qos: int) -> Heard:
    """All that has come: behind it comes what is published last, and what is retained for it."""
    client.say(Subscribe(99, [Subscription(_last(name), 2)]), Publish(_last(name), LAST, qos, 99 if qos else 0))
    found: Heard = []
    left = {True, False}
    while left:
        for packet in client.expect_deliveries(1):
            if packet.payload == LAST:
                left.remove(packet.retain)
            else:
                found.append((packet.payload, packet.retain))
    return found


@pytest.mark.parametrize("stays", [False, True], ids=["clean", "session"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_in_one_segment(port: int, topic: str, qos: int, stays: bool) -> None:
    for number, (name, before, said, expected) in enumerate(SEQUENCES):
        for version in (4, 5):
            if version == 4 and any(_is_of_five(each.subscriptions[0]) for each in _subscribes(said)):
                continue
            place = f"{topic}/{number}/{version}"
            with RawClient(port) as other, RawClient(port, version) as client:
                other.connect(f"{topic}-other")
                for packet in (*_placed(before, place, 1), Publish(_last(place), LAST, 1, 1, True)):
                    other.say(packet)
                    other.expect(Puback)
                client.say(_hello(version, stays=stays, name=f"{topic}-{number}-{version}"))
                client.expect(Connack)
                client.say(*_placed(said, place, qos))
                assert (name, version, _heard(client, place, qos)) == (name, version, expected)


def _subscribes(said: Sequence[Packet]) -> list[Subscribe]:
    return [each for each in said if isinstance(each, Subscribe)]


def test_the_session_goes_on_there(port: int, topic: str) -> None:
    """A session that ends its connection at once comes back to what was published behind its subscription."""
    name = f"{topic}/x"
    with RawClient(port, acknowledges=False) as client:
        hello = _hello(5, stays=True, name=topic)
        client.say(hello, Subscribe(2, [Subscription(name, 1)]), Publish(name, b"2", 1, 3), Disconnect())
        client.read_to_end()
    with RawClient(port) as client:
        client.say(hello)
        assert [packet.payload for packet in client.expect_deliveries(1)] == [b"2"]


def test_what_it_has_nothing_to_do_with_is_not_waited_for(port: int, topic: str) -> None:
    """A SUBSCRIBE behind each hundred of ten thousand publishes."""
    with RawClient(port) as client:
        client.connect(topic)
        for turn in range(100):
            client.say(*[Publish(topic, b"x")] * 100, Subscribe(turn + 1, [Subscription(f"s/{turn}")]))
        for turn in range(100):
            assert client.expect(Suback).packet_id == turn + 1


def _is_of_five(wanted: Subscription) -> bool:
    return bool(wanted.no_local or wanted.retain_as_published or wanted.retain_handling)


def test_a_share_has_what_is_published_behind_its_subscribe(port: int, topic: str) -> None:
    """A group that the SUBSCRIBE makes has what is published behind it."""
    with RawClient(port) as client:
        client.connect(topic)
        said = Subscribe(2, [Subscription(f"$share/{topic}/{topic}/x/+", 1)])
        client.say(Publish(f"{topic}/x/y", b"1", 1, 1), said, Publish(f"{topic}/x/y", b"2", 1, 3))
        assert [packet.payload for packet in client.expect_deliveries(1)] == [b"2"]


def _next(client: RawClient) -> Packet:
    """The next packet that is no delivery."""
    while not client._waiting:
        assert client.read()
    return client._waiting.pop(0)


def test_what_was_confirmed_before(port: int, topic: str) -> None:
    """Somebody else listens, so the queue is followed already, and may be behind what the client has been told."""
    with RawClient(port) as listener, RawClient(port) as client:
        listener.connect(f"{topic}-listens")
        listener.subscribe(f"{topic}/#", qos=0)
        client.connect(topic)
        for number in range(40):
            client.publish(f"{topic}/x", b"1", number + 1)
            client.say(Subscribe(200, [Subscription(f"{topic}/x", 1)]), Publish(f"{topic}/x", b"2", 1, 201))
            client.say(Unsubscribe(202, [f"{topic}/x"]))
            assert [packet.payload for packet in client.expect_deliveries(1)] == [b"2"]
            assert {type(_next(client)) for _ in range(3)} == {Suback, Puback, Unsuback}
