"""A broker without replicas becomes one of a group: name servers and gateways know it by a later word."""

from __future__ import annotations

from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.metadata.identity import epoch_kept
from entrepot.broker.server.process import BrokerProcess, BrokerProcessSettings
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.route import mastership_epoch
from entrepot.domain.topic import Topic
from tests.support.brokers.controllers import listening
from tests.support.brokers.replicated_group import LAYOUT, ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, pop


async def test_a_group_begins_behind_the_broker_that_it_was(tmp_path: Path) -> None:
    clock, directory = ManualClock(), tmp_path / "replica-1"
    store = await Broker.open(BrokerSettings(directory, name="group", layout=LAYOUT), clock)
    door = listening()
    address = f"127.0.0.1:{door.getsockname()[1]}"
    process = BrokerProcess(store, BrokerProcessSettings("group", address, number=0), door, clock)
    await process.start()
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    await process.close()
    await store.close()
    before = mastership_epoch(epoch_kept(directory))
    assert before > 1
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 3, min_in_sync=2), clock) as group:
        assert group.replicas[group.master].machine.epoch > before
        await append(group.store, "t", "b")
        assert bodies(await pop(group.store, "t")) == ["a", "b"]
