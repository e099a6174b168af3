"""Controllers as processes: in a name server and by themselves they replace masters that are killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import ControllerProcess
from tests.support.load import door, event_headers
from tests.support.replicated_processes import ReplicatedProcesses

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    directory = tmp_path_factory.mktemp("controllers")
    with ReplicatedProcesses(directory, "in-sync", replicas=3, controllers=3) as running:
        running.wait_in_sync(3)
        yield running


def publish(cluster: ReplicatedProcesses, name: str) -> None:
    """Of one event; it waits for a master where there is none."""
    headers = {**event_headers(name), "content-type": "application/json"}
    with door(cluster.gateways[0]) as client:
        answer = client.post("/topics/t:publish", content=b"1", headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text


def test_a_killed_master_is_replaced_and_publishing_goes_on(cluster: ReplicatedProcesses) -> None:
    publish(cluster, "before")
    old = cluster.master()
    cluster.replica(old).kill()
    publish(cluster, "after")
    assert cluster.master() not in (0, old)
    cluster.replica(old).start()
    cluster.wait_in_sync(3)


@pytest.mark.parametrize("controller", [1, 2, 3])
def test_any_controller_may_be_missing(cluster: ReplicatedProcesses, controller: int) -> None:
    missing = cluster.controller(controller)
    missing.kill()
    old = cluster.master()
    cluster.replica(old).kill()
    publish(cluster, f"without {missing.name}")
    assert cluster.master() not in (0, old)
    missing.start()
    cluster.replica(old).start()
    cluster.wait_in_sync(3)


def test_they_stop_when_told(cluster: ReplicatedProcesses) -> None:
    for number in (1, 3):
        assert cluster.controller(number).stop() == 0
        cluster.controller(number).start()


def test_a_directory_of_another_controller_ends_it(tmp_path: Path) -> None:
    """With one line that says why."""
    addresses = json.dumps(["1=127.0.0.1:1", "2=127.0.0.1:2"])
    process = ControllerProcess(tmp_path, {"cluster.controllers": addresses, "controller.id": "1"}, "controller")
    process.start()
    assert process.stop() == 0
    process.settings["controller.id"] = "2"
    with pytest.raises(AssertionError, match="ended with 1") as ended:
        process.start()
    assert "is the directory of controller 1, not 2" in str(ended.value)
