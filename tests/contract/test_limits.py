"""Limits of topics and groups: message size, backlog, messages in flight."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.message import SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.topic import Cleanup, Topic
from tests.contract.conftest import MAX_MESSAGE_BYTES
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop, refusal_of, settled
from tests.support.waiting import PATIENCE_SECONDS


async def test_a_topic_limits_the_size_of_its_messages(store: Store):
    await store.topology.put_topic(Topic("small", queues=1, max_message_bytes=10))
    await store.topology.put_topic(Topic("large", queues=1, max_message_bytes=MAX_MESSAGE_BYTES * 2))
    outcomes = await append_all(
        store,
        message("small", b"x" * 10),
        message("small", b"x" * 11),
        message("large", b"x" * MAX_MESSAGE_BYTES),
        message("large", b"x" * (MAX_MESSAGE_BYTES + 1)),
    )
    too_large = Code.MESSAGE_BODY_TOO_LARGE
    assert outcomes == [None, too_large, None, too_large], "the store's own limit holds beside it"


async def test_a_backlog_without_readers_has_no_limit(store: Store):
    await store.topology.put_topic(Topic("t", queues=1, max_backlog=2))
    await append(store, "t", *map(str, range(10)))
    assert len(await store.messages.read("t", 0, 0, 100)) == 10


async def test_a_topic_is_full_when_its_slowest_group_is_too_far_behind(store: Store):
    await store.topology.put_topic(Topic("t", queues=2, max_backlog=3))
    await pop(store, "t", "fast")
    await pop(store, "t", "slow")
    await append(store, "t", "a", "b", queue_id=0)
    await append(store, "t", "c", queue_id=1)
    await store.consumption.acknowledge("t", "fast", handles(await pop(store, "t", "fast")))
    assert await append_all(store, message("t", "x"), message("t", "y", 1)) == [Code.TOO_MANY_REQUESTS] * 2
    slow = await pop(store, "t", "slow")
    assert await append_all(store, message("t", "x")) == [Code.TOO_MANY_REQUESTS], "what is in flight counts"
    await store.consumption.acknowledge("t", "slow", handles(slow)[:1])
    assert await append_all(store, message("t", "d")) == [None]


async def test_a_backlog_counts_as_it_is_before_the_batch(store: Store):
    await store.topology.put_topic(Topic("t", queues=1, max_backlog=2))
    await pop(store, "t")
    await append(store, "t", *map(str, range(5)))
    assert await append_all(store, message("t", "x")) == [Code.TOO_MANY_REQUESTS]


async def test_a_full_topic_does_not_harm_its_neighbours(store: Store):
    await store.topology.put_topic(Topic("full", queues=1, max_backlog=1))
    await store.topology.put_topic(Topic("t", queues=1))
    await pop(store, "full")
    await append(store, "full", "a")
    assert await append_all(store, message("full", "x"), message("t", "a")) == [Code.TOO_MANY_REQUESTS, None]


async def test_a_deleted_group_holds_nobody_up(store: Store):
    await store.topology.put_topic(Topic("t", queues=1, max_backlog=1))
    await pop(store, "t")
    await append(store, "t", "a")
    await store.topology.delete_group("g")
    assert await append_all(store, message("t", "b")) == [None]


async def test_a_pop_gives_what_is_left_of_the_messages_in_flight(store: Store):
    await store.topology.put_topic(Topic("t", queues=2))
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=5))
    for queue_id in (0, 1):
        await append(store, "t", *map(str, range(10)), queue_id=queue_id)
    first = await pop(store, "t", count=3)
    assert (len(first), len(await pop(store, "t", count=100))) == (3, 2)
    await store.consumption.acknowledge("t", "g", handles(first)[:1])
    assert len(await pop(store, "t", count=100)) == 1


async def test_a_pop_beyond_the_messages_in_flight_is_refused_at_once(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=2))
    await append(store, "t", "a", "b", "c")
    await pop(store, "t")
    assert await refusal_of(pop(store, "t")) == Code.TOO_MANY_REQUESTS
    waiting = pop(store, "t", wait_ms=600_000)
    assert await refusal_of(asyncio.wait_for(waiting, PATIENCE_SECONDS)) == Code.TOO_MANY_REQUESTS, "long polls too"
    assert bodies(await pop(store, "t", "other")) == ["a", "b", "c"]


async def test_messages_in_flight_are_counted_by_topic(store: Store):
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=1))
    for name in ("t", "u"):
        await store.topology.put_topic(Topic(name, queues=1))
        await append(store, name, "a", "b")
        assert bodies(await pop(store, name)) == ["a"]


async def test_released_and_expired_messages_are_not_in_flight(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=2))
    await append(store, "t", "a", "b", "c", "d")
    found = await pop(store, "t", invisible_ms=1_000)
    await store.consumption.change_invisible_duration("t", "g", handles(found)[:1], 60_000, release=True)
    assert bodies(await pop(store, "t", invisible_ms=60_000)) == ["c"]
    clock.advance(1_000)
    assert len(await pop(store, "t", invisible_ms=60_000)) == 1


async def test_the_limit_can_be_changed(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    group = await store.topology.put_group(ConsumerGroup("g", max_in_flight=1))
    await append(store, "t", "a", "b", "c")
    assert len(await pop(store, "t")) == 1
    await store.topology.put_group(replace(group, max_in_flight=None))
    assert len(await pop(store, "t")) == 2


async def test_messages_of_a_compacted_topic_need_a_key(store: Store):
    await store.topology.put_topic(Topic("c", queues=1, cleanup=Cleanup.COMPACT))
    messages = [replace(message("c", "a"), keys=("k",)), message("c", "b"), replace(message("c", "c"), sub_topic="c/d")]
    assert await append_all(store, *messages) == [None, Code.BAD_REQUEST, None]
    assert bodies(await store.messages.read("c", 0, 0, 10)) == ["a", "c"]
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, replace(message("t", "d"), further_queues=(("c", 0),))) == [Code.BAD_REQUEST]
    half = replace(message("c", "e"), system={SystemProperty.TRANSACTION_ID: "x"})
    confirmation = store.transactions.append_half([half])
    await settled(confirmation)
    assert confirmation.refusals is not None
    assert codes(confirmation.refusals) == [Code.BAD_REQUEST]


async def test_a_message_that_no_record_can_hold_is_refused_alone(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    lone = "\ud800"
    odd = {
        "a property": message("t", "odd", properties=(("name", lone),)),
        "a property's name": message("t", "odd", properties=((lone, "value"),)),
        "a well-known property": message("t", "odd", system={SystemProperty.CONTENT_TYPE: lone}),
        "the sub-topic": replace(message("t", "odd"), sub_topic=f"t/{lone}"),
        "the tag": message("t", "odd", tag=lone),
        "a key": message("t", "odd", keys=("good", lone)),
        "the message group": message("t", "odd", message_group=lone),
        "the time of birth": message("t", "odd", born_time_ms=1 << 70),
        "a time before all others": message("t", "odd", born_time_ms=-5),
    }
    for what, each in odd.items():
        first, refused, last = await append_all(store, message("t", f"{what} 1"), each, message("t", f"{what} 2"))
        assert (first, last) == (None, None), what
        assert refused in (Code.BAD_REQUEST, Code.MESSAGE_PROPERTIES_TOO_LARGE), what
        assert await append_all(store, each) == [refused], what
    expected = [f"{what} {number}" for what in odd for number in (1, 2)]
    assert [each.body.decode() for each in await store.messages.read("t", 0, 0, 100)] == expected
