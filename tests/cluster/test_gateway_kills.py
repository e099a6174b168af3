"""Contract row 8: gateways keep nothing, so one that is killed costs nobody more than a connection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors.load import Load, door, event_headers
from tests.support.http.pull import batches
from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")
KILLS = 3
EVERY_SECONDS = 2.0


@pytest.mark.failure(
    "A gateway dies",
    group="Gateways and clients",
    does=(
        "Its clients connect to another one and go on; put a load balancer in front. Messages that they "
        "had not acknowledged come again."
    ),
    lost="nothing confirmed",
    told="alarm: the gateway does not answer",
)
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_gateway_is_killed_every_two_seconds_while_consuming(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, name_servers=2, gateways=2) as cluster:
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=1, consumers=4, subscribers=2)
        try:
            for number in range(KILLS):
                due = time.monotonic() + EVERY_SECONDS
                wait_until(lambda due=due: time.monotonic() >= due, "it is time")
                gateway = cluster.gateways[number % 2]
                before = [(each.connections, len(each.received)) for each in load.subscribers]
                gateway.kill()
                wait_until(
                    lambda before=before: any(
                        each.connections > connections and len(each.received) > received
                        for each, (connections, received) in zip(load.subscribers, before, strict=True)
                    ),
                    "its subscriber goes on at the other",
                )
                gateway.start()
            report = load.finish("a gateway killed every two seconds", KILLS)
        finally:
            load.stop()
        assert report.is_clean, report
        assert len(load.promises.confirmed) > 300
        assert load.promises.confirmed <= load.promises.ids.keys()


@pytest.mark.failure_also("A gateway dies")
def test_what_was_received_at_a_gateway_that_died_is_settled_at_another(shared: ClusterProcesses) -> None:
    path = "/topics/jobs/eventsubscriptions/workers"
    with door(shared.gateways[1]) as other:
        with door(shared.gateways[0]) as client:
            for number in range(20):
                headers = event_headers(f"e{number}")
                assert client.post("/topics/jobs:publish", json={}, headers=headers).status_code == 200
            held: list[dict[str, Any]] = []
            while len(held) < 10:
                held += client.post(f"{path}:receive?maxEvents={10 - len(held)}&maxWaitTime=0").json()["value"]
        shared.gateways[0].kill()
        tokens = [one["brokerProperties"]["lockToken"] for one in held]
        answer = other.post(f"{path}:acknowledge", json={"lockTokens": tokens})
        assert answer.status_code == 200 and len(answer.json()["succeededLockTokens"]) == 10
        rest: list[dict[str, Any]] = []
        for found in batches(lambda: other.post(f"{path}:receive?maxEvents=100&maxWaitTime=0").json()["value"]):
            rest += found
        assert {one["brokerProperties"]["deliveryCount"] for one in rest} == {1}
        ids = [sorted(one["event"]["id"] for one in part) for part in (held, rest)]
        assert sorted(ids[0] + ids[1]) == sorted(f"e{number}" for number in range(20))
