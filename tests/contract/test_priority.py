"""Priority topics: the highest queue first."""

from __future__ import annotations

import pytest

from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic, TopicType
from tests.support.stores.steps import append, bodies, handles, pop


@pytest.fixture(autouse=True)
async def topic(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=3, type=TopicType.PRIORITY))


async def test_the_highest_queue_is_popped_first(store: Store):
    for queue_id in (1, 0, 2):
        await append(store, "t", f"a{queue_id}", f"b{queue_id}", queue_id=queue_id)
    assert bodies(await pop(store, "t", count=3)) == ["a2", "b2", "a1"]
    assert bodies(await pop(store, "t", count=1)) == ["b1"]
    assert bodies(await pop(store, "t", count=10)) == ["a0", "b0"]


async def test_it_is_so_at_every_pop(store: Store):
    await append(store, "t", *(f"low{i}" for i in range(20)), queue_id=0)
    for i in range(10):
        await append(store, "t", f"high{i}", queue_id=2)
        assert bodies(await pop(store, "t", count=1)) == [f"high{i}"]
    assert bodies(await pop(store, "t", count=1)) == ["low0"]


async def test_what_is_given_back_has_its_priority_still(store: Store):
    await append(store, "t", "high", queue_id=2)
    await append(store, "t", "middle", queue_id=1)
    found = await pop(store, "t", count=1)
    await store.consumption.change_invisible_duration("t", "g", handles(found), 0, release=True)
    assert bodies(await pop(store, "t", count=1)) == ["high"]


async def test_a_queue_that_comes_later_is_the_highest(store: Store):
    await append(store, "t", "middle", queue_id=2)
    await pop(store, "t", count=1)
    await append(store, "t", "a", queue_id=2)
    await store.topology.put_topic(Topic("t", queues=5, type=TopicType.PRIORITY))
    await append(store, "t", "b", queue_id=4)
    assert bodies(await pop(store, "t", count=2)) == ["b", "a"]
