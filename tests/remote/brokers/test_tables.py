"""A gateway has one of several brokers restore a topic, and attach a table; all learn of it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.tiering import AttachRequest, RestoreRequest
from entrepot.domain.topic import Permission
from entrepot.gateway.clock import SystemClock
from tests.support.brokers.broker_world import LAYOUT, BrokerWorld
from tests.support.brokers.served_broker import ServedBroker
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import AT_ONCE
from tests.support.waiting import until


async def brokers(world: BrokerWorld, stack: AsyncExitStack, directory: Path, *lives: str) -> None:
    """Numbers from 0 on, each with its own data, over one object store."""
    for number, life in enumerate(lives):
        tier = TierSettings((directory / "cold").as_uri(), number=number, **AT_ONCE)
        of_broker = BrokerSettings(directory / life, name=f"broker-{number}", layout=LAYOUT, tier=tier)
        served = await ServedBroker.open(of_broker, world.clock, number, keeps=number == 0)
        stack.push_async_callback(served.close)
        world.brokers.append(served)


def ends(world: BrokerWorld, topic: str = "t") -> list[dict[int, int]]:
    tiers = [served.broker.tier for served in world.brokers]
    return [told.ends for tier in tiers if tier for told in tier.progress.values() if told.topic == topic]


@pytest.mark.soak
async def test_the_part_of_a_broker_that_is_lost(tmp_path: Path) -> None:
    """Its table is found, its queues go on, and the topic is on both brokers as it was."""
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await brokers(world, stack, tmp_path, "a", "b")
        store = await world.store()
        await world.topic("t", queues=1, tier_seconds=10**9)
        for queue_id in (0, 10_000, 10_000):
            assert await append_all(store, Message("t", b"%d" % queue_id, queue_id=queue_id)) == [None]
        await until(lambda: sorted(ends(world), key=str) == [{0: 1}, {0: 2}], "all is uploaded")
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await brokers(world, stack, tmp_path, "a", "b2")  # the second one with an empty disk
        store = await world.store()
        await world.agree()
        assert [b.max_offset for b in await store.messages.bounds("t")] == [1, 0]
        for broker, words in (("", "name one: broker-0, broker-1"), ("broker-5", "no broker 'broker-5'")):
            with pytest.raises(EntrepotError) as raised:
                await store.tables.restore(RestoreRequest("t", broker=broker))
            assert raised.value.code is Code.BAD_REQUEST and words in raised.value.message
        tier = world.brokers[1].broker.tier
        await until(lambda: tier is not None and not tier.problem, "the store is reached")
        mine = world.brokers[0].broker.tier
        assert mine is not None
        own = mine.root(world.brokers[0].broker.registry.topics["t"])
        with pytest.raises(EntrepotError, match=r"broker\.number = 0"):
            await store.tables.restore(RestoreRequest("t", own, broker="broker-1", is_forced=True))
        found = await store.tables.restore(RestoreRequest("t", broker="broker-1", is_forced=True))
        assert [(b.queue_id, b.min_offset, b.max_offset) for b in found.queues] == [(10_000, 0, 2)]
        await world.agree()
        assert [(b.min_offset, b.max_offset) for b in await store.messages.bounds("t")] == [(0, 1), (0, 2)]
        assert [m.body for m in await store.messages.read("t", 10_000, 0, 9)] == [b"10000"] * 2
        assert await append_all(store, Message("t", b"new", queue_id=10_000)) == [None]
        await until(lambda: {0: 3} in ends(world), "the upload goes on")
        assert store.topology.topic("t").placement == ()  # type: ignore[union-attr]


async def test_a_topic_that_no_broker_knows(tmp_path: Path) -> None:
    """It is on the broker that restores it; others of that topic join in its placement.  And attached ones likewise."""
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await brokers(world, stack, tmp_path, "a", "b")
        store = await world.store()
        await world.topic("t", queues=1, tier_seconds=10**9)
        for queue_id in (0, 10_000, 10_000):
            assert await append_all(store, Message("t", b"%d" % queue_id, queue_id=queue_id)) == [None]
        await until(lambda: sorted(ends(world), key=str) == [{0: 1}, {0: 2}], "all is uploaded")
        topics = [served.broker.registry.topics["t"] for served in world.brokers]
        tables = [
            served.broker.tier.root(topic)  # type: ignore[union-attr]
            for served, topic in zip(world.brokers, topics, strict=True)
        ]
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await brokers(world, stack, tmp_path, "a2", "b2")
        store = await world.store()
        tiers = [served.broker.tier for served in world.brokers]
        await until(lambda: not any(tier.problem for tier in tiers if tier), "the store is reached")
        for number in (1, 0):
            request = RestoreRequest("t", tables[number], 10**9, is_forced=True, broker=f"broker-{number}")
            await store.tables.restore(request)
            await world.agree()
        assert store.topology.topic("t").placement == (("broker-0", 1), ("broker-1", 1))  # type: ignore[union-attr]
        assert [(b.min_offset, b.max_offset) for b in await store.messages.bounds("t")] == [(0, 1), (0, 2)]
        url = (tmp_path / "cold").as_uri()
        found = await store.tables.attach(AttachRequest(url, tables[1], "copy", broker="broker-0"))
        await world.agree()
        assert [(b.queue_id, b.min_offset, b.max_offset) for b in found.queues] == [(0, 0, 2)]
        assert store.topology.topic("copy").permission is Permission.READ  # type: ignore[union-attr]
        assert [m.body for m in await store.messages.read("copy", 0, 0, 9)] == [b"10000"] * 2
        await store.topology.delete_topic("copy")
        await world.agree()
        assert [m.body for m in await store.messages.read("t", 10_000, 0, 9)] == [b"10000"] * 2
