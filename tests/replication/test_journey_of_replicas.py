"""Where a message of a broker group is: the mastership that wrote it, and the replicas that have it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.journey.model import JourneyKind
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.journey.gathering import Gathered, Gathering
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, refusal_of
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)


async def gathered(store: Any, message_id: bytes, *, sees_cluster: bool = True) -> Gathered:
    [message] = await store.finder.messages_by_id(message_id)
    subscriptions: Any = SimpleNamespace(by_topic={})
    return await Gathering(store, subscriptions, list, sees_cluster=sees_cluster).gather(message)


async def test_the_epoch_and_the_replicas_of_a_record(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", "first")
        before = group.master
        made = await group.elect(next(each for each in group.replicas if each != before))
        await until(lambda: store.cluster.ready, "the gateway has found it")
        await append(store, "t", "second")
        await group.even()
        [first] = (await gathered(store, b"first")).facts.storages.values()
        [second] = (await gathered(store, b"second")).facts.storages.values()
        assert (first.broker, first.replica, second.replica) == ("group", before, made.master)
        assert 0 < first.epoch < second.epoch == made.epoch
        assert second.holders == ("r1", "r2", "r3") and second.lacking == ()

        away = next(each for each in group.replicas if each != group.master)
        await group.stop(away)
        await append(store, "t", "third")
        found = await gathered(store, b"third")
        [third] = found.facts.storages.values()
        assert len(third.holders) == 2 and f"r{away}" not in third.holders
        assert third.lacking in ((f"r{away}",), (f"r{away} (not known)",))
        [stored] = [hop for hop in journey_of(found.facts).hops if hop.kind is JourneyKind.STORED]
        assert (stored.broker, stored.epoch) == ("group", made.epoch) and f"Not on r{away}" in stored.detail

        concealed = await gathered(store, b"third", sees_cluster=False)
        hops = journey_of(concealed.facts).hops
        assert not any(hop.broker or hop.epoch for hop in hops)
        assert any("takes LIST on the Cluster" in hop.detail for hop in hops if not hop.is_known)
        assert await refusal_of(store.finder.record_origin(-1)) == Code.OFFSET_NOT_FOUND


@pytest.mark.soak
async def test_a_broker_without_a_master_is_said(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", "m")
        [message] = await store.finder.messages_by_id(b"m")
        for replica in tuple(group.replicas):
            await group.stop(replica)
        subscriptions: Any = SimpleNamespace(by_topic={})
        found = await Gathering(store, subscriptions, list, sees_cluster=True).gather(message)
        journey = journey_of(found.facts)
        assert found.missing and {"copies", "traces"} <= set(found.missing)
        assert "group" in found.facts.silent
        assert any(hop.broker == "group" and not hop.is_known for hop in journey.hops)
        assert any(hop.kind is JourneyKind.STORED and hop.is_known for hop in journey.hops), "what is known stays"
