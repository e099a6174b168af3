"""A replica that lacks much of the log copies it from a slave, at a bounded rate, while the group works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)
BODIES = [bytes([number]) * 60_000 for number in range(80)]


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.replication.copying.FAR_BYTES", 1 << 20)


async def one_is_wiped(group: ReplicatedGroup) -> int:
    """Id of a slave that is stopped, and has an empty disk; the others have much."""
    await group.store.topology.put_topic(Topic("t", queues=1))
    away = next(replica for replica in group.replicas if replica != group.master)
    await group.stop(away)
    group.wipe(away)
    await append(group.store, "t", *BODIES)
    await group.even()
    return away


async def test_a_new_replica_copies_from_a_slave(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        away = await one_is_wiped(group)
        await group.start(away)
        await group.even()
        copying = group.replicas[away]._copying
        assert copying.copied > 3 << 20, "nearly all of it"
        master = group.replicas[group.master]
        assert copying.source == 0, "it has ended"
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")
        member = group.replicas[away].machine.state.member
        await until(lambda: member in master.machine.state.appointment.members, "it is in sync")
        await append(group.store, "t", "after")
        await group.even()


async def test_without_a_slave_the_master_gives_it(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.ASYNC, 3)) as group:
        away = await one_is_wiped(group)
        other = next(replica for replica in group.replicas if replica not in (group.master, away))
        await group.stop(other)
        await group.start(away)
        await group.even()
        assert group.replicas[away]._copying.copied > 3 << 20
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")


async def test_a_copy_at_a_bounded_rate_survives_all_that_happens_meanwhile(tmp_path: Path) -> None:
    """The source ends, the master moves, it is killed itself: in the end it has everything."""
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        away = await one_is_wiped(group)
        group.copy_rate = 4 << 20
        await group.start(away)
        copying = group.replicas[away]._copying
        await until(lambda: copying.copied > 0, "it copies")
        assert copying.source not in (0, group.master)
        assert copying.copied < 3 << 20
        await append(group.store, "t", "the group works")
        await group.crash(away)
        await group.start(away)
        copying = group.replicas[away]._copying
        await until(lambda: copying.copied > 0, "it goes on where it was")
        source = copying.source
        await group.elect(source)
        group.copy_rate = 0
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        await append(group.store, "t", "in the next epoch")
        await group.even()
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")


async def test_the_rate_is_kept(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        away = await one_is_wiped(group)
        group.copy_rate = 8 << 20
        begun = asyncio.get_running_loop().time()
        await group.start(away)
        await group.even()
        least = (group.replicas[away]._copying.copied - (1 << 20)) / group.copy_rate
        assert asyncio.get_running_loop().time() - begun >= least
