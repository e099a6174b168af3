"""From any door to any door, generated: one odd message among plain ones takes nothing from anybody.

Every reader gets the plain messages, in order.  The odd one is refused where it comes in, or reaches each reader, or
its absence there is told by the incidents' metric.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.doors.every_reader import Absent, Readers, readers
from tests.support.doors.odd_publishes import ODD, SENDERS, TOPIC, OddPublish
from tests.support.gateways.bridges import await_state, bridge_settings, remote
from tests.support.http.pull import http_json
from tests.support.processes.deployment import ClusterProcesses, Deployment
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.in_front import AT_ROCKETMQ, ROCKETMQ, deployment_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import soak_only

PLAIN = 20
"""Plain messages before the odd one, and after it."""
SETTINGS = {
    "amqp.enabled": "true",
    "grpc.enabled": "true",
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
}
_runs = count()


class Site:
    """A server with a reader at every door, and a sender of each."""

    def __init__(self, server: Deployment, there: Readers) -> None:
        self.server, self.readers = server, there
        self.absent = Absent(server, TOPIC)
        self.senders = {door: SENDERS[door](server, door.replace(" ", "")) for door in SENDERS}

    def incidents(self) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port('http')}/metrics") as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(r"^entrepot_incidents_total\{.*\} (.+)$", text, re.M))

    def close(self) -> None:
        for sender in self.senders.values():
            sender.close()


@pytest.fixture(scope="module", params=["one process", soak_only("separate", name="separate"), AT_ROCKETMQ])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory, far = tmp_path_factory.mktemp("any"), tmp_path_factory.mktemp("far")
    with ServerProcess(far) as other:
        carried = {"direction": "out", "filter": f"{TOPIC}/#", "qos": 1, "start": "earliest"}
        bridging = bridge_settings(remote(f"mqtt://127.0.0.1:{other.port('mqtt')}", carried))
        wanted = {**SETTINGS, **bridging}
        with _deployed(request, directory, wanted) as server:
            placement = {"placement": {"broker-0": 1}} if request.param == ROCKETMQ else {}  # there are two of them
            http_json(server, "PUT", f"/api/v1/topics/{TOPIC}", {"queues": 1, **placement})
            with readers(server, TOPIC) as there:
                there.bridged(other)
                await_state(server, "connected")
                made = Site(server, there)
                yield made
                made.close()


def _deployed(request: pytest.FixtureRequest, directory: Path, settings: dict[str, str]) -> Deployment:
    if request.param == "one process":
        return ServerProcess(directory, settings)
    if request.param == "separate":
        return ClusterProcesses(directory, settings, brokers=1)
    return deployment_of(request)(directory, settings)


def carry(site: Site, publish: OddPublish) -> None:
    """Send an odd message among plain ones, and look at what came where."""
    run = f"run{next(_runs)}"
    sender, before = site.senders[publish.door], site.incidents()
    plain = [str(number) for number in range(2 * PLAIN)]
    for number in plain[:PLAIN]:
        sender.plain(f"{run}:{number}".encode())
    refusal = sender.odd(publish, f"{run}:odd".encode())
    for number in plain[PLAIN:]:
        sender.plain(f"{run}:{number}".encode())
    last = f"{run}:{plain[-1]}".encode()
    absent = site.absent.read(lambda bodies: last in bodies)
    mark = f"{run}:".encode()
    came = {"absent": [body.decode().partition(":")[2] for body in absent if body.startswith(mark)]}
    for reader in site.readers.all:
        wait_until(
            lambda reader=reader: set(plain) <= set(reader.of(run)),
            lambda reader=reader: f"{reader.name}: {reader.of(run)}",
        )
        came[reader.name] = reader.of(run)
    unordered = {reader.name for reader in site.readers.all if not reader.in_order}
    for name, bodies in came.items():
        found = [body for body in bodies if body != "odd"]
        assert (sorted(found, key=int) if name in unordered else found) == plain, name
    if refusal is not None:
        assert all("odd" not in bodies for bodies in came.values()), refusal
        return
    lacking = {name for name, bodies in came.items() if "odd" not in bodies}
    if lacking:
        wait_until(
            lambda: site.incidents() > before,
            lambda: f"nothing tells that {lacking} lack the message",
            PATIENCE_SECONDS,
        )


@pytest.mark.parametrize("door", ODD)
def test_a_few_odd_messages_of_each_door(site: Site, door: str) -> None:
    found: list[OddPublish] = []

    @settings(
        max_examples=3, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(ODD[door])
    def carried(publish: OddPublish) -> None:
        found.append(publish)
        carry(site, publish)

    carried()
    assert found


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("door", ODD)
def test_hundreds_of_odd_messages_of_each_door(site: Site, door: str) -> None:
    @settings(
        max_examples=500, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(ODD[door])
    def carried(publish: OddPublish) -> None:
        carry(site, publish)

    carried()
