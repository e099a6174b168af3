"""Wills and sessions of clients whose gateway is gone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.session_client import SessionClient, publish_from
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import ServerProcess
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS

SWEEP_SECONDS = PATIENCE_SECONDS
"""8 s until a gateway counts as dead, the round of whoever sweeps, and some for a slow machine."""
STATED_SECONDS = 10
"""From the death of a gateway to its clients' wills (docs/mqtt.md)."""


def leave(port: int, client_id: str, *, delay: int = 0, expiry: int = 600, qos: int = 1) -> SessionClient:
    """A connected client with a will named like it."""
    client = SessionClient(port, client_id)
    properties = {PropertyId.WILL_DELAY_INTERVAL: delay} if delay else {}
    client.open(expiry=expiry, will=Will("wills/n", client_id.encode(), qos, False, properties))
    return client


@pytest.mark.failure_also("A gateway dies with hundreds of MQTT clients that have wills")
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
def test_a_gateway_that_was_killed(tmp_path: Path) -> None:
    """Every client of it: lasting or not, back at another gateway in time, or with a delay that others wait for."""
    with ClusterProcesses(tmp_path, brokers=1, gateways=2) as cluster:
        dead, other = cluster.gateways
        port = other.port("mqtt")
        with SessionClient(port, "watcher") as watcher:
            watcher.open()
            watcher.subscribe_to(Subscription("wills/#", 2))
            clients = [
                leave(dead.port("mqtt"), "lasting"),
                leave(dead.port("mqtt"), "fleeting", expiry=0, qos=2),
                leave(dead.port("mqtt"), "delayed", delay=1),
                leave(dead.port("mqtt"), "resumed", delay=60),
                leave(dead.port("mqtt"), "not resumed", delay=60),
            ]
            dead.kill()
            with SessionClient(port, "resumed") as resumed, SessionClient(port, "not resumed") as anew:
                assert resumed.open().session_present
                assert not anew.open(clean=True).session_present
                assert watcher.take(1) == [b"not resumed"]
                assert sorted(watcher.take(3, SWEEP_SECONDS)) == [b"delayed", b"fleeting", b"lasting"]
                publish_from(port, "wills/n", [b"end"])
                assert watcher.take(1) == [b"end"]
            with SessionClient(port, "lasting") as lasting, SessionClient(port, "fleeting") as fleeting:
                assert lasting.open().session_present
                assert not fleeting.open().session_present
        for client in clients:
            client.socket.close()
        tell("wills of clients whose gateway died", messages=5, faults=1)


@pytest.mark.failure(
    "A gateway dies with hundreds of MQTT clients that have wills",
    group="Gateways and clients",
    does="Another gateway publishes all their wills, each once, within 10 s.",
    lost="nothing",
)
@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
def test_the_many_clients_of_a_gateway_that_was_killed(tmp_path: Path) -> None:
    """All their wills are out within the time that the documentation states, each once."""
    count = 600
    with ClusterProcesses(tmp_path, brokers=1, gateways=2) as cluster:
        dead, other = cluster.gateways
        with SessionClient(other.port("mqtt"), "watcher") as watcher:
            watcher.open()
            watcher.subscribe_to(Subscription("wills/#", 1))
            clients = [leave(dead.port("mqtt"), f"c{number}", expiry=number % 2 * 600) for number in range(count)]
            dead.kill()
            killed = time.monotonic()
            found = watcher.take(count, SWEEP_SECONDS)
            took = time.monotonic() - killed
            publish_from(other.port("mqtt"), "wills/n", [b"end"])
            assert watcher.take(1) == [b"end"]
        for client in clients:
            client.socket.close()
    assert sorted(found) == sorted(b"c%d" % number for number in range(count))
    assert took < STATED_SECONDS
    tell("wills of many clients whose gateway died", messages=count, faults=1)


@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_a_server_that_was_ended(tmp_path: Path, how: str) -> None:
    """The next one publishes what the one before could not, to sessions that were there before."""
    with ServerProcess(tmp_path) as server:
        port = server.port("mqtt")
        with SessionClient(port, "watcher") as watcher:
            watcher.open()
            watcher.subscribe_to(Subscription("wills/#", 2))
        clients = [leave(port, "lasting"), leave(port, "fleeting", expiry=0), leave(port, "delayed", delay=1)]
        if how == "SIGTERM":
            assert server.stop() == 0
        else:
            server.kill()
        for client in clients:
            client.socket.close()
        server.restart()
        with SessionClient(server.port("mqtt"), "watcher") as watcher:
            assert watcher.open().session_present
            assert sorted(watcher.take(3)) == [b"delayed", b"fleeting", b"lasting"]
            publish_from(server.port("mqtt"), "wills/n", [b"end"])
            assert watcher.take(1) == [b"end"]
