"""Topics that are deleted while a replica is away: it brings none of them back, as a slave or as a master."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another, joined, reached
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, eventually, pop
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])

pytestmark = pytest.mark.usefixtures("quick")


@asynccontextmanager
async def filled(directory: Path, rule: Rule, clock: ManualClock | None = None) -> AsyncIterator[ReplicatedGroup]:
    """With a topic that goes, one that goes and comes again, and one that stays; all have had a consumer."""
    async with ReplicatedGroup(directory, rule, clock, controllers=3) as group:
        topics = [Topic(name, queues=1, retention_seconds=60) for name in ("gone", "again", "kept")]
        await group.store.topology.put_topics(topics)
        await group.store.topology.put_group(ConsumerGroup("left"))
        for topic in topics:
            await append(group.store, topic.name, "old")
            await pop(group.store, topic.name)
        await group.in_sync()
        yield group


async def delete(group: ReplicatedGroup) -> None:
    topology = group.store.topology
    await topology.delete_topic("gone")
    await topology.delete_group("left")
    await topology.delete_topic("again")
    await topology.put_topic(Topic("again", queues=1))


async def leave_alone(group: ReplicatedGroup, replica: int) -> None:
    """Have this one lead: by an operator's word, once it has caught up."""

    async def leads() -> bool:
        if group.master != replica:
            await group.in_sync()
            leader = group.controllers.running[await group.controllers.led()]
            with suppress(EntrepotError):  # another election is under way
                await leader._elect("group", replica, [], False)
        return group.master == replica

    await eventually(leads)
    await reached(group)


async def check(group: ReplicatedGroup, reader: str) -> None:
    """What was deleted is not there, for the gateway and for each replica.  `reader`: a consumer group of its own."""
    topology = group.store.topology
    assert topology.topic("gone") is None and topology.group("left") is None
    assert {topic.name for topic in topology.topics()} >= {"again", "kept"}
    [bounds] = await group.store.messages.bounds("again")
    assert bounds.max_offset - bounds.min_offset == 1
    assert bodies(await group.store.messages.read("again", 0, bounds.min_offset, 9)) == ["new"]
    assert bodies(await eventually(lambda: pop(group.store, "again", reader))) == ["new"]
    await group.even()
    for each in group.replicas.values():
        store = each.store.leading or each.store.slave
        assert store is not None
        assert "gone" not in {topic for topic, _ in store.engine.dispatcher.queues}


@RULES
async def test_one_that_was_away_leads_and_does_not_know_them(tmp_path: Path, rule: Rule) -> None:
    async with filled(tmp_path, rule) as group:
        away = next(each for each in group.replicas if each != group.master)
        await group.crash(away)
        seen: list[str] = []
        await delete(group)
        await append(group.store, "again", "new")
        group.store.topology.watch_topics(seen.append)
        await group.start(away)
        await leave_alone(group, away)
        await check(group, "one")
        for other in [each for each in group.replicas if each != away]:
            await group.crash(other)
            await group.start(other)
            await joined(group)
        await reached(group)
        await check(group, "two")
        assert "gone" not in seen


@RULES
async def test_a_master_that_was_away_does_not_bring_them_back(tmp_path: Path, rule: Rule) -> None:
    """It died, the next one deleted them, and all are started again at once, the old master first."""
    async with filled(tmp_path, rule) as group:
        old = group.master
        await group.crash(old)
        await another(group, old)
        await delete(group)
        await append(group.store, "again", "new")
        others = tuple(group.replicas)
        for each in others:
            await group.crash(each)
        for each in (old, *others):
            await group.start(each)
        await until(lambda: group.master, "somebody is master")
        await joined(group)
        await leave_alone(group, old)
        await check(group, "one")


@RULES
async def test_one_whose_log_cannot_go_on_forgets_them(tmp_path: Path, rule: Rule) -> None:
    """It was away for so long that the others' logs begin behind its end: what it derived of its own is void."""
    clock = ManualClock()
    async with filled(tmp_path, rule, clock) as group:
        away = next(each for each in group.replicas if each != group.master)
        await group.crash(away)
        await delete(group)
        for _ in range(8):
            await append(group.store, "kept", *(bytes(100_000) for _ in range(2)))
        clock.advance(120_000)
        await append(group.store, "again", "new")

        def beginning() -> int:
            master = group.replicas[group.master].store.leading if group.master else None
            return 0 if master is None else master.engine.commit_log.min_offset

        await until(beginning, "retention has removed the beginning")
        await group.start(away)
        await leave_alone(group, away)
        await check(group, "one")
