"""A client id belongs to one connection at a time, at whichever gateway: the session goes on with the latest."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Packet, Puback, Publish, Pubrec, Pubrel
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.session_client import SessionClient, numbered, publish_from
from tests.support.processes.deployment import ClusterProcesses
from tests.support.seed import seeded
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import scaled, soak_only

pytestmark = pytest.mark.xdist_group("cluster")
TAKES_SECONDS = scaled(PATIENCE_SECONDS, 7.5)
"""Told at once: in less time than a gateway takes to find another one dead."""
CONNECTIONS = scaled(20, 60)
PROPERTIES = {PropertyId.SESSION_EXPIRY_INTERVAL: 600}


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"t{abs(hash(request.node.name))}"


def is_welcome(port: int, client_id: str) -> bool:
    """Whether a client can connect: one that comes while its gateway learns that it was given up is to try again."""
    with SessionClient(port, client_id) as client:
        properties = {PropertyId.SESSION_EXPIRY_INTERVAL: 600}
        client.say(Connect(client_id, 5, False, properties=properties))
        return client.expect(Connack).reason == ReasonCode.SUCCESS


def goodbye(client: SessionClient) -> Packet | None:
    """The last packet before the server closed."""
    packets = client.read_to_end()
    return packets[-1] if packets else None


@pytest.mark.scaled
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_the_session_goes_on_with_the_later_connection(
    shared: ClusterProcesses, topic: str, version: int, is_elsewhere: bool
) -> None:
    here, there = (gateway.port("mqtt") for gateway in shared.gateways)
    if not is_elsewhere:
        there = here
    with SessionClient(here, topic, version) as old, SessionClient(there, topic, version) as new:
        old.open()
        old.subscribe(f"{topic}/#", qos=2)
        publish_from(here, f"{topic}/n", numbered(20), 2)
        before = old.expect_deliveries(20)
        old.say(*[Pubrec(each.packet_id) for each in before[:5]])
        started = time.monotonic()
        assert new.open().session_present
        last = goodbye(old)
        assert time.monotonic() - started < TAKES_SECONDS
        if version == 5:
            assert isinstance(last, Disconnect) and last.reason == ReasonCode.SESSION_TAKEN_OVER, last
        publish_from(here, f"{topic}/n", numbered(3, 20), 2)
        while len(new.deliveries) + len(new._waiting) < 23 or len(new.deliveries) < 18:
            assert new.read(), "closed"
        again = new.expect_deliveries(len(new.deliveries))
        released = [packet.packet_id for packet in new._waiting if isinstance(packet, Pubrel)]
        assert released == [each.packet_id for each in before[: len(released)]]
        assert [(each.packet_id, each.payload, each.dup) for each in again[:-3]] == [
            (each.packet_id, each.payload, True) for each in before[len(released) :]
        ]
        assert [each.payload for each in again[-3:]] == numbered(3, 20)


@pytest.mark.scaled
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_many_connections_of_one_id(shared: ClusterProcesses, topic: str, is_elsewhere: bool) -> None:
    """All at once, at both gateways: each gets an answer or its end, and one is left with the session."""
    chance = seeded()
    ports = [gateway.port("mqtt") for gateway in shared.gateways[: 2 if is_elsewhere else 1]]
    with SessionClient(ports[0], topic) as first:
        first.open()
        first.subscribe(f"{topic}/#", qos=1)
        clients = [SessionClient(chance.choice(ports), topic) for _ in range(CONNECTIONS)]
        for client in clients:
            client.say(Connect(topic, 5, False, properties=PROPERTIES))
        ended: list[SessionClient] = []
        threads = [threading.Thread(target=_watch, args=(client, ended), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(ended) >= len(clients) - 1, lambda: f"{len(ended)} of {len(clients)} are at their end")
        with wait_until(lambda: _alone(ports[-1], topic, lambda: len(ended) == len(clients)), "one is left") as last:
            publish_from(ports[0], f"{topic}/n", numbered(5))
            assert last.take(5) == numbered(5)
        for client in clients:
            reasons = [packet.reason for packet in client.seen]  # type: ignore[attr-defined]
            assert reasons in (
                [ReasonCode.SUCCESS, ReasonCode.SESSION_TAKEN_OVER],
                [ReasonCode.SERVER_BUSY],
                [ReasonCode.SERVER_UNAVAILABLE],
            ), reasons
            client.socket.close()


def _alone(port: int, client_id: str, others_have_ended: Callable[[], bool]) -> SessionClient | None:
    """A client that has the session for itself; None where one of the others, which had not been asked before, took it
    over from this one, perhaps before its CONNACK."""
    last = SessionClient(port, client_id)
    last.say(Connect(client_id, last.version, False, properties=PROPERTIES))
    answer = last.expect(Connack)
    if answer.reason == ReasonCode.SERVER_BUSY:
        last.socket.close()
        return None
    assert answer.reason == 0 and answer.session_present, answer
    try:
        wait_until(others_have_ended, "the last of them has ended too", 1)  # or else it has taken it over
    except AssertionError:
        last.socket.close()
        return None
    return last


def _watch(client: SessionClient, ended: list[SessionClient]) -> None:
    try:
        client.seen = [p for p in client.read_to_end(2 * PATIENCE_SECONDS) if isinstance(p, Connack | Disconnect)]  # type: ignore[attr-defined]
    finally:
        ended.append(client)


@pytest.mark.failure(
    "A gateway hangs, and its clients are elsewhere when it goes on",
    group="Gateways and clients",
    does=(
        "Sessions go on at the other gateway meanwhile. Late work of the first changes nothing of them, and then "
        "it works again."
    ),
    lost="nothing",
)
@pytest.mark.parametrize("seconds", [1.0, soak_only(11.0)])
def test_a_gateway_that_stood_still_is_fenced(shared: ClusterProcesses, topic: str, seconds: float) -> None:
    """For a moment, or for so long that it is taken for dead: what it does late changes nothing of the session."""
    frozen, other = shared.gateways
    with SessionClient(frozen.port("mqtt"), topic) as old, SessionClient(other.port("mqtt"), topic) as new:
        old.open()
        old.subscribe(f"{topic}/#", qos=1)
        publish_from(other.port("mqtt"), f"{topic}/n", numbered(10))
        before = old.expect_deliveries(10)
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            old.say(*[Puback(each.packet_id) for each in before], Publish(f"{topic}/x", b"late", 2, 9))
            started = time.monotonic()
            assert new.open().session_present
            assert [each.packet_id for each in new.expect_deliveries(10)] == [each.packet_id for each in before]
            publish_from(other.port("mqtt"), f"{topic}/n", numbered(5, 10))
            assert [each.payload for each in new.expect_deliveries(5)] == numbered(5, 10)
            wait_until(lambda: time.monotonic() - started >= seconds, "it stood still for long enough", seconds + 1)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        last = goodbye(old)
        assert isinstance(last, Disconnect) and last.reason == ReasonCode.SESSION_TAKEN_OVER, last
        new.say(Disconnect())
        new.read_to_end()
    wait_until(lambda: is_welcome(frozen.port("mqtt"), topic), "it knows that others thought it dead")
    with SessionClient(frozen.port("mqtt"), topic) as client:  # which goes on working
        assert client.open().session_present
        assert client.take(15) == numbered(15)
