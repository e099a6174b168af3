"""Three replicas of which two lose their disks for good: what the third still has, and who must say so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies
from tests.support.waiting import until
from tests.tiers.marks import soak_only


async def lost(group: ReplicatedGroup, left: int) -> tuple[int, ...]:
    """The replicas that have lost their disks: all but one."""
    gone = tuple(sorted(group.addresses.keys() - {left}))
    for replica in gone:
        await group.crash(replica)
        group.wipe(replica)
    return gone


@pytest.mark.failure(
    "The disks of two of three replicas are lost for good, under `in-sync`",
    group="Replicas of a broker",
    does="With two declared lost (`--without`), the third leads. New replicas copy from it.",
    lost="nothing while the third was in sync",
)
async def test_the_one_that_was_in_sync_has_everything(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 3)) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a", "b")
        left = group.master % 3 + 1
        gone = await lost(group, left)
        with pytest.raises(EntrepotError, match="does not answer"):
            await group.elect()
        await group.elect(left, without=gone)
        for replica in gone:
            await group.start(replica)
        await group.even()
        await until(lambda: group.store.cluster.ready, "the gateway has found the master")
        assert group.master == left
        await append(group.store, "t", "after")
        assert bodies(await group.store.messages.read("t", 0, 0, 9)) == ["a", "b", "after"]


@pytest.mark.failure(
    "The disks of two of three replicas are lost for good, under `2-3`",
    group="Replicas of a broker",
    does="Nobody is elected by itself. With `--without` and `--unclean` the third leads, and opens with one new disk.",
    lost="confirmed messages that the third lacks",
    told="`cluster elect`: 1 replicas answer, 2 are needed",
)
async def test_under_a_quorum_the_one_that_is_left_may_lack_something(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.QUORUM, 3, 2)) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.even()
        left = group.master % 3 + 1
        await group.stop(left)
        await append(group.store, "t", "confirmed by the other two")
        end = group.replicas[group.master].machine.confirmed
        gone = await lost(group, left)
        for replica in (left, *gone):
            await group.start(replica)
        assert group.replicas[left].machine.end < end
        with pytest.raises(EntrepotError, match="1 replicas answer, 2 are needed"):
            await group.elect()
        assert group.master == 0
        await group.elect(left, without=gone, is_unclean=True)
        await takes(group, left, "a", "after")


async def takes(group: ReplicatedGroup, left: int, *held: str) -> None:
    """The one that was left leads, takes messages, and the new disks have them."""
    await until(lambda: group.master == left, "it is open")
    await until(lambda: group.store.cluster.ready, "the gateway has found the master")
    await append(group.store, "t", held[-1])
    assert bodies(await group.store.messages.read("t", 0, 0, 9)) == [*held]
    await group.even()


@pytest.mark.failure_also("The disks of two of three replicas are lost for good, under `2-3`")
@pytest.mark.parametrize("are_there", [True, soak_only(False)])
async def test_controllers_elect_it_uncleanly_too(tmp_path: Path, are_there: bool) -> None:
    """Before the new disks are there, its command ends in vain, and it opens once one of them is."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.QUORUM, 3, 2), controllers=3) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.in_sync()
        left = group.master % 3 + 1
        gone = await lost(group, left)
        for replica in gone if are_there else ():
            await group.start(replica)
        leader = group.controllers.running[group.controllers.leader]
        elected = asyncio.ensure_future(leader._elect("group", left, list(gone), True))
        if are_there:
            await elected
        else:
            with pytest.raises(EntrepotError, match=f"replica {left} is master in epoch 2, and not open yet"):
                await elected
            for replica in gone:
                await group.start(replica)
        await takes(group, left, "a", "after")
