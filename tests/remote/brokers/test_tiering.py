"""Gateways see how the tiers of all brokers stand."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.tiered.tier import Tier
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.clock import SystemClock
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import AT_ONCE
from tests.support.waiting import until


async def test_a_gateway_tells_of_each_broker_by_itself_and_adds_the_numbers(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        tier = TierSettings((tmp_path / "cold").as_uri(), **AT_ONCE)
        await world.start(tmp_path, 2, tier=tier)
        store = await world.store()
        await world.topic("t", queues=1, tier_seconds=10**9)
        for queue_id in (0, 10_000):
            assert await append_all(store, Message("t", b"a", queue_id=queue_id)) == [None]
        tiers = [each.broker.tier for each in world.brokers]

        def are_uploaded() -> bool:
            told = [progress.ends for tier in tiers if tier is not None for progress in tier.progress.values()]
            return told == [{0: 1}, {0: 1}]

        await until(are_uploaded, "both have uploaded")
        found = await store.condition.tiering()
        assert [status.uploaded for status in found] == [((0, 1),), ((0, 1),)]
        assert len({status.table for status in found}) == 2, "one table for each broker"
        gauges = await store.condition.gauges()
        assert (gauges["tier_segments"], gauges["tier_lag_messages"], gauges["tier_problems"]) == (2, 0, 0)
        await world.stop(1)
        assert len(await store.condition.tiering()) == 1


async def test_the_object_store_is_accepted_by_all_brokers(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await world.start(tmp_path, 2, tier=TierSettings((tmp_path / "cold").as_uri(), **AT_ONCE))
        store = await world.store()
        await world.topic("t", queues=1, tier_seconds=10**9)
        for queue_id in (0, 10_000):
            assert await append_all(store, Message("t", b"a", queue_id=queue_id)) == [None]
        tiers = [each.broker.tier for each in world.brokers if each.broker.tier is not None]
        await until(lambda: all(tier.marks.end(*each) for tier in tiers for each in ends(tier)), "both have marks")
        before = [tier.marks.token for tier in tiers]
        await store.tables.accept("t")
        await until(lambda: all(tier.marks.end(*each) for tier in tiers for each in ends(tier)), "they are made anew")
        shutil.rmtree(tmp_path / "cold")
        await store.tables.accept("")
        await until(lambda: all(tier.marks.token not in ("", *before) for tier in tiers), "both have new marks")
        with pytest.raises(EntrepotError) as refused:
            await store.tables.accept("others")
        assert refused.value.code is Code.TOPIC_NOT_FOUND


def ends(tier: Tier) -> list[tuple[str, int]]:
    """The table and the world's queue of the topic at a broker."""
    return [(tier.root(tier._registry.topics["t"]), first_queue(tier.number))]
