"""Who comes to a cluster: gateways see what others take, workers share a port, brokers get everything or a refusal."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import httpx2
import paho.mqtt.client as paho
import psutil  # type: ignore[import-untyped]
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from entrepot.domain.broker_of_queue import broker_of_queue
from tests.support.doors.load import TOPIC, Load, door, event_headers, offsets_of
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import BrokerProcess, ClusterProcesses, GatewayProcess
from tests.support.processes.server import connections_at
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")
WORKERS = 2
CONNECTIONS = 24


def test_what_one_gateway_takes_subscribers_of_all_are_given(shared: ClusterProcesses) -> None:
    with ExitStack() as stack:
        subscribers = []
        for number, gateway in enumerate(shared.gateways * 2):
            client = stack.enter_context(RawClient(gateway.port("mqtt"), 4 + number % 2))
            client.connect(f"subscriber{number}")
            client.subscribe("fan/#")
            subscribers.append(client)
        sent = set()
        for number, gateway in enumerate(shared.gateways):
            with RawClient(gateway.port("mqtt")) as publisher, door(gateway) as http:
                publisher.connect(f"publisher{number}")
                for device in range(10):
                    publisher.publish(f"fan/device{device}", f"m{number}{device}".encode())
                    sent.add((f"fan/device{device}", f"m{number}{device}".encode()))
                headers = event_headers(f"e{number}", subject="http")
                body = json.dumps(number).encode()
                headers["content-type"] = "application/json"
                assert http.post("/topics/fan:publish", content=body, headers=headers).status_code == 200
                sent.add(("fan/http", body))
        for subscriber in subscribers:
            found = [(each.topic, each.payload) for each in subscriber.expect_deliveries(len(sent))]
            assert sorted(found) == sorted(sent)
            assert subscriber.deliveries == []


@pytest.mark.failure(
    "A worker of a gateway dies",
    group="Gateways and clients",
    does="The parent starts another, which takes its share of new connections. The other workers go on.",
    lost="nothing",
)
def test_workers_share_the_ports_and_one_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, {"cluster.workers": str(WORKERS)}, brokers=1) as cluster, ExitStack() as stack:
        gateway = cluster.gateways[0]
        clients = [stack.enter_context(RawClient(gateway.port("mqtt"))) for _ in range(CONNECTIONS)]
        for number, client in enumerate(clients):
            client.connect(f"client{number}")
            client.subscribe("both/#")
        served = {pid: connections_at(pid, gateway.port("mqtt")) for pid in _workers(gateway)}
        assert len(served) == WORKERS and all(served.values()) and sum(served.values()) == CONNECTIONS
        clients[0].publish("both/x", b"to all")
        assert {client.expect_deliveries(1)[0].payload for client in clients} == {b"to all"}

        victim = min(served)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(_workers(gateway) - {victim}) == WORKERS, "another is started")
        (fresh,) = _workers(gateway) - served.keys()
        again: list[paho.Client] = []

        def serves() -> bool:
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.connect("127.0.0.1", gateway.port("mqtt"))
            client.loop_start()
            again.append(client)
            return connections_at(fresh, gateway.port("mqtt")) > 0

        wait_until(serves, "it takes its share")
        for fleeting in again:
            fleeting.disconnect()
            fleeting.loop_stop()
        assert cluster.stop() == 0
        assert "Traceback" not in cluster.log_text()


def _workers(gateway: GatewayProcess) -> set[int]:
    return {child.pid for child in psutil.Process(gateway.pid).children() if _is_alive(child)}


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_broker_that_joins_under_load_has_everything_and_takes_its_share(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, name_servers=2, gateways=2) as cluster:
        load = Load(cluster.gateways)
        with door(cluster.gateways[0]) as client:
            topics = [TOPIC, *(f"topic{number}" for number in range(20))]
            client.put("/api/v1/topics", json={"value": [{"name": name} for name in topics]})
        load.begin(subscribers=2)
        try:
            wait_until(load.made(50), "it goes")
            cluster.add_broker().start()
            for gateway in cluster.gateways:
                with door(gateway) as client:
                    for name in topics:
                        wait_until(lambda client=client, name=name: _offsets_at(client, name, 2), f"it has {name}")
                    wait_until(lambda client=client: sum(_offsets_at(client, TOPIC, 2)) > 20, "it takes messages")
            wait_until(load.made(50), "it goes on")
            report = load.finish("a broker joins under load", 1)
        finally:
            load.stop()
        assert report.is_clean, report
        assert load.promises.failures == []
        for subscriber in load.subscribers:
            assert load.promises.confirmed - subscriber.received.keys() == set()


def _offsets_at(client: httpx2.Client, topic: str, number: int) -> list[int]:
    """How many messages each queue of a broker has been given."""
    return [offset for queue, offset in offsets_of(client, topic).items() if broker_of_queue(queue) == number]


@pytest.mark.failure(
    "A broker starts with a name, number or directory of another one",
    group="Operators' mistakes and maintenance",
    does="It ends with 1. The other one goes on.",
    lost="nothing",
    told="its log: who has it already",
)
def test_a_broker_that_may_not_join_says_why_and_ends(shared: ClusterProcesses, tmp_path: Path) -> None:
    def refusal(name: str, data_dir: Path | None = None) -> str:
        broker = BrokerProcess(tmp_path, shared.name_servers, {}, name)
        broker.data_dir = data_dir or broker.data_dir
        broker.begin()
        assert broker.wait() == 1
        return broker.log_text()

    assert "broker 'broker-1' has number 1 already" in refusal("other-1")
    one = shared.brokers[1]
    assert f"in use by process {one.pid}" in refusal("broker-2", one.data_dir)
    assert "broker 'broker-1' is at" in refusal("broker-1", tmp_path / "new")
    one.stop()
    assert "has the data of broker 'broker-1' with number 1" in refusal("broker-3", one.data_dir)
