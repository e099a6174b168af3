"""Observers: replicas that have the log and answer reads, and count neither for a confirm nor in an election."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, message
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)
OBSERVER = 4


@pytest.mark.failure(
    "Two of three replicas are away, under `2-3`",
    group="Replicas of a broker",
    does="Nothing is confirmed until one is back. Observers do not count.",
    lost="nothing",
)
async def test_it_copies_and_confirms_nothing(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, observers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.even()
        appointment = group.replicas[group.master].machine.state.appointment
        assert OBSERVER not in {member.replica for member in (*appointment.known, *appointment.members)}
        for replica in {1, 2, 3} - {group.master}:
            await group.stop(replica)
        leader = group.replicas[group.master]
        master, before = leader.machine, leader.status().end
        waiting = group.store.messages.append([message("t", "waits")])
        await until(lambda: leader.status().end > before, "the master has it")
        await until(lambda: master.slaves[OBSERVER].acknowledged >= leader.status().end, "the observer has it")
        assert not waiting.settled
        assert master.confirmed < master.synced
        for replica in {1, 2, 3} - {group.master}:
            await group.start(replica)
        await waiting.wait()
        await group.even()
        await group.stop(OBSERVER)
        group.wipe(OBSERVER)
        await append(group.store, "t", "goes on without it")
        await group.start(OBSERVER)
        await group.even()
        assert group.log_of(OBSERVER).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")


@pytest.mark.parametrize("rule", [QUORUM, Rule(RuleKind.ASYNC, 2)], ids=["2-3", "async"])
async def test_an_observer_is_never_elected(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule, observers=1) as group:
        observer = rule.replicas + 1
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.even()
        for is_unclean in (False, True):
            with pytest.raises(EntrepotError, match=f"replica {observer} is an observer"):
                await group.elect(observer, is_unclean=is_unclean)
        await until(lambda: group.store.cluster.ready, "the master goes on, or another one does")
        old = group.master
        slaves = [replica for replica in group.replicas if replica not in (old, observer)]
        if rule.kind is RuleKind.ASYNC:
            await group.stop(slaves[0])
            await append(group.store, "t", "on the observer, and not on the other")
            await until(
                lambda: group.replicas[observer].machine.synced >= group.replicas[old].status().end, "it has more"
            )
            await group.start(slaves[0])
        await group.crash(old)
        made = await group.elect(without=(old,))
        assert made.master in slaves
        assert observer not in {member.replica for member in made.members}
        await group.even()


async def test_a_gateway_of_its_zone_reads_from_it(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone=f"zone-{OBSERVER}", observers=1) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a", "b")
        await group.even()
        [client] = group.store.cluster.clients.values()
        slaves = group.store.cluster.slaves
        await until(lambda: slaves.nearest(client), "it is found")
        found = slaves.nearest(client)
        assert found is not None and found.link.address == group.addresses[OBSERVER]
        assert bodies(await group.store.messages.read("t", 0, 0, 9)) == ["a", "b"]
        assert group.store.operations is not None
        [broker] = await group.store.operations.brokers()
        assert [(each.replica, each.is_observer, each.is_in_sync) for each in broker.replicas if each.is_observer] == [
            (OBSERVER, True, False)
        ]
