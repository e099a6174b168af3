"""Disks that confirm a message: those of the rule, or the master's alone where the topic says so."""

from __future__ import annotations

from pathlib import Path

from entrepot.domain.ports.cluster import ConfirmLevel
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Confirm, Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, message
from tests.support.waiting import until

TWO = Rule(RuleKind.IN_SYNC, 2)


async def test_a_topic_of_its_own_is_confirmed_by_the_master_alone(tmp_path: Path) -> None:
    """Under a stricter rule; it is delivered once the others have it, and a confirm says what it is worth."""
    async with ReplicatedGroup(tmp_path, TWO) as group:
        store = group.store
        await store.topology.put_topic(Topic("strict", queues=1))
        await store.topology.put_topic(Topic("loose", queues=1, confirm=Confirm.ASYNC))
        operations = store.operations
        assert operations is not None
        strict, loose = message("strict", "a"), message("loose", "a")
        assert operations.confirm_level([strict]) == ConfirmLevel("in-sync", 2)
        assert operations.confirm_level([strict, loose]) == ConfirmLevel("async", 1)
        await append(store, "strict", "before")
        await append(store, "loose", "before")
        await group.even()
        await group.stop(3 - group.master)
        waiting = store.messages.append([message("strict", "waits")])
        await append(store, "loose", "at once")
        mixed = store.messages.append([message("loose", "in a batch"), message("strict", "too")])
        await mixed.wait(0, 1)
        assert not waiting.settled
        assert not mixed.settled
        assert bodies(await store.messages.read("loose", 0, 0, 9)) == ["before"], "nobody is told of it before"
        await group.start(3 - group.master)
        await waiting.wait()
        await mixed.wait()
        assert bodies(await store.messages.read("loose", 0, 0, 9)) == ["before", "at once", "in a batch"]
        assert bodies(await store.messages.read("strict", 0, 0, 9)) == ["before", "waits", "too"]


async def test_the_level_of_a_confirm_grows_with_the_replicas_in_sync(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 3, min_in_sync=1)) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        operations = store.operations
        assert operations is not None
        level = operations.confirm_level
        await until(lambda: level([message("t", "a")]) == ConfirmLevel("in-sync", 3), "all have it")
        away = next(replica for replica in group.replicas if replica != group.master)
        await group.stop(away)
        await group.elect(without=(away,))
        await until(lambda: store.cluster.ready, "the gateway has found it")
        assert level([message("t", "a")]) == ConfirmLevel("in-sync", 2)
        await group.start(away)
        await until(lambda: level([message("t", "a")]) == ConfirmLevel("in-sync", 3), "it is in sync again")
