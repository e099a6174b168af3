"""Replicas as processes, whose masters are killed and moved by hand: the same history, on a clock that nobody holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from entrepot.gateway.clock import SystemClock
from entrepot.store_client.remote import RemoteSettings, open_remote
from tests.history.load import Load
from tests.history.recorder import RecordedStore, Recorder
from tests.history.runs import judge, mastership, progress
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.seed import seeded
from tests.support.waiting import until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
FAULTS = 6


def master_is_killed(cluster: ReplicatedProcesses, rule: str) -> None:
    master = cluster.master()
    cluster.replica(master).kill()
    cluster.elect(without=[master] if rule == "in-sync" else [])
    cluster.replica(master).start()


def master_moves(cluster: ReplicatedProcesses, rule: str) -> None:
    cluster.elect(to=cluster.master() % 3 + 1)


def fault(cluster: ReplicatedProcesses, rule: str, chance: Random) -> None:
    kind = chance.choice((master_is_killed, master_is_killed, master_moves))
    print(kind.__name__)
    kind(cluster, rule)
    cluster.wait_in_sync(3)


@pytest.mark.parametrize("rule", ["in-sync", "2-3"])
async def test_a_history_through_killed_masters_is_allowed(tmp_path: Path, rule: str) -> None:
    chance, clock = seeded(rule), SystemClock()
    with ReplicatedProcesses(tmp_path, rule, replicas=3) as cluster:
        await asyncio.to_thread(cluster.wait_in_sync, 3)
        names = tuple(each.address("nameserver") for each in cluster.name_servers)
        store = await open_remote(RemoteSettings(name_servers=names), clock)
        recorder = Recorder(tmp_path / "history", clock)
        recorded = RecordedStore(store, recorder, lambda: mastership(store))
        load = Load(store, recorded, chance, None)
        try:
            await load.define()
            load.start()
            for _ in range(FAULTS):
                await progress(load, recorder)
                await asyncio.to_thread(fault, cluster, rule, chance)
            await progress(load, recorder)
            await load.stop()
            await until(lambda: store.cluster.ready, "the gateway knows a master")
            await load.end()
        finally:
            recorder.close()
            await store.close()
    judge("histories of killed replicas", recorder, FAULTS)
