"""Everything of a deployment is restarted under load, part by part: nothing is lost, and no publish is refused."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from deploy.plan import Part, Plan
from deploy.rolling import Roll
from tests.support.doors.load import TOPIC, Load, door, event_headers
from tests.support.processes.replicated_processes import ReplicaBrokerProcess, ReplicatedProcesses
from tests.support.processes.server import Process
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]


REFUSAL = re.compile(r"(http|mqtt)\d+-\d+: (\d|<)")
"""A publish that was answered, and not confirmed."""


class Insisting:
    """A client that sends each message until it is confirmed, at the next gateway where one does not take it."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._is_stopped = threading.Event()
        self.refused: list[str] = []
        """Messages that nobody took in all the time that such a client may be asked to wait."""
        self._thread = threading.Thread(target=self._publish, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        self._thread.join(2 * PATIENCE_SECONDS)

    def _publish(self) -> None:
        count = at = 0
        while not self._is_stopped.is_set():
            name, count, begun = f"insisting-{count}", count + 1, time.monotonic()
            while not self._is_taken(name, self._load.gateways[at % len(self._load.gateways)]):
                at += 1
                if time.monotonic() - begun > PATIENCE_SECONDS:
                    self.refused.append(name)
                    break

    def _is_taken(self, name: str, gateway: Process) -> bool:
        headers = event_headers(name)
        try:
            with door(gateway) as client:
                answer = client.post(f"/topics/{TOPIC}-insisting:publish", json={"id": name}, headers=headers)
        except httpx2.HTTPError:
            return False
        return bool(answer.status_code == 200)


def plan_of(cluster: ReplicatedProcesses) -> tuple[Plan, dict[str, Process]]:
    """As an operator writes it; and the processes by their addresses."""
    parts: list[Part] = []
    processes: dict[str, Process] = {}

    def add(process: Process, part: Part) -> None:
        parts.append(part)
        processes[part.address] = process

    for server in cluster.name_servers:
        is_controller = "controller.id" in server.settings
        address = server.address("nameserver")
        add(server, Part(role="nameserver", address=address, controller=is_controller))
    for controller in cluster.controllers:
        add(controller, Part(role="controller", address=controller.address("controller")))
    for broker in cluster.brokers:
        assert isinstance(broker, ReplicaBrokerProcess)
        address = broker.own_address
        add(broker, Part(role="broker", address=address, broker=broker.broker_name, replica=broker.replica))
    for gateway in cluster.gateways:
        add(gateway, Part(role="gateway", address=f"http://{gateway.address('http')}"))
    return Plan(part=parts), processes


def restarting(processes: dict[str, Process]) -> Callable[[Part], None]:
    def restart(part: Part) -> None:
        process = processes[part.address]
        assert process.stop() == 0, process.log_text()
        process.start()

    return restart


@pytest.mark.failure(
    "Everything is restarted, part by part",
    group="Operators' mistakes and maintenance",
    does="No publish is refused.",
    lost="nothing",
)
@pytest.mark.parametrize(
    ("rule", "controllers"),
    [("in-sync", 3), ("2-3", 0)],
    ids=["in-sync, controllers", "2-3, by hand"],
)
def test_all_is_restarted_under_load(tmp_path: Path, rule: str, controllers: int) -> None:
    with ReplicatedProcesses(tmp_path, rule, replicas=3, gateways=2, controllers=controllers) as cluster:
        cluster.wait_in_sync(3)
        plan, processes = plan_of(cluster)
        pids = {address: process.pid for address, process in processes.items()}
        load = Load(cluster.gateways)
        load.begin(http=1, mqtt=1, consumers=2)
        insisting = Insisting(load)
        insisting.start()
        try:
            master = cluster.master()
            roll = Roll(plan, restarting(processes), print, patience=2 * PATIENCE_SECONDS)
            roll.run()
            insisting.stop()
            report = load.finish(f"rolling restart, {rule}", len(plan.part))
        finally:
            insisting.stop()
            load.stop()
        assert report.is_clean, report
        assert insisting.refused == []
        refused = [each for each in load.promises.failures if REFUSAL.match(each)]
        assert refused == [], "a gateway that stops ends connections, and answers none with a refusal"
        assert all(process.pid != pids[address] for address, process in processes.items())
        roles = [part.role for part in roll.restarted]
        assert roles == sorted(roles, key=["nameserver", "controller", "broker", "gateway"].index)
        assert [part.replica for part in roll.restarted if part.role == "broker"][-1] == master
        assert cluster.master() not in (0, master)
