"""Health of replicas as processes, by the probes and metrics that operators use, and a rolling restart by them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.gateway.cli.app import run
from tests.support.doors.load import Load, door, event_headers
from tests.support.processes.replicated_processes import ReplicaBrokerProcess, ReplicatedProcesses
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    with ReplicatedProcesses(tmp_path_factory.mktemp("replicas"), "2-3", replicas=3) as running:
        running.wait_in_sync(3)
        yield running


def address(cluster: ReplicatedProcesses, replica: int) -> str:
    process = cluster.replica(replica)
    assert isinstance(process, ReplicaBrokerProcess)
    return process.own_address


def is_ready(cluster: ReplicatedProcesses, replica: int) -> bool:
    """As a readiness probe finds it."""
    return run(["ping", address(cluster, replica), "--ready"]) == 0


def publish(cluster: ReplicatedProcesses, name: str) -> None:
    headers = {**event_headers(name), "content-type": "application/json"}
    with door(cluster.gateways[0]) as client:
        assert client.post("/topics/health:publish", content=b"1", headers=headers).status_code == 200


def metrics(cluster: ReplicatedProcesses) -> dict[str, float]:
    """Those of brokers and replicas."""
    with door(cluster.gateways[0]) as client:
        lines = client.get("/metrics").text.splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith(("entrepot_replica_", "entrepot_broker_")))
    return {name: float(value) for name, _, value in found}


def test_a_publisher_that_asks_is_told_what_a_confirm_is_worth(cluster: ReplicatedProcesses) -> None:
    with door(cluster.gateways[0]) as client:
        assert client.put("/api/v1/topics/loose", json={"confirm": "ASYNC"}).json()["confirm"] == "ASYNC"
        assert client.put("/api/v1/topics/strict", json={}).json()["confirm"] == "RULE"
        for topic, level in (("strict", "2-3; copies=2"), ("loose", "async; copies=1")):
            asking = {**event_headers(topic), "content-type": "application/json", "entrepot-confirm": "?"}
            answer = client.post(f"/topics/{topic}:publish", content=b"1", headers=asking)
            assert (answer.status_code, answer.headers["entrepot-confirm"]) == (200, level)
            del asking["entrepot-confirm"]
            answer = client.post(f"/topics/{topic}:publish", content=b"1", headers=asking)
            assert "entrepot-confirm" not in answer.headers


def test_probes_tell_master_from_slave(cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    def asked(replica: int, *flags: str) -> tuple[int, str, str]:
        code = run(["ping", address(cluster, replica), *flags])
        told = capsys.readouterr()
        return code, told.out, told.err

    master = cluster.master()
    slave = master % 3 + 1
    wait_until(lambda: is_ready(cluster, slave), "the slave is in sync")
    capsys.readouterr()
    code, out, err = asked(master, "--ready", "--role", "master")
    assert (code, err) == (0, "")
    assert out.startswith(f"{address(cluster, master)} answers after ")
    assert out.endswith(f": replica {master}, master in epoch 1, open\n")
    code, out, _ = asked(slave, "--ready", "--role", "slave")
    assert (code, out.split(": ")[1]) == (0, f"replica {slave}, slave of replica {master} in epoch 1, in sync\n")
    code, out, err = asked(slave, "--role", "master")
    assert (code, err.partition(" is not a master: ")[2]) == (1, f"replica {slave} is slave in epoch 1\n")
    told: dict[str, Any] = json.loads(asked(slave, "--json")[1])
    assert told["isReady"] is True
    shown = next(each for each in cluster.group()["replicas"] if each["replica"] == slave)
    moving = {"synced", "behind", "behindSeconds"}  # brokers write by themselves, too
    assert told["replica"].keys() == shown.keys() - {"address"}
    same = told["replica"].keys() - moving
    assert {key: told["replica"][key] for key in same} == {key: shown[key] for key in same}


@pytest.mark.failure_also("A slave or its disk is lost, under `2-3`")
def test_a_slave_that_was_away_is_ready_when_it_has_everything(
    cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    master = cluster.master()
    slave = master % 3 + 1
    labels = f'broker="broker-0",replica="{slave}"'
    cluster.replica(slave).kill()
    publish(cluster, "while it is away")
    wait_until(lambda: metrics(cluster).get(f"entrepot_replica_behind_seconds{{{labels}}}", 0) > 0, "its lag is told")
    found = metrics(cluster)
    assert found[f'entrepot_replica_role{{{labels},role="away"}}'] == 1
    assert found[f"entrepot_replica_behind_bytes{{{labels}}}"] > 0
    assert (
        found['entrepot_broker_available{broker="broker-0"}'] == found['entrepot_broker_epoch{broker="broker-0"}'] == 1
    )
    assert found[f'entrepot_replica_role{{broker="broker-0",replica="{master}",role="master"}}'] == 1
    assert run(["ping", address(cluster, slave)]) == 1
    assert run(["cluster", "show", "--server", f"http://{cluster.gateways[0].address('http')}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [row] = [line for line in lines if "it does not answer" in line]
    assert "away" in row
    used, limit, refused_from = map(int, next(line for line in lines if " answers " in line).split()[-3:])
    assert 0 < used < refused_from < limit

    cluster.replica(slave).start()
    wait_until(lambda: is_ready(cluster, slave), "it has everything")
    found = metrics(cluster)
    assert found[f"entrepot_replica_behind_bytes{{{labels}}}"] == 0
    assert found[f'entrepot_replica_role{{{labels},role="slave"}}'] == 1


@pytest.mark.failure_also("Everything is restarted, part by part")
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_a_rolling_restart_by_hand_loses_nothing(tmp_path: Path, rule: str) -> None:
    """As documented: the slaves, an election, then the old master; each waits for readiness of the one before."""
    with ReplicatedProcesses(tmp_path, rule, replicas=3, gateways=2) as cluster:
        cluster.wait_in_sync(3)
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=2, consumers=2)
        try:
            old = cluster.master()
            order = [replica for replica in (1, 2, 3) if replica != old]
            for replica in (*order, old):
                if replica == old:
                    cluster.elect(to=order[0])
                    wait_until(lambda: is_ready(cluster, order[0]), "the next master is open")
                process = cluster.replica(replica)
                process.terminate()
                assert process.wait() == 0
                process.start()
                wait_until(lambda: is_ready(cluster, replica), "it is in sync again")  # noqa: B023
                wait_until(load.made(50), "producers go on")
            report = load.finish(f"a rolling restart, {rule}", 3)
        finally:
            load.stop()
        assert report.is_clean, report
