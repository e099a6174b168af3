"""A broker group of real replicas whose masters are elected by controllers: none of them is missed for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies, pop
from tests.support.waiting import until

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
TWO = Rule(RuleKind.IN_SYNC, 2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.parametrize("rule", [IN_SYNC, TWO, QUORUM], ids=["in-sync", "2-2", "2-3"])
@pytest.mark.parametrize("controllers", [1, 3])
async def test_a_master_dies_and_another_one_goes_on(tmp_path: Path, rule: Rule, controllers: int) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=controllers) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        names = [str(number) for number in range(20)]
        await append(store, "t", *names[:10])
        for _ in range(2):
            old = group.master
            await group.crash(old)
            await until(lambda old=old: group.master not in (0, old), "another one is master")
            await until(lambda: store.cluster.ready, "the gateway has found it")
            await append(store, "t", names[10])
            names.append(names.pop(10))
            await group.start(old)
            await group.in_sync()
        found = await pop(store, "t", count=40)
        assert sorted(bodies(found)) == sorted([*names[:10], *names[-2:]])
