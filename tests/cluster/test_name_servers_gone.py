"""Name servers only introduce: while all of them are gone nothing fails, and gateways start all the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from entrepot.domain.broker_of_queue import broker_of_queue, first_queue
from tests.support.doors.load import TOPIC, Load, door, event_headers, offsets_of
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess, start_all
from tests.support.waiting import wait_until

GONE_SECONDS = float(os.environ.get("ENTREPOT_TEST_NAME_SERVERS_GONE_SECONDS", "10"))


def works(gateway: GatewayProcess) -> bool:
    """Whether what is published there is received there, in a group of its own."""
    with door(gateway) as client:
        headers = event_headers(f"from-{gateway.name}")
        assert client.post("/topics/other:publish", json={}, headers=headers).status_code == 200
        path = f"/topics/other/eventsubscriptions/{gateway.name}:receive?maxWaitTime=5"
        return bool(client.post(path).json()["value"])


@pytest.mark.failure(
    "Name servers die or are out of reach, one or all",
    group="Controllers and name servers",
    does=(
        "Gateways and brokers go on. Gateways start by `cluster.route_cache` or `cluster.brokers`. New brokers are "
        "found when one is back."
    ),
    lost="nothing",
    told="alarm: the name server is away",
)
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(300 + 2 * GONE_SECONDS)
def test_all_name_servers_are_gone_for_long_under_load(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, name_servers=2) as cluster:
        cache = tmp_path / "routes.json"
        cached = cluster.add_gateway(**{"cluster.route_cache": str(cache)})
        cached.start()
        wait_until(lambda: cache.exists() and "broker-1" in cache.read_text(), "the routes are remembered")
        static = GatewayProcess(tmp_path, [], {}, "gateway-static", cluster.brokers)
        load = Load(cluster.gateways[:1])
        load.begin(subscribers=1)
        try:
            wait_until(load.made(20), "it goes")
            for name_server in cluster.name_servers:
                name_server.kill()
            due = time.monotonic() + GONE_SECONDS
            cached.kill()
            start_all([cached, static])
            assert works(cached) and works(static)
            cluster.brokers[1].kill()  # it comes back to the same place, and is found there
            wait_until(load.made(20), "the other goes on")
            cluster.brokers[1].start()
            with door(cluster.gateways[0]) as client:
                wait_until(lambda: first_queue(1) in offsets_of(client, TOPIC), "it is found")
            failures = len(load.promises.failures)
            wait_until(lambda: time.monotonic() >= due, "so long", GONE_SECONDS + 1)
            assert load.promises.failures[failures:] == []
            start_all(cluster.name_servers)
            cluster.add_broker().start()
            for gateway in cluster.gateways:
                wait_until(lambda gateway=gateway: _has_queues_of(gateway, 2), "it is heard of who is new")
            report = load.finish("all name servers gone", 4)
        finally:
            load.stop()
            static.kill()
        assert report.is_clean, report
        (subscriber,) = load.subscribers
        assert load.promises.confirmed - subscriber.received.keys() == set()
        assert subscriber.connections == 1


def _has_queues_of(gateway: GatewayProcess, number: int) -> bool:
    with door(gateway) as client:
        return any(broker_of_queue(queue) == number for queue in offsets_of(client, TOPIC))
