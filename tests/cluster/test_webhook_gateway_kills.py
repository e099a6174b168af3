"""Contract rows 8 and 11 of webhooks: a gateway that is killed while it delivers loses nothing, and what cannot be
delivered is a dead letter exactly once, whoever was killed meanwhile."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.cluster.conftest import WEBHOOKS
from tests.support.doors.load import door
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.processes.deployment import ClusterProcesses
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

BATCH = {"content-type": "application/cloudevents-batch+json"}
KILLS = 4
LIMITS = (1, 3, 20)
"""Attempts after which an event is a dead letter."""
EVERY_SECONDS = 2.0


def subscribe(client: httpx2.Client, sink: str, **config: object) -> str:
    settings = {"handshake": "off", "timeoutseconds": 2, "initialbackoffseconds": 0.1, "maxbackoffseconds": 0.5}
    body = {"source": "jobs", "sink": sink, "protocol": "HTTP", "config": {**settings, **config}}
    answer = client.post("/subscriptions", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def publish(clients: list[httpx2.Client], first: int, count: int) -> set[str]:
    """Events of these numbers by whichever gateway answers; returns those confirmed."""
    common = {"specversion": "1.0", "source": "/t", "type": "t", "datacontenttype": "text/plain"}
    events = [{**common, "id": f"e{n}", "data": f"e{n}"} for n in range(first, first + count)]
    for client in clients:
        try:
            if client.post("/topics/jobs:publish", content=json.dumps(events), headers=BATCH).status_code == 200:
                return {f"e{n}" for n in range(first, first + count)}
        except httpx2.HTTPError:
            continue
    return set()


@pytest.mark.failure_also("A gateway dies")
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(600)
def test_gateways_are_killed_while_they_deliver(tmp_path: Path) -> None:
    receiver = WebhookReceiver()
    receiver.behave("refusing", then={"status": 500})
    try:
        with (
            ClusterProcesses(tmp_path, WEBHOOKS, gateways=2) as cluster,
            door(cluster.gateways[0]) as one,
            door(cluster.gateways[1]) as two,
        ):
            subscribe(one, receiver.hook("taking"))
            refused = {most: subscribe(two, receiver.hook("refusing"), maxattempts=most) for most in LIMITS}
            confirmed: set[str] = set()
            number = 0
            for kill in range(KILLS):
                end = time.monotonic() + EVERY_SECONDS
                while time.monotonic() < end:
                    confirmed |= publish([one, two], number, 5)
                    number += 5
                    time.sleep(0.1)  # a load, not as fast as it goes
                gateway = cluster.gateways[kill % 2]
                gateway.kill()
                confirmed |= publish([one, two], number, 10)
                number += 10
                gateway.start()
            wait_until(lambda: confirmed <= set(receiver.bodies("taking")), "all is delivered", 3 * PATIENCE_SECONDS)
            dead = {most: await_dead_letters(one, subscription, confirmed) for most, subscription in refused.items()}
            counts = Counter(receiver.bodies("taking"))
            tell(
                "webhooks while gateways are killed",
                rounds=KILLS,
                messages=len(confirmed),
                lost=len(confirmed - counts.keys()),
                phantom=len(counts.keys() - {f"e{n}" for n in range(number)}),
                duplicated=sum(counts.values()) - len(counts),
                faults=KILLS,
            )
            assert set(counts) <= {f"e{n}" for n in range(number)}
            # twice only what a dispatcher had not acknowledged when it was killed; and then all sinks have it twice
            times = {most: Counter(name for name, _ in letters) for most, letters in dead.items()}
            twice = {name for some in times.values() for name, found in some.items() if found > 1}
            assert all(counts[name] >= some[name] for some in times.values() for name in twice), twice
            assert len(twice) <= 100 * KILLS, "more than dispatchers may have done twice"
            attempts = {most: {made for _, made in letters} for most, letters in dead.items()}
            assert attempts == {most: {most} for most in LIMITS}
            print(f"{len(confirmed)} confirmed, {sum(counts.values())} delivered, {len(twice)} dispatched twice")
    finally:
        receiver.stop()


@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(600)
def test_a_retry_after_counts_for_every_gateway_and_for_those_that_come_later(tmp_path: Path) -> None:
    seconds = 4
    receiver = WebhookReceiver()
    receiver.behave("busy", steps=[{"status": 503, "headers": {"retry-after": str(seconds)}}])
    try:
        with (
            ClusterProcesses(tmp_path, WEBHOOKS, gateways=2) as cluster,
            door(cluster.gateways[0]) as one,
            door(cluster.gateways[1]) as two,
        ):
            subscribe(one, receiver.hook("busy"), maxattempts=2, timeoutseconds=30)
            assert publish([one], 0, 1)
            [refused] = receiver.wait("busy", 1)
            for number in range(1, 21):
                assert publish([one if number % 2 else two], number, 1)
            cluster.gateways[0].kill()
            cluster.gateways[0].start()
            wait_until(lambda: len(receiver.bodies("busy")) == 22, "the rest comes later", 2 * PATIENCE_SECONDS)
            again = receiver.seen("busy")[1]
            assert again["at"] - refused["at"] > seconds - 0.1
            counts = Counter(receiver.bodies("busy"))
            tell("a webhook's Retry-After, kept by all gateways", messages=len(counts), faults=1)
            assert counts == {"e0": 2, **{f"e{n}": 1 for n in range(1, 21)}}
    finally:
        receiver.stop()


def dead_letters(client: httpx2.Client, subscription: str) -> list[tuple[str, int]]:
    """The ids of the events, and how often each was tried."""
    text = client.get(f"/api/v1/groups/webhook~{subscription}/dead-letters:export").text
    letters = [json.loads(line) for line in text.splitlines()]
    return [(letter["keys"][0], letter["attempts"]) for letter in letters]


def await_dead_letters(client: httpx2.Client, subscription: str, confirmed: set[str]) -> list[tuple[str, int]]:
    """Until all that is confirmed is among them."""
    found: list[tuple[str, int]] = []

    def all_are_there() -> bool:
        found[:] = dead_letters(client, subscription)
        return confirmed <= {name for name, _ in found}

    wait_until(all_are_there, lambda: f"{len(found)} of {len(confirmed)} dead letters", 3 * PATIENCE_SECONDS)
    return found
