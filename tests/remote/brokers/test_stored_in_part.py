"""A publish of QoS 2 for queues of two brokers, one of which is away: it is once in each, whoever sends it again."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from entrepot.domain.errors import Code
from entrepot.domain.message import Message
from entrepot.gateway.messaging.partly_stored import store_the_rest
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld, sender_over
from tests.support.stores.steps import append_all, bodies, settled
from tests.support.waiting import until

SPREAD = Message("t", b"x", queue_id=0, message_id=b"0123456789abcdef", born_time_ms=1, further_queues=(("u", 10000),))


async def copies(store: RemoteStore, topic: str) -> list[str]:
    return [
        body
        for bounds in await store.messages.bounds(topic)
        for body in bodies(await store.messages.read(topic, bounds.queue_id, bounds.min_offset, 100))
    ]


async def test_the_rest_is_stored_once_the_other_broker_is_back(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
) -> None:
    await world.topic("t")
    await world.topic("u")
    await world.stop(1)
    assert await append_all(store, replace(SPREAD)) == [Code.OUTCOME_UNKNOWN], "it is in one of its queues"
    await world.serve(1)
    found = await other.finder.messages_by_id(SPREAD.message_id, everywhere=True)
    assert [each.topic for each in found] == ["t"]
    await store_the_rest(other, sender_over(other, world.clock), replace(SPREAD), found)
    assert (await copies(store, "t"), await copies(store, "u")) == (["x"], ["x"])


async def test_the_rest_is_not_stored_beside_a_first_try_that_is_under_way(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
) -> None:
    """Both gateways waited for the same broker."""
    await world.topic("t")
    await world.topic("u")
    assert await append_all(store, SPREAD.placed([("t", 0)])) == [None]
    found = await other.finder.messages_by_id(SPREAD.message_id, everywhere=True)
    core = world.brokers[1].broker.core
    core.commit.hold()
    before = core.engine.end
    first = store.messages.append([SPREAD.placed([("u", 10000)])])
    await until(lambda: core.engine.end > before, "the broker has it from the first one")
    second = asyncio.ensure_future(store_the_rest(other, sender_over(other, world.clock), replace(SPREAD), found))
    await asyncio.sleep(0)  # it sends
    await other.messages.bounds("u")  # behind it
    core.commit.go_on()
    assert await settled(first) is None
    await second
    assert (await copies(store, "t"), await copies(store, "u")) == (["x"], ["x"])
