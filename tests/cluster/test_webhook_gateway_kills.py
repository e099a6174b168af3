"""Contract rows 8 and 11 of webhooks: a gateway that is killed while it delivers loses nothing, and what cannot be
delivered is a dead letter exactly once, whoever was killed meanwhile."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.support.deployment import ClusterProcesses
from tests.support.load import door
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import WebhookReceiver

SETTINGS = {
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
    "webhooks.circuit_failures": "1000000",
}
BATCH = {"content-type": "application/cloudevents-batch+json"}
KILLS = 4
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


@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(180)
def test_gateways_are_killed_while_they_deliver(tmp_path: Path) -> None:
    receiver = WebhookReceiver()
    receiver.behave("refusing", then={"status": 500})
    try:
        with (
            ClusterProcesses(tmp_path, SETTINGS, gateways=2) as cluster,
            door(cluster.gateways[0]) as one,
            door(cluster.gateways[1]) as two,
        ):
            subscribe(one, receiver.hook("taking"))
            refused = subscribe(two, receiver.hook("refusing"), maxattempts=3)
            confirmed: set[str] = set()
            number = 0
            for kill in range(KILLS):
                end = time.monotonic() + EVERY_SECONDS
                while time.monotonic() < end:
                    confirmed |= publish([one, two], number, 10)
                    number += 10
                    time.sleep(0.05)  # a load, not as fast as it goes
                gateway = cluster.gateways[kill % 2]
                gateway.kill()
                confirmed |= publish([one, two], number, 10)
                number += 10
                gateway.start()
            wait_until(lambda: confirmed <= set(receiver.bodies("taking")), "all is delivered", 90)
            counts = Counter(receiver.bodies("taking"))
            assert set(counts) <= {f"e{n}" for n in range(number)}
            dead: list[str] = []

            def all_are_dead_letters() -> bool:
                dead.clear()
                dead.extend(dead_letters(one, refused))
                return confirmed <= set(dead)

            wait_until(all_are_dead_letters, lambda: f"{len(dead)} of {len(confirmed)} dead letters", 90)
            # twice only what a dispatcher had not acknowledged when it was killed; and then the other sink has it twice
            twice = {name: times for name, times in Counter(dead).items() if times > 1}
            assert all(counts[name] >= times for name, times in twice.items()), twice
            assert len(twice) <= 100 * KILLS, "more than dispatchers may have done twice"
            print(f"{len(confirmed)} confirmed, {sum(counts.values())} delivered, {len(twice)} dispatched twice")
    finally:
        receiver.stop()


def dead_letters(client: httpx2.Client, subscription: str) -> list[str]:
    """The ids of the events."""
    text = client.get(f"/api/v1/groups/webhook~{subscription}/dead-letters:export").text
    return [json.loads(line)["keys"][0] for line in text.splitlines()]
