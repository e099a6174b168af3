"""The leader is lost under load: nothing confirmed is lost, and the watch tells each step once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from entrepot.store_client.etcd import EtcdKeyValues, open_etcd
from tests.etcd.conftest import settings_of
from tests.support.etcd.cluster import EtcdCluster, EtcdMember
from tests.support.etcd.load import CountingLoad
from tests.support.seed import seeded
from tests.support.waiting import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

STEPS = 300


async def lose(cluster: EtcdCluster, leader: EtcdMember, how: signal.Signals, load: CountingLoad) -> None:
    """Lose the leader until the others have gone on, and have it back."""
    leader.signal(how)
    if how is not signal.SIGSTOP:
        await asyncio.to_thread(leader.wait)
    await load.more(STEPS)
    if how is signal.SIGSTOP:
        leader.signal(signal.SIGCONT)
    else:
        leader.start()
        await asyncio.to_thread(cluster.wait_ready, leader)


@pytest.mark.failure(
    "A member of etcd, which keeps the facts beside a RocketMQ cluster, is killed or hangs",
    group="Gateways and clients",
    does="Calls and watches move to another member, 2.5 s after a hang. Watches leave nothing out.",
    lost="nothing",
    told="writes under way have an unknown outcome",
)
@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "a follower asked"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM], ids=["killed", "hangs", "stopped"])
async def test_a_leader_is_lost_under_load(tmp_path: Path, how: signal.Signals, is_asked: bool):
    chance = seeded(f"{how} {is_asked}")
    with EtcdCluster(tmp_path, 3) as cluster:
        leader = cluster.leader()
        others = [member for member in cluster.members if member is not leader]
        chance.shuffle(others)
        members = [leader, *others] if is_asked else [*others, leader]
        settings = settings_of(cluster, addresses=tuple(member.address for member in members), probe_seconds=0.5)
        stores = [await open_etcd(settings) for _ in range(2)]
        load = CountingLoad(stores[0], stores[1])
        try:
            await load.begin()
            await load.more(STEPS)
            await lose(cluster, leader, how, load)
            await load.more(STEPS)
            await load.end()
            assert load.beginnings == 1, "no history is gone: it goes on where it was"
            for store in stores:
                await until(lambda store=store: store.age_seconds() == 0.0, "it is current again")
        finally:
            await closed(stores)


async def closed(stores: list[EtcdKeyValues]) -> None:
    for store in stores:
        await store.close()


@pytest.mark.failure(
    "etcd has no majority",
    group="Gateways and clients",
    does="Facts can be neither read nor written. After `security.max_age_seconds` (300) nobody is let in.",
    lost="nothing",
    told="refusals as unavailable",
)
async def test_without_a_majority_all_gets_old_and_is_current_again_later(tmp_path: Path):
    with EtcdCluster(tmp_path, 3) as cluster:
        store = await open_etcd(settings_of(cluster, probe_seconds=0.3, patience_seconds=0.5, request_seconds=1.0))
        try:
            store.watch("", lambda events: None, lambda: None)
            await until(lambda: store.age_seconds() == 0.0, "it is current")
            for member in cluster.members[:2]:
                member.kill()
            await until(lambda: store.age_seconds() > 1.0, "values may have changed unseen")
            for member in cluster.members[:2]:
                member.start()
            await until(lambda: store.age_seconds() == 0.0, "it is current again")
        finally:
            await store.close()
