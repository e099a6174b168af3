"""Replicas as processes, under the load of real clients: the master is moved and killed, slaves are killed and wiped.

Nothing confirmed is lost, nothing acknowledged comes again, whichever replica is master.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.support.doors.load import Load
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.seed import seeded
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
ROUNDS = 4


@pytest.mark.failure(
    "The master dies, without controllers",
    group="Replicas of a broker",
    does="An operator elects: under `in-sync` with `--without`, under `2-3` without more. Then all goes on.",
    lost="nothing confirmed",
)
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_the_master_is_moved_and_killed_under_load(tmp_path: Path, rule: str) -> None:
    rng = seeded()
    with ReplicatedProcesses(tmp_path, rule, replicas=3, gateways=2) as cluster:
        cluster.wait_in_sync(3)
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=2, consumers=3, subscribers=2)
        try:
            for number in range(ROUNDS):
                time.sleep(rng.uniform(0.3, 1.0))  # the moment is what is random here
                master = cluster.master()
                if number % 2:
                    cluster.replica(master).kill()
                    cluster.elect(without=[master] if rule == "in-sync" else [])
                else:
                    cluster.elect(to=master % 3 + 1)
                assert cluster.master() not in (0, master)
                wait_until(load.made(50), "producers go on")
                if number % 2:
                    cluster.replica(master).start()
                cluster.wait_in_sync(3)
            report = load.finish(f"replicas, {rule}", ROUNDS)
        finally:
            load.stop()
        assert report.is_clean, report
        assert len(load.promises.confirmed) > 200


@pytest.mark.failure(
    "A slave or its disk is lost, under `2-3`",
    group="Replicas of a broker",
    does=("Publishing goes on, and the master stays. The slave copies what it lacks; an empty one copies everything."),
    lost="nothing",
    told="`cluster show`, `ping --ready`, `entrepot_replica_behind_seconds`",
)
def test_slaves_that_die_and_lose_their_disks(tmp_path: Path) -> None:
    """A quorum goes on without one of them."""
    with ReplicatedProcesses(tmp_path, "2-3", replicas=3) as cluster:
        cluster.wait_in_sync(3)
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=2, consumers=2)
        try:
            for number in range(ROUNDS):
                slave = cluster.replica(cluster.master() % 3 + 1)
                slave.kill()
                wait_until(load.made(50), "producers go on")
                if number % 2:
                    shutil.rmtree(slave.data_dir)
                slave.start()
                cluster.wait_in_sync(3)
            report = load.finish("slaves killed and wiped", ROUNDS)
        finally:
            load.stop()
        assert report.is_clean, report
        assert cluster.group()["epoch"] == 1, "the master stayed"


@pytest.mark.failure(
    "The master hangs, and goes on when another leads",
    group="Replicas of a broker",
    does="It confirms nothing of what it writes, and follows the next master.",
    lost="nothing confirmed",
)
@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
def test_a_master_that_was_paused_has_nothing_to_say(tmp_path: Path, rule: str) -> None:
    """It comes back in the belief that it is master: nobody acknowledges what it writes, and it follows the next."""
    with ReplicatedProcesses(tmp_path, rule, replicas=3, gateways=2) as cluster:
        cluster.wait_in_sync(3)
        load = Load(cluster.gateways)
        load.begin(http=2, mqtt=2, consumers=2)
        try:
            for _ in range(2):
                wait_until(load.made(50), "producers go on")
                master = cluster.master()
                paused = cluster.replica(master)
                os.kill(paused.pid, signal.SIGSTOP)
                cluster.elect(without=[master] if rule == "in-sync" else [])
                wait_until(load.made(50), "producers go on")
                os.kill(paused.pid, signal.SIGCONT)
                cluster.wait_in_sync(3)
                assert cluster.master() != master
            report = load.finish(f"a paused master, {rule}", 2)
        finally:
            load.stop()
        assert report.is_clean, report
