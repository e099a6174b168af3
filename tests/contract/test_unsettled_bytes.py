"""Bytes of what a group has not settled: those that wait, and those in flight."""

from __future__ import annotations

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup, UnsettledBytes
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic, TopicType
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, handles, pop

SIZES = range(20, 220)
"""Lengths of the bodies, which are as long as ids at least: more messages than are looked at."""


@pytest.fixture(autouse=True)
async def topic_and_group(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=2, type=TopicType.PRIORITY))
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10))


async def told(store: Store, group: str = "g") -> tuple[int, int]:
    found = await store.topology.unsettled_bytes(group, "t")
    assert isinstance(found, UnsettledBytes)
    return found.waiting, found.in_flight


async def test_a_message_counts_where_it_is(store: Store, clock: ManualClock):
    assert await told(store) == (0, 0)
    await append(store, "t", "a", "bb", "ccc", "dddd", queue_id=0)
    await append(store, "t", "eeeee", queue_id=1)
    assert await told(store) == (15, 0), "nobody has begun"
    found = await pop(store, "t", count=3)
    assert bodies(found) == ["eeeee", "a", "bb"]
    assert await told(store) == (7, 8)
    await store.consumption.acknowledge("t", "g", handles(found)[1:2])
    assert await told(store) == (7, 7)
    await store.consumption.change_invisible_duration("t", "g", handles(found)[:1], 60_000, release=True)
    assert await told(store) == (12, 2), "one that was given back waits, also for its time"
    clock.advance(10_000)
    assert await told(store) == (14, 0), "a lease has ended"


async def test_many_of_them_are_told_as_well(store: Store):
    await append(store, "t", *("x" * size for size in SIZES), queue_id=0)
    assert await told(store) == (sum(SIZES), 0)
    found = await pop(store, "t", count=90)
    assert await told(store) == (sum(SIZES[90:]), sum(SIZES[:90]))
    await store.consumption.acknowledge("t", "g", handles(found)[::2])
    assert await told(store) == (sum(SIZES[90:]), sum(SIZES[1:90:2]))


async def test_very_many_are_told_by_some_of_them(store: Store):
    """A queue is longer than what is read of it: its beginning, its end and what is between stand for the rest."""
    size, count = 64, 20_000
    for _ in range(count // 1000):
        await append(store, "t", *(b"x" * size for _ in range(1000)), queue_id=0)
    assert await told(store) == (size * count, 0)


async def test_a_group_that_begins_later_has_less(store: Store):
    await append(store, "t", "aaa", queue_id=0)
    await store.topology.put_group(ConsumerGroup("late", start="latest"))
    assert await told(store, "late") == (0, 0)
    assert await pop(store, "t", group="late") == []
    await append(store, "t", "bb", queue_id=0)
    assert await told(store, "late") == (2, 0)


async def test_what_is_not_there_is_refused(store: Store):
    for group, topic, code in (("g", "u", Code.TOPIC_NOT_FOUND), ("h", "t", Code.CONSUMER_GROUP_NOT_FOUND)):
        with pytest.raises(EntrepotError) as refused:
            await store.topology.unsettled_bytes(group, topic)
        assert refused.value.code is code
