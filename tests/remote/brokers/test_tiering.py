"""Gateways see how the tiers of all brokers stand."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from entrepot.broker.tiered.settings import TierSettings
from entrepot.domain.message import Message
from entrepot.gateway.clock import SystemClock
from tests.support.broker_world import BrokerWorld
from tests.support.cold_topics import AT_ONCE
from tests.support.store_steps import append_all
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
