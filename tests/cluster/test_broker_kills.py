"""Contract row 3 in a cluster: brokers killed in turn under load, and what one that is away means for others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.routing.queue_selector import queue_for_key
from entrepot.protocols.mqtt.packets import Puback, Publish
from tests.support.doors.load import Load, body_of, door, event_headers, offsets_of
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import ClusterProcesses
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

pytestmark = pytest.mark.soak
ROUNDS = 5
PATIENT = {"cluster.request_seconds": "30", "cluster.silence_seconds": "30"}
QUICKLY = 12.0
"""Far less than what a request may take: nothing waits for a broker that is known to be away."""


@pytest.mark.failure(
    "A broker's process dies, again and again",
    group="A broker without replicas",
    does="It reads its log and goes on. Clients stay connected to their gateways.",
    lost="nothing confirmed",
)
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(300)
def test_nothing_confirmed_is_lost_when_brokers_are_killed_in_turn(tmp_path: Path) -> None:
    rng = seeded()
    with ClusterProcesses(tmp_path, name_servers=2, gateways=2) as cluster:
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=2, consumers=3, subscribers=2)
        try:
            for number in range(ROUNDS):
                time.sleep(rng.uniform(0.3, 1.0))  # the moment of the crash is what is random here
                broker = cluster.brokers[number % 2]
                broker.kill()
                broker.start()
                wait_until(load.made(50), "producers go on")
            report = load.finish("brokers killed in turn", ROUNDS)
        finally:
            load.stop()
        assert report.is_clean, report
        assert len(load.promises.confirmed) > 300
        for subscriber in load.subscribers:  # their gateways lived: they saw all of it
            assert subscriber.connections == 1
            assert load.promises.confirmed - subscriber.received.keys() == set()
        assert not any(gateway.log_text().count("Traceback") for gateway in cluster.gateways)


@pytest.mark.failure(
    "A broker is away",
    group="A broker without replicas",
    does=(
        "Other brokers take new messages. Messages with an order of its queues are refused, HTTP 503. Its messages "
        "wait on its disk."
    ),
    lost="nothing confirmed",
    told="refusals name the broker; alarm: the broker is away",
)
def test_a_broker_that_is_away_takes_its_queues_with_it_and_not_the_topic(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, PATIENT) as cluster, door(cluster.gateways[0]) as client:
        assert client.put("/api/v1/topics/t", json={"queues": 4}).status_code == 201
        wait_until(lambda: len(offsets_of(client, "t")) == 8, "both brokers have it")
        queues = sorted(offsets_of(client, "t"))
        keys = [f"device{n}" for n in range(50)]
        there, away = ([k for k in keys if broker_of_queue(queue_for_key(k, queues)) == n] for n in range(2))
        with RawClient(cluster.port("mqtt")) as mqtt:
            mqtt.connect("device")
            for key in (there[0], away[0]):
                assert mqtt.publish(f"t/{key}", b"{}").reason == 0
            cluster.brokers[1].kill()
            numbers = iter(range(10_000))

            def publish(**attributes: str) -> int:
                started = time.monotonic()
                name = f"e{next(numbers)}"
                answer = client.post("/topics/t:publish", json={}, headers=event_headers(name, **attributes))
                assert time.monotonic() - started < QUICKLY
                if answer.status_code != 200:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert "broker-1" in answer.json()["detail"]
                return int(answer.status_code)

            assert [publish() for _ in range(20)] == [200] * 20
            assert [publish(partitionkey=key) for key in there] == [200] * len(there)
            assert {publish(partitionkey=key) for key in away} == {503}
            started = time.monotonic()
            mqtt.say(*(Publish(f"t/{key}", body_of(key), 1, at + 1) for at, key in enumerate((there[0], away[0]))))
            answers = {answer.packet_id: answer.reason for answer in (mqtt.expect(Puback), mqtt.expect(Puback))}
            assert answers[1] == 0 and answers[2] >= 0x80
            assert time.monotonic() - started < QUICKLY
            assert set(offsets_of(client, "t")) == set(range(4))
            cluster.brokers[1].start()
            wait_until(lambda: publish(partitionkey=away[0]) == 200, "its queues are back")
            assert mqtt.publish(f"t/{away[0]}", b"{}", 3).reason == 0
            tell("a broker that is away", messages=next(numbers), faults=1)
