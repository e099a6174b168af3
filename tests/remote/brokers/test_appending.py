"""Appends over several brokers: each part to its owner, confirmed by itself, and never before it is durable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import ROUND_ROBIN, Message
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.send import Sender
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld, sender_over
from tests.support.stores.steps import append, append_all, bodies, codes, message, settled
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.tiers.marks import soak_only


async def send(sender: Sender, *messages: Message) -> list[Code | None]:
    refusals = await asyncio.wait_for(sender.send_and_wait(messages), PATIENCE_SECONDS)
    return [None] * len(messages) if refusals is None else codes(refusals)


def anywhere(body: str, group: str | None = None) -> Message:
    return message("t", body, ROUND_ROBIN, message_group=group or "")


async def stored(store: RemoteStore, topic: str = "t") -> dict[int, list[str]]:
    found = {
        b.queue_id: await store.messages.read(topic, b.queue_id, b.min_offset, 1000)
        for b in await store.messages.bounds(topic)
    }
    return {queue_id: bodies(messages) for queue_id, messages in found.items()}


async def test_a_batch_goes_to_the_owners_of_its_queues(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    sent = [message("t", f"m{i}", queue_id) for i, queue_id in enumerate([0, 10001, 1, 10000, 10001])]
    assert await append_all(store, *sent) == [None] * 5
    assert await stored(store) == {0: ["m0"], 1: ["m2"], 10000: ["m3"], 10001: ["m1", "m4"]}
    own = await world.brokers[1].broker.messages.read("t", 1, 0, 10)
    assert (bodies(own), own[0].queue_id) == (["m1", "m4"], 1), "the broker knows its own numbers only"


@pytest.mark.parametrize("queue_id", [2, 10002, 20000, -1])
async def test_queues_that_are_not_there(world: BrokerWorld, store: RemoteStore, queue_id: int):
    await world.topic()
    assert await append_all(store, message("t", "a", 10000), message("t", "b", queue_id)) == [
        None,
        Code.TOPIC_NOT_FOUND,
    ]


async def test_a_batch_is_not_confirmed_because_its_first_part_was_refused(tmp_path: Any, world: BrokerWorld):
    store = await world.store()
    await world.topic()
    await world.stop(0)
    world.brokers[1].hang()
    confirmation = store.messages.append([message("t", "a", 0), message("t", "b", 10000)])
    told: list[EntrepotError | None] = []
    confirmation.when_settled(told.append)
    assert (told, confirmation.settled) == ([], False), "the other part is under way"
    world.brokers[1].hang(False)
    assert await settled(confirmation) is None
    assert confirmation.refusals is not None
    assert codes(confirmation.refusals) == [Code.UNAVAILABLE, None]
    assert (await stored(store))[10000] == ["b"]


@pytest.mark.parametrize("is_for_good", [False, soak_only(True)])
async def test_a_hung_broker_holds_up_its_own_messages_only(world: BrokerWorld, is_for_good: bool):
    store = await world.store(request_seconds=5.0 if is_for_good else 2 * PATIENCE_SECONDS)
    await world.topic()
    world.brokers[0].hang()
    confirmation = store.messages.append([message("t", "a", 0), message("t", "b", 10000)])
    told: list[tuple[str, EntrepotError | None]] = []
    confirmation.when_settled(lambda failure: told.append(("a", failure)), 0, 1)
    confirmation.when_settled(lambda failure: told.append(("b", failure)), 1, 2)
    await until(lambda: told, "the healthy broker confirms")
    assert told == [("b", None)]
    world.brokers[0].hang(is_for_good)
    await until(lambda: len(told) == 2, "the hung one's outcome is told in bounded time")
    failure = told[1][1]
    assert (failure and failure.code) == (Code.OUTCOME_UNKNOWN if is_for_good else None)
    world.brokers[0].hang(False)


async def test_a_message_with_further_queues_on_several_brokers(world: BrokerWorld, store: RemoteStore):
    await world.topic("t")
    await world.topic("u")
    both = message("t", "a", 0, further_queues=(("u", 1), ("u", 10000), ("t", 10001)))
    assert await append_all(store, both) == [None]
    assert await stored(store, "t") == {0: ["a"], 1: [], 10000: [], 10001: ["a"]}
    assert await stored(store, "u") == {0: [], 1: ["a"], 10000: ["a"], 10001: []}


async def test_messages_without_key_are_spread_over_all_queues(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    assert set(await send(sender_over(store, world.clock), *(anywhere(f"m{i}") for i in range(40)))) == {None}
    assert [len(found) for found in (await stored(store)).values()] == [10] * 4


async def test_messages_without_key_go_to_the_brokers_that_are_there(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    sender = sender_over(store, world.clock)
    await world.brokers[0].stop()  # not noticed yet: some go there, and once more elsewhere
    assert set(await send(sender, *(anywhere(f"m{i}") for i in range(20)))) <= {None}
    await until(lambda: len(store.cluster.ready) == 1, "it is away")
    assert set(await send(sender, *(anywhere(f"n{i}") for i in range(20)))) == {None}
    await world.serve(0)
    got = [body for found in (await stored(store)).values() for body in found]
    assert sorted(got) == sorted(f"{letter}{i}" for letter in "mn" for i in range(20))


async def test_messages_with_a_key_wait_for_their_broker(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    sender = sender_over(store, world.clock)
    keys = [f"k{i}" for i in range(20)]
    assert set(await send(sender, *(anywhere(f"0-{key}", key) for key in keys))) == {None}
    home = {body[2:]: queue_id for queue_id, found in (await stored(store)).items() for body in found}
    assert {broker_of_queue(queue_id) for queue_id in home.values()} == {0, 1}
    await world.stop(1)
    refusals = await send(sender, *(anywhere(f"1-{key}", key) for key in keys))
    assert refusals == [Code.UNAVAILABLE if home[key] >= 10000 else None for key in keys]
    await world.serve(1)
    assert set(await send(sender, *(anywhere(f"2-{key}", key) for key in keys))) == {None}
    for queue_id, found in (await stored(store)).items():
        assert {home[body[2:]] for body in found} <= {queue_id}, "a key stays where it was"


async def test_a_draining_broker_gets_nothing_new(world: BrokerWorld, store: RemoteStore):
    topic = await world.topic()
    sender = sender_over(store, world.clock)
    await send(sender, *(anywhere(f"m{i}") for i in range(8)))
    world.brokers[1].is_draining = True
    world.brokers[1].service.info_changed()
    await until(lambda: store.topology.queues(topic).writable == (0, 1), "it is known to drain")
    assert store.topology.queues(topic).preferred == (0, 1)
    assert store.topology.queues(topic).readable == (0, 1, 10000, 10001)
    await send(sender, *(anywhere(f"n{i}") for i in range(8)), *(anywhere(f"k{i}", f"k{i}") for i in range(8)))
    found = await stored(store)
    assert {body[0] for queue_id in (10000, 10001) for body in found[queue_id]} == {"m"}
    world.brokers[1].is_draining = False
    world.brokers[1].service.info_changed()
    await until(lambda: store.topology.queues(topic).writable == (0, 1, 10000, 10001), "it takes part again")


async def test_brokers_of_the_own_zone_are_preferred(world: BrokerWorld):
    for served, zone in zip(world.brokers, ("east", "west"), strict=True):
        served.zone = zone
    west = await world.store(zone="west")
    none = await world.store(zone="north")
    topic = await world.topic()
    assert west.topology.queues(topic).preferred == (10000, 10001)
    assert west.topology.queues(topic).writable == (0, 1, 10000, 10001)
    assert none.topology.queues(topic).preferred == (0, 1, 10000, 10001)
    await world.stop(1)
    assert west.topology.queues(topic).preferred == (0, 1), "a far one rather than none"


async def test_a_slow_broker_is_avoided_for_a_while(world: BrokerWorld, store: RemoteStore):
    topic = await world.topic()
    slow = store.cluster.of_number(1)
    assert slow is not None
    store.cluster.took(slow, 0.6)
    assert store.topology.queues(topic).preferred == (0, 1)
    assert store.topology.queues(topic).writable == (0, 1, 10000, 10001), "keys do not wander"
    await until(lambda: len(store.topology.queues(topic).preferred) == 4, "it is tried again")


async def test_a_slow_broker_is_better_than_one_that_is_away(world: BrokerWorld, store: RemoteStore):
    topic = await world.topic()
    slow = store.cluster.of_number(1)
    assert slow is not None
    store.cluster.took(slow, 2.0)
    await world.stop(0)
    assert store.topology.queues(topic).preferred == (10000, 10001)
    sender = sender_over(store, world.clock)
    assert set(await send(sender, *(anywhere(f"m{i}") for i in range(12)))) == {None}


async def test_nothing_goes_to_a_broker_that_a_topic_is_not_placed_on(world: BrokerWorld, store: RemoteStore):
    topic = await world.topic(placement=(("broker-0", 3),))
    assert store.topology.queues(topic).readable == (0, 1, 2)
    assert await append_all(store, message("t", "a", 2), message("t", "b", 10000)) == [None, Code.TOPIC_NOT_FOUND]
    sender = sender_over(store, world.clock)
    assert set(await send(sender, *(anywhere(f"m{i}") for i in range(9)))) == {None}
    assert [len(found) for found in (await stored(store)).values()] == [3, 3, 4]


async def test_a_placement_does_not_shrink_away_what_is_not_drained(world: BrokerWorld, store: RemoteStore):
    await world.topic(queues=1)
    await append(store, "t", "a", queue_id=10000)
    with pytest.raises(EntrepotError) as refused:
        await store.topology.put_topic(Topic("t", queues=1, placement=(("broker-0", 1),)))
    assert refused.value.code == Code.PRECONDITION_FAILED
    await world.agree()
    assert (await stored(store))[10000] == ["a"]
