"""Contract row 8 at the MQTT door: its acknowledgements belong to a connection, its sessions to no gateway.

A gateway is killed; its clients go on at the other.  What was not acknowledged returns, marked DUP where the session
had sent it; what was acknowledged does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Pingreq, Pingresp, Puback, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.load import Consumer, Publisher, Threads, Wire
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PERSISTS = {PropertyId.SESSION_EXPIRY_INTERVAL: 600}
KILLS = 3
pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, {"groups.invisible_seconds": "2"}, gateways=2) as running:
        yield running


def publish(gateway: GatewayProcess, topic: str, count: int) -> set[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    with RawClient(gateway.port("mqtt")) as publisher:
        publisher.connect(f"publisher-{topic}")
        publisher.say(*[Publish(f"{topic}/a", body, 1, at + 1) for at, body in enumerate(bodies)])
        for _ in bodies:
            assert publisher.expect(Puback).reason < 0x80
    return set(bodies)


def acknowledge(client: RawClient, deliveries: list[Publish]) -> None:
    """And make sure that the gateway has read it."""
    client.say(*[Puback(each.packet_id) for each in deliveries], Pingreq())
    client.expect(Pingresp)


@pytest.mark.failure(
    "A gateway dies that has MQTT sessions",
    group="Gateways and clients",
    does=(
        "A session goes on at another gateway. Messages in flight come again with their packet id and DUP, "
        "acknowledged ones do not."
    ),
    lost="nothing",
)
def test_a_session_goes_on_at_the_other_gateway(shared: ClusterProcesses) -> None:
    """What was in flight comes again with its packet id and DUP."""
    with RawClient(shared.gateways[0].port("mqtt"), acknowledges=False) as client:
        client.connect("session", clean_start=False, properties=PERSISTS)
        client.subscribe("jobs/#")
        wanted = publish(shared.gateways[1], "jobs", 10)
        first = client.expect_deliveries(10)
        acknowledge(client, first[:5])
        wait_until(
            lambda: http_json(shared.gateways[1], "GET", "/api/v1/sessions/session")["inFlight"] == 5,
            "the acknowledgements are durable",
        )
        shared.gateways[0].kill()
    with RawClient(shared.gateways[1].port("mqtt")) as client:
        assert client.connect("session", clean_start=False, properties=PERSISTS).session_present
        again = client.expect_deliveries(5)
        assert [(each.payload, each.packet_id, each.dup) for each in again] == [
            (each.payload, each.packet_id, True) for each in first[5:]
        ]
        publish(shared.gateways[1], "jobs", 1)
        (new,) = client.expect_deliveries(1)
        assert (new.payload, new.dup) == (b"0", False)
    assert {each.payload for each in first} == wanted


@pytest.mark.soak
def test_what_a_member_of_a_share_had_not_acknowledged_goes_to_another(cluster: ClusterProcesses) -> None:
    """The store has the acknowledgements, so nothing of them returns."""
    with RawClient(cluster.gateways[1].port("mqtt"), acknowledges=False) as other:
        with RawClient(cluster.gateways[0].port("mqtt"), acknowledges=False) as member:
            member.connect("member")
            member.subscribe("$share/workers/tasks/#")
            wanted = publish(cluster.gateways[0], "tasks", 10)
            first = member.expect_deliveries(10)
            acknowledge(member, first[:5])
            member.publish("other/x", packet_id=60_000)  # behind the acknowledgements in the log, and confirmed
            cluster.gateways[0].kill()
        other.connect("other")
        other.subscribe("$share/workers/tasks/#")
        found = other.expect_deliveries(5)
        acknowledge(other, found)
        publish(cluster.gateways[1], "tasks", 1)
        (last,) = other.expect_deliveries(1)
    tell("unacknowledged MQTT messages of a share whose gateway died", messages=11, faults=1)
    assert {each.payload for each in found} == {each.payload for each in first[5:]}
    assert last.payload == b"0"
    assert {each.payload for each in first} == wanted


@pytest.mark.failure_also("A gateway dies")
@pytest.mark.soak
def test_gateways_killed_in_turn_lose_and_double_nothing(cluster: ClusterProcesses) -> None:
    """QoS 2 from end to end comes once, wherever both ends go; shares and QoS 1 lose nothing."""
    turn = iter(range(1 << 30))

    def connect(client_id: str) -> Wire:
        return Wire(cluster.gateways[next(turn) % 2].port("mqtt"), client_id)

    threads = Threads(connect)
    once = Consumer("once", "load/#", 2)
    members = [Consumer(f"member{number}", "$share/workers/load/#", 1) for number in range(2)]
    publishers = [Publisher("q1", 1, "load/a"), Publisher("q2", 2, "load/b")]
    threads.consume(once, *members)
    try:
        wait_until(lambda: all(each.is_ready for each in threads.consumers), "subscribed")
        threads.publish(*publishers)
        for number in range(KILLS):
            before = len(threads.confirmed), len(once.taken)
            wait_until(
                lambda before=before: len(threads.confirmed) > before[0] + 100 and len(once.taken) > before[1] + 100,
                "it goes on",
            )
            cluster.gateways[number % 2].kill()
            cluster.gateways[number % 2].start()
        threads.end_producing()
        wanted = threads.confirmed

        def missing() -> tuple[int, int]:
            of_share = set().union(*(each.taken.keys() for each in members))
            return len(wanted - once.taken.keys()), len(wanted - of_share)

        wait_until(lambda: not any(missing()), lambda: f"missing {missing()}", 2 * PATIENCE_SECONDS)
    finally:
        threads.stop()
    tell(
        "MQTT gateways killed in turn",
        rounds=KILLS,
        messages=len(wanted),
        lost=sum(missing()),
        phantom=len(once.taken.keys() - threads.sent),
        duplicated=sum(n > 1 for body, n in once.taken.items() if body in publishers[1].sent),
        faults=KILLS,
    )
    assert not threads.failures, threads.failures
    for consumer in threads.consumers:
        assert consumer.taken.keys() - threads.sent == set(), f"phantoms at {consumer.name}"
    assert {body: n for body, n in once.taken.items() if n > 1 and body in publishers[1].sent} == {}
