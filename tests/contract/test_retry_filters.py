"""Filters of messages that wait in a retry topic: whoever receives them says which it wants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all, bodies, handles, message, pop, topics_of


@pytest.fixture
def hold_back_limit() -> int:
    return 4


@pytest.mark.parametrize(("tag", "found"), [("a", ["0"]), ("b", [])])
async def test_a_message_that_waits_in_the_retry_topic_is_filtered(
    store: Store, clock: ManualClock, tag: str, found: list[str]
):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10))
    tagged = [replace(message("t", str(number)), tag="a", filter_hash=filter_hash("t", "a")) for number in range(6)]
    assert await append_all(store, *tagged) == [None] * 6
    first, *others = handles(await pop(store, "t"))
    await store.consumption.change_invisible_duration("t", "g", [first], 60_000, release=True)
    await store.consumption.acknowledge("t", "g", others)
    assert await pop(store, "t") == []
    assert "%RETRY%g+t" in topics_of(store)
    clock.advance(60_000)
    wanted = FilterExpression(FilterKind.TAG, tag)
    assert bodies(await store.consumption.pop(PopRequest("t", "g", 32, filter=wanted))) == found
    clock.advance(60_000)
    assert bodies(await pop(store, "t")) == found
