"""The drill of docs/data-centre-loss.md: the main site is gone with all its disks, and the observer of the group, in
another one, becomes a broker of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.doors.load import door, event_headers
from tests.support.processes.deployment import BrokerProcess, GatewayProcess, NameServerProcess, start_all
from tests.support.processes.replicated_processes import ReplicaBrokerProcess, ReplicatedProcesses
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]

OBSERVER = 4
GROUP = "/topics/t/eventsubscriptions/workers"


class TwoSites(ReplicatedProcesses):
    """Three replicas, a name server and a gateway in the main site; an observer and one of each in the far one."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "2-3", replicas=OBSERVER, gateways=2)
        self.name_servers.append(NameServerProcess(directory, None, "nameserver-far"))
        named = json.loads(self.brokers[0].settings["broker.replicas"])
        for broker in self.brokers:
            broker.settings |= {"broker.replicas": json.dumps(named[:-1]), "broker.observers": json.dumps(named[-1:])}
            broker.settings["broker.zone"] = "main"
        self.observer.settings["broker.zone"] = self.gateways[1].settings["cluster.zone"] = "far"

    @property
    def observer(self) -> BrokerProcess:
        return self.replica(OBSERVER)

    @property
    def main_site(self) -> list[Any]:
        return [self.name_servers[0], *self.brokers[:3], self.gateways[0]]

    def observed(self) -> dict[str, Any]:
        """The observer as operators see it, at the gateway beside it."""
        [broker] = _brokers(self.gateways[1])
        return next(dict(each) for each in broker["replicas"] if each["isObserver"])


def publish(gateway: GatewayProcess, *names: str) -> None:
    with door(gateway) as client:
        for name in names:
            answer = client.post("/topics/t:publish", json={"id": name}, headers=event_headers(name))
            assert answer.status_code == 200, answer.text


def take(gateway: GatewayProcess, count: int) -> list[str]:
    """Receive so many and acknowledge them."""
    found: list[str] = []

    def all_are_taken() -> bool:
        answer = client.post(f"{GROUP}:receive?maxEvents={count - len(found)}&maxWaitTime=1")
        held = {each["brokerProperties"]["lockToken"]: each["event"]["data"]["id"] for each in answer.json()["value"]}
        if held:
            settled = client.post(f"{GROUP}:acknowledge", json={"lockTokens": list(held)})
            assert len(settled.json()["succeededLockTokens"]) == len(held), settled.text
        found.extend(held.values())
        return len(found) >= count

    with door(gateway) as client:
        wait_until(all_are_taken, lambda: f"of {count} there are {found}")
    return found


def promote(sites: TwoSites) -> BrokerProcess:
    """As the page has it: it leaves the group that is gone, and goes on as a broker without replicas."""
    (sites.observer.data_dir / "replica.json").rename(sites.observer.data_dir.parent / "replica.json.before")
    alone = BrokerProcess(sites.directory, sites.name_servers, {"broker.keeps_key_values": "yes"}, "broker-0-alone")
    alone.data_dir, alone.broker_name = sites.observer.data_dir, "broker-0"
    alone.start()
    return alone


