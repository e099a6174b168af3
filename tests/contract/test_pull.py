"""Pulling: reading by offset without a group.  With filters: `test_filters`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from tests.support.stores.steps import append, append_all, bodies, handles, message, pop, refusal_of


@pytest.fixture(autouse=True)
async def ten_messages(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", *map(str, range(10)), queue_id=1)


async def test_pulling_says_where_to_go_on(store: Store):
    offset, found = 0, []
    while (pulled := await store.messages.pull("t", 1, offset, 4)).messages:
        assert 1 <= len(pulled.messages) <= 4
        assert (pulled.min_offset, pulled.max_offset) == (0, 10)
        assert pulled.next_offset == pulled.messages[-1].queue_offset + 1
        found += bodies(pulled.messages)
        offset = pulled.next_offset
    assert (found, offset) == ([*map(str, range(10))], 10)


async def test_at_the_end_there_is_nothing_yet(store: Store):
    pulled = await store.messages.pull("t", 1, 10, 4)
    assert (pulled.messages, pulled.next_offset, pulled.max_offset) == ([], 10, 10)
    await append(store, "t", "new", queue_id=1)
    assert bodies((await store.messages.pull("t", 1, 10, 4)).messages) == ["new"]


async def test_an_empty_queue(store: Store):
    pulled = await store.messages.pull("t", 0, 0, 4)
    assert (pulled.messages, pulled.next_offset, pulled.min_offset, pulled.max_offset) == ([], 0, 0, 0)


async def test_pulling_touches_no_group(store: Store):
    await pop(store, "t", count=3)
    before = await store.topology.group_status("g")
    assert bodies((await store.messages.pull("t", 1, 0, 100)).messages) == [*map(str, range(10))]
    assert await store.topology.group_status("g") == before


async def test_a_queue_that_came_back(store: Store):
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    await store.topology.put_topics([Topic("t", queues=1), Topic("t", queues=2)])
    pulled = await store.messages.pull("t", 1, 10, 4)
    assert (pulled.messages, pulled.next_offset, pulled.min_offset, pulled.max_offset) == ([], 10, 10, 10)
    assert await refusal_of(store.messages.pull("t", 1, 0, 4)) == Code.ILLEGAL_OFFSET


async def test_what_cannot_be_pulled(store: Store):
    for topic, queue_id, offset, code in (
        ("no", 0, 0, Code.TOPIC_NOT_FOUND),
        ("t", 2, 0, Code.TOPIC_NOT_FOUND),
        ("t", 1, -1, Code.ILLEGAL_OFFSET),
        ("t", 1, 11, Code.ILLEGAL_OFFSET),
    ):
        assert await refusal_of(store.messages.pull(topic, queue_id, offset, 4)) == code


async def test_offsets_that_may_match_a_topic_filter(store: Store):
    names = ["t/a/0", "t/b/1", "t/a/2", "t/b/3", "t/a/4", "t/b/5"]
    await append_all(
        store, *(replace(message("t", name), sub_topic=name, filter_hash=filter_hash(name)) for name in names)
    )
    matching: dict[str, set[int]] = {
        "t/#": {0, 1, 2, 3, 4, 5},
        "t/a/+": {0, 2, 4},
        "t/b/1": {1},
        "t/c": set(),
        "u/#": set(),
    }
    for topic_filter, wanted in matching.items():
        found: set[int] = set()
        offset = 0
        while offset < len(names):
            offsets, following = await store.messages.matching_offsets("t", 0, topic_filter, offset, 2)
            assert offsets == sorted(offsets)
            assert offset < following <= len(names)
            assert all(offset <= one < following for one in offsets)
            found.update(offsets)
            offset = following
        assert wanted <= found, topic_filter
    assert await refusal_of(store.messages.matching_offsets("t", 0, "a/#/b", 0, 1)) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await refusal_of(store.messages.matching_offsets("t", 0, "#", 7, 1)) == Code.ILLEGAL_OFFSET
