"""What the records of a group say of others: that they were confirmed, not that one disk alone had them."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, message
from tests.support.waiting import until

TWO = Rule(RuleKind.IN_SYNC, 2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)


@pytest.mark.parametrize("rule", [TWO, QUORUM], ids=["2-2", "2-3"])
async def test_records_say_that_what_is_confirmed_was_durable(tmp_path: Path, rule: Rule) -> None:
    """A slave writes no record whose floor it has not synced, and each of rule in-sync has what is confirmed."""
    async with ReplicatedGroup(tmp_path, rule) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "confirmed")
        await group.even()
        slaves = [replica for replica in group.replicas if replica != group.master]
        for slave in slaves:
            await group.stop(slave)
        leading = group.replicas[group.master].store.leading
        assert leading is not None
        engine = leading.engine
        confirmed = engine.confirmed_offset
        for number in range(3):
            place = engine.end
            group.store.messages.append([message("t", f"unconfirmed {number}", 0)])
            await until(lambda place=place: place < engine.end == engine.commit_log.durable_offset, "it is on its disk")
            assert engine.commit_log.read_header(place, engine.end - place).durable_floor == confirmed
        assert engine.confirmed_offset == confirmed
        for slave in slaves:
            await group.start(slave)
        await until(lambda: engine.confirmed_offset > confirmed, "they have it, too")