@pytest.mark.failure(
    "A data centre is lost with all disks, an observer elsewhere is left",
    group="Replicas of a broker",
    does="An operator makes the observer [a broker of its own](data-centre-loss.md), which takes replicas again.",
    lost="what the observer had not copied",
    told="`store dump` of the old disks, if they come back",
)
def test_the_observer_goes_on_without_the_main_site(tmp_path: Path) -> None:
    with TwoSites(tmp_path) as sites:
        near, far = sites.gateways
        with door(near) as client:
            assert client.put("/api/v1/topics/t", json={}).status_code == 201
            assert client.put("/api/v1/groups/workers", json={"invisibleSeconds": 5}).status_code == 201
        copied = [f"copied-{number}" for number in range(30)]
        publish(near, *copied)
        taken = take(near, 10)
        wait_until(lambda: sites.observed()["behind"] == 0, lambda: f"it has all: {sites.observed()}")
        sites.observer.stop()  # from here on the way between the sites is cut
        publish(near, lost := "confirmed, and at the main site alone")
        for process in sites.main_site:
            process.signal_kill()
        end = _store("verify", sites.observer.data_dir)[0]["log"]["end"]
        alone = promote(sites)
        try:
            wait_until(lambda: _publishes(far, "after"), lambda: f"the far site takes messages: {far.log_text()}")
            assert sorted(take(far, 21)) == sorted({*copied, "after"} - set(taken))
            _old_ones_change_nothing(sites, far)
            with _another_group(sites):
                _drain(far)
                assert alone.wait() == 0
                publish(far, "on disks of its own")
                assert take(far, 1) == ["on disks of its own"]
                wait_until(lambda: _is_whole(far), lambda: f"it has replicas: {_brokers(far)}")
            found = _store("dump", sites.replica(2).data_dir, "--kind", "message", "--from", str(end))
            assert [each["keys"] for each in found] == [[lost]], "the disks of the main site tell what was lost"
        finally:
            alone.kill()


def _store(command: str, data_dir: Path, *more: str) -> list[dict[str, Any]]:
    """What `entrepot store` tells of a directory, as JSON."""
    asked = [
        sys.executable,
        "-m",
        "entrepot.gateway.cli",
        "store",
        command,
        "--data-dir",
        str(data_dir),
        "--json",
        *more,
    ]
    told = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout
    return [json.loads(told)] if command == "verify" else [json.loads(line) for line in told.splitlines()]


def _publishes(gateway: GatewayProcess, name: str) -> bool:
    with door(gateway) as client:
        answer = client.post("/topics/t:publish", json={"id": name}, headers=event_headers(name))
    return bool(answer.status_code == 200)


def _old_ones_change_nothing(sites: TwoSites, far: GatewayProcess) -> None:
    """Replicas of before that are started by mistake are not gone to while the far site is reached."""
    start_all(sites.brokers[:3])
    publish(far, "after the old ones are there")
    assert take(far, 1) == ["after the old ones are there"]
    [broker] = _brokers(far)
    assert broker["replicas"] == []
    for process in sites.brokers[:3]:
        process.kill()


@contextmanager
def _another_group(sites: TwoSites) -> Iterator[None]:
    """Three replicas of another broker, for the time when one disk is not enough any more."""
    made = [
        ReplicaBrokerProcess(sites.directory, sites.name_servers, sites.settings, "broker-1", replica)
        for replica in (1, 2, 3)
    ]
    addresses = json.dumps([f"{each.replica}={each.own_address}" for each in made])
    for each in made:
        each.settings |= {"broker.replicas": addresses, "broker.replica_id": str(each.replica)}
    try:
        start_all(made)
        yield
    finally:
        for each in made:
            each.kill()


def _drain(gateway: GatewayProcess) -> None:
    """`entrepot cluster drain broker-0 --leave`."""

    def is_asked() -> bool:
        return bool(client.put("/api/v1/brokers/broker-0", json={"isDraining": True}).status_code == 200)

    def has_left() -> bool:
        return bool(client.delete("/api/v1/brokers/broker-0").status_code == 204)

    with door(gateway) as client:
        wait_until(is_asked, lambda: f"there is another broker: {_brokers(gateway)}")
        wait_until(has_left, lambda: f"it is empty: {_brokers(gateway)}")


def _brokers(gateway: GatewayProcess) -> list[dict[str, Any]]:
    with door(gateway) as client:
        return list(client.get("/api/v1/brokers").json()["value"])


def _is_whole(gateway: GatewayProcess) -> bool:
    [broker] = _brokers(gateway)
    replicas = broker["replicas"]
    return len(replicas) == 3 and all(each["isInSync"] and not each["problem"] for each in replicas)
