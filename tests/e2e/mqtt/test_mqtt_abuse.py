"""Contract row 18 at the MQTT door: whatever some do, who behaves goes on, and the server's memory stays bounded."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.seed import seeded
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled
from tests.wire.mqtt.strategies import any_packet

MIB = 1 << 20
MEMORY_MARGIN = 64 * MIB  # what one link to a broker may hold (`link.MAX_HELD_BYTES`)


@contextmanager
def limited(deploy: Deploy, directory: Path, connect_seconds: int) -> Iterator[Deployment]:
    limits = {
        "mqtt.connect_timeout_seconds": str(connect_seconds),
        "mqtt.max_packet_size_bytes": str(64 * 1024),
        "mqtt.max_subscriptions_per_client": "500",
        "topics.max_auto_created": "20",
        "store.max_unconfirmed_bytes": str(4 * MIB),
    }
    with deploy(directory, limits) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


@pytest.fixture(scope="module")
def abused(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with limited(deploy, tmp_path_factory.mktemp("abuse"), connect_seconds=60) as running:
        yield running


@contextmanager
def undisturbed(server: Deployment) -> Iterator[None]:
    """A client publishes to itself all the while, one message after the other; the memory of each process stays
    near to what it was."""
    before = [process.resident_bytes() for process in server.all]
    failures: list[BaseException] = []
    stop = threading.Event()
    rounds = 0

    def behave() -> None:
        nonlocal rounds
        try:
            with RawClient(server.port("mqtt")) as client:
                client.connect(f"good-{random.random()}")
                client.subscribe("good/#")
                while not stop.is_set() or rounds < 5:
                    body = str(rounds).encode()
                    assert client.publish("good/x", body).reason == ReasonCode.SUCCESS
                    assert [delivery.payload for delivery in client.expect_deliveries(1)] == [body]
                    rounds += 1
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=behave)
    thread.start()
    try:
        wait_until(lambda: rounds or failures, "the well-behaved client goes")
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures
    for process, resident in zip(server.all, before, strict=True):
        grown = process.resident_bytes() - resident
        assert grown < MEMORY_MARGIN, f"{process.name}: {grown / MIB:.1f} MiB more"


def test_slow_senders(abused: Deployment) -> None:
    """A byte at a time is slow, but allowed; what is slower than the time for CONNECT is not."""
    with undisturbed(abused), RawClient(abused.port("mqtt")) as client:
        wire = encode(Connect("slow", 5), 5) + encode(Subscribe(1, [Subscription("slow/#", 1)]), 5)
        wire += encode(Publish("slow/x", b"here", 1, 1), 5)
        for byte in wire:
            client.send(bytes((byte,)))
        assert client.expect(Connack).reason == ReasonCode.SUCCESS
        assert [delivery.payload for delivery in client.expect_deliveries(1)] == [b"here"]


@pytest.mark.soak
def test_half_open_connections(deploy: Deploy, tmp_path: Path) -> None:
    """300 that say nothing or half of a CONNECT are closed when the time is over.

    One of them is in `tests/e2e/transports/test_limits.py`, and its time in `tests/unit/mqtt/test_connection.py`.
    """
    with limited(deploy, tmp_path, connect_seconds=2) as server, undisturbed(server), ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port("mqtt"))) for _ in range(300)]
        for client in clients[::2]:
            with suppress(ConnectionError):  # the time may be over by now
                client.send(encode(Connect("half", 5), 5)[:7])
        for client in clients:
            assert client.read_to_end() == []


def test_oversize_is_refused_before_it_comes(abused: Deployment) -> None:
    with undisturbed(abused), ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(RawClient(abused.port("mqtt")))
            client.connect("")
            client.send(b"\x30\xff\xff\xff\x7f")
            (goodbye,) = client.read_to_end()
            assert isinstance(goodbye, Disconnect)
            assert goodbye.reason == ReasonCode.PACKET_TOO_LARGE
        first = stack.enter_context(RawClient(abused.port("mqtt")))
        first.send(b"\x10\xff\xff\xff\x7f")
        assert first.read_to_end() == []


@pytest.mark.scaled
def test_many_almost_full_packets_are_bounded_by_their_limit(abused: Deployment) -> None:
    """Many connections that each hold back the end of the largest packet."""
    with undisturbed(abused), ExitStack() as stack:
        packet = encode(Publish("big/x", b"x" * 60_000), 5)
        for number in range(scaled(50, 200)):
            client = stack.enter_context(RawClient(abused.port("mqtt")))
            client.connect(f"big-{number}")
            client.send(packet[:-1])


def test_deep_topics_and_filters(abused: Deployment) -> None:
    deep = "/".join("d" * 129)
    with undisturbed(abused), ExitStack() as stack:
        for version in (4, 5):
            client = stack.enter_context(RawClient(abused.port("mqtt"), version))
            client.connect(f"deep-{version}")
            refused = ReasonCode.TOPIC_FILTER_INVALID if version == 5 else ReasonCode.UNSPECIFIED_ERROR
            assert client.subscribe(deep, "/".join("+" * 129), "+/" * 127 + "#").reasons == [refused, refused, 1]
            client.say(Publish(deep, b"x", 1, 1))
            answer = client.expect(Puback).reason  # version 4 has no words for it: the message is dropped
            assert answer == (ReasonCode.TOPIC_NAME_INVALID if version == 5 else ReasonCode.SUCCESS)
            client.say(Publish("/".join("d" * 201), b"x"))
            said = client.read_to_end()
            assert [packet.reason for packet in said if isinstance(packet, Disconnect)] == (
                [ReasonCode.TOPIC_NAME_INVALID] if version == 5 else []
            )


def test_many_wildcards(abused: Deployment) -> None:
    """Filters that match in very many ways, and names that make them do it."""
    with undisturbed(abused), RawClient(abused.port("mqtt")) as client:
        client.connect("wild")
        dice = random.Random(4)
        filters = {"/".join(dice.choice("+a") for _ in range(12)) for _ in range(450)}
        reasons = client.subscribe(*filters, "a/+/#", "+/a/#", "#").reasons
        assert set(reasons) == {1}
        for number in range(50):
            client.publish("/".join(["a"] * 12), str(number).encode())
        assert len(client.expect_deliveries(50)) == 50  # one each, however many filters match
        more = client.subscribe(*[f"more/{n}" for n in range(100)]).reasons
        room = 500 - len(filters) - 3
        assert more == [1] * room + [ReasonCode.QUOTA_EXCEEDED] * (100 - room)


def test_pathological_filters(abused: Deployment) -> None:
    """The deepest, the longest and the emptiest filters, and names on which all of them have to be tried."""
    deepest = 128
    with undisturbed(abused), RawClient(abused.port("mqtt")) as client:
        client.connect("pathological")
        filters = ["+/" * levels + "#" for levels in range(1, deepest)]
        filters += ["/" * (deepest - 1), "p/" + "x" * 30_000, "p/" * (deepest - 2) + "+/#"]
        for start in range(0, len(filters), 10):
            assert set(client.subscribe(*filters[start : start + 10]).reasons) == {1}
        malformed = ("p/#/x", "p/x+", "+p/x", "p/x#", "$share/g/", "$share/+/x", "$share/g")
        assert set(client.subscribe(*malformed).reasons) == {ReasonCode.TOPIC_FILTER_INVALID}
        names = ["/".join("p" * deepest), "p/" + "x" * 30_000, "p" + "/" * (deepest - 1)]
        for _ in range(10):
            for name in names:
                assert client.publish(name).reason == ReasonCode.SUCCESS
        assert len(client.expect_deliveries(30)) == 30


def test_a_subscriber_of_qos_0_that_does_not_read_misses_messages_and_slows_nobody(abused: Deployment) -> None:
    """They are counted: of the client, and of the door."""

    def dropped() -> int:
        listed = http_json(abused, "GET", "/api/v1/clients?prefix=deaf")["value"]
        return sum(each["dropped"] for each in listed)

    with (
        undisturbed(abused),
        RawClient(abused.port("mqtt"), receive_buffer=4096) as deaf,
        RawClient(abused.port("mqtt")) as quick,
        RawClient(abused.port("mqtt")) as publisher,
    ):
        deaf.connect("deaf")
        deaf.subscribe("deaf/#", qos=0)
        quick.connect("quick")
        quick.subscribe("deaf/#", qos=1)
        publisher.connect("to-the-deaf")
        sent = 0
        while not dropped():
            for _ in range(50):
                publisher.publish("deaf/x", b"x" * 30_000)
            sent += 50
            assert len(quick.expect_deliveries(50)) == 50
            assert sent < 2000, "its queue has no limit"
        heard = 0
        missed = dropped()
        while heard < sent - missed:
            heard += len(deaf.expect_deliveries(1))
        assert heard + missed == sent


def test_many_names(abused: Deployment) -> None:
    """First levels beyond the limit of Topics go to the catch-all, and all are delivered."""
    with undisturbed(abused), RawClient(abused.port("mqtt")) as client:
        client.connect("names")
        client.subscribe("+/names")
        for number in range(200):
            assert client.publish(f"first{number}/names", str(number).encode()).reason == ReasonCode.SUCCESS
        found = {int(delivery.payload) for delivery in client.expect_deliveries(200)}
        assert found == set(range(200))


@pytest.mark.scaled
def test_connections_of_garbage(abused: Deployment) -> None:
    dice = seeded()
    with undisturbed(abused):
        sockets = abused.open_sockets()
        for number in range(scaled(50, 200)):
            with RawClient(abused.port("mqtt")) as client:
                noise = dice.randbytes(dice.randrange(1, 5000))
                try:
                    if number % 2:
                        client.send(encode(Connect(f"g{number}", 5), 5))
                    client.send(noise)
                    if number % 3 == 0:
                        client.socket.shutdown(socket.SHUT_WR)
                        while client.socket.recv(4096):
                            pass
                except ConnectionError:
                    continue
        wait_until(lambda: abused.open_sockets() <= sockets, "all are closed")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.sampled_from([4, 5]).flatmap(
        lambda version: st.tuples(st.just(version), st.lists(any_packet(version), max_size=6))
    ),
    noise=st.binary(max_size=64),
)
def test_fuzz(abused: Deployment, said: tuple[int, list[Packet]], noise: bytes) -> None:
    """Valid packets in any order, then noise: the connection answers in its version and ends, the server does not."""
    version, packets = said
    with RawClient(abused.port("mqtt"), version) as client:
        try:
            client.connect("")
            client.say(*packets, Pingreq())
            client.send(noise)
            client.socket.shutdown(socket.SHUT_WR)
            client.read_to_end()
        except (ConnectionError, OSError):
            pass  # it has closed while we wrote
    with RawClient(abused.port("mqtt")) as client:
        assert client.connect("").reason == ReasonCode.SUCCESS


@pytest.mark.scaled
def test_the_loudest_publisher_is_slowed_and_not_the_others(abused: Deployment) -> None:
    """A version 4 client has no receive maximum: it is not read while too much is unconfirmed."""
    with undisturbed(abused), RawClient(abused.port("mqtt"), 4) as client:
        client.connect("loud")
        count = scaled(500, 2000)  # several times the bytes that may be unconfirmed
        packets = [encode(Publish("loud/x", b"x" * 30_000, 1, number + 1), 4) for number in range(count)]
        for start in range(0, count, 100):
            client.send(b"".join(packets[start : start + 100]))
        for _ in range(count):
            client.expect(object)


def test_suback_is_there_before_what_it_promises(abused: Deployment) -> None:
    """3.8.4: a client that publishes to itself in one segment hears SUBACK first."""
    with undisturbed(abused), RawClient(abused.port("mqtt")) as client:
        client.say(Connect("self", 5), Subscribe(1, [Subscription("self/#", 1)]), Publish("self/x", b"x", 1, 1))
        client.expect(Connack)
        client.expect(Suback)
        client.expect_deliveries(1)
