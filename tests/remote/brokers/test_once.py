"""What is not done again, and what is not told any more."""

from __future__ import annotations

import asyncio

from entrepot.broker.ports.availability import AvailabilityWatch
from entrepot.domain.message import Message
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld, sender_over
from tests.support.waiting import PATIENCE_SECONDS


async def test_a_message_for_further_queues_is_not_sent_again(world: BrokerWorld, store: RemoteStore):
    """One of its queues is away, and the other has taken it, perhaps."""
    await world.topic()
    await world.topic("u", queues=1)
    await world.stop(1)
    sent = Message("t", b"x", sub_topic="t", queue_id=0, further_queues=(("u", 10000),))
    refusals = await sender_over(store, world.clock).send_and_wait([sent])
    assert refusals is not None and refusals[0] is not None
    local = world.brokers[0].broker
    topic = local.topology.topic("t")
    assert topic is not None
    assert sum(each.max_offset for each in local.core.bounds_of(topic)) <= 1


async def test_a_watch_of_availability_that_was_closed_is_silent(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    told: list[str] = []
    watches = [
        AvailabilityWatch(world.brokers[0].broker.core, "t", "g", lambda name=name: told.append(name))  # type: ignore[misc]
        for name in ("closed", "open")
    ]
    for watch in watches:
        watch._woken()
    watches[0].close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not told:
            await asyncio.sleep(0)
    assert told == ["open"]
    assert watches[0]._timer is None
    watches[1].close()
