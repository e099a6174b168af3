"""Finding messages, and what became of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.query import MAX_QUERY_MESSAGES, ConsumptionState, MessageConsumer, MessageQuery
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, append_all, bodies, handles, message, pop, refusal_of

START_MS = ManualClock().now_ms()


@pytest.fixture(autouse=True)
async def topics(store: Store) -> None:
    await store.topology.put_topics([Topic("t", queues=2), Topic("u", queues=1)])


def keyed(body: str, *keys: str, topic: str = "t", queue_id: int = 0) -> Message:
    return replace(message(topic, body, queue_id), keys=keys)


async def found(store: Store, query: MessageQuery) -> list[str]:
    """All pages of a query."""
    messages: list[StoredMessage] = []
    page = await store.finder.query(query)
    messages += page.messages
    while page.next is not None:
        page = await store.finder.query(replace(query, cursor=page.next))
        messages += page.messages
    return bodies(messages)


# -- by topic, key and time ------------------------------------------------------------------------------------------


async def test_messages_of_a_topic_come_newest_first(store: Store):
    for i in range(6):
        await append(store, "t", f"m{i}", queue_id=i % 2)
        await append(store, "u", f"other{i}")
    page = await store.finder.query(MessageQuery("t"))
    assert bodies(page.messages) == ["m5", "m4", "m3", "m2", "m1", "m0"]
    assert page.next is None
    assert [(m.topic, m.queue_id, m.queue_offset) for m in page.messages[:2]] == [("t", 1, 2), ("t", 0, 2)]


async def test_an_empty_topic(store: Store):
    page = await store.finder.query(MessageQuery("t"))
    assert (page.messages, page.next) == ([], None)


async def test_messages_are_found_by_key(store: Store):
    await append_all(
        store,
        keyed("a", "k1"),
        keyed("b", "k1", "k2"),
        keyed("c", "k2", queue_id=1),
        keyed("d"),
        keyed("e", "k1", topic="u"),
        keyed("f", "K1"),
    )
    assert await found(store, MessageQuery("t", key="k1")) == ["b", "a"]
    assert await found(store, MessageQuery("t", key="k2")) == ["c", "b"]
    assert await found(store, MessageQuery("t", key="k")) == []
    assert await found(store, MessageQuery("u", key="k1")) == ["e"]


async def test_messages_are_found_by_time(store: Store, clock: ManualClock):
    for i in range(5):
        await append_all(store, keyed(f"m{i}", "even" if i % 2 == 0 else "odd"))
        clock.advance(1_000)
    second = START_MS + 1_000
    assert await found(store, MessageQuery("t", from_ms=second)) == ["m4", "m3", "m2", "m1"]
    assert await found(store, MessageQuery("t", from_ms=second + 1)) == ["m4", "m3", "m2"]
    assert await found(store, MessageQuery("t", to_ms=second)) == ["m0"], "the end is not part of it"
    assert await found(store, MessageQuery("t", from_ms=second, to_ms=second + 2_000)) == ["m2", "m1"]
    assert await found(store, MessageQuery("t", "even", second, second + 3_000)) == ["m2"]
    assert await found(store, MessageQuery("t", from_ms=second, to_ms=second)) == []


async def test_page_by_page(store: Store):
    await append_all(store, *(keyed(f"m{i}", "k" if i % 3 else "other", queue_id=i % 2) for i in range(12)))
    for limit in (1, 2, 3, 7, 100):
        page = await store.finder.query(MessageQuery("t", limit=limit))
        assert 1 <= len(page.messages) <= limit
        assert await found(store, MessageQuery("t", limit=limit)) == [f"m{i}" for i in reversed(range(12))]
        with_key = [f"m{i}" for i in reversed(range(12)) if i % 3]
        assert await found(store, MessageQuery("t", key="k", limit=limit)) == with_key


async def test_a_page_has_its_limits(store: Store):
    await append(store, "t", *(f"{i:04d}" for i in range(MAX_QUERY_MESSAGES + 5)))
    assert len((await store.finder.query(MessageQuery("t", limit=1_000_000))).messages) == MAX_QUERY_MESSAGES
    for limit in (0, -7):
        assert len((await store.finder.query(MessageQuery("t", limit=limit))).messages) == 1


async def test_what_comes_meanwhile_does_not_disturb_the_pages(store: Store):
    await append(store, "t", "a", "b", "c")
    first = await store.finder.query(MessageQuery("t", limit=2))
    await append(store, "t", "new")
    second = await store.finder.query(MessageQuery("t", limit=2, cursor=first.next))
    assert (bodies(first.messages), bodies(second.messages), second.next) == (["c", "b"], ["a"], None)


async def test_what_cannot_be_queried(store: Store):
    assert await refusal_of(store.finder.query(MessageQuery("no"))) == Code.TOPIC_NOT_FOUND
    for cursor in ("", "not a cursor", "-1", "\u0663", "9" * 5_000):
        assert await refusal_of(store.finder.query(MessageQuery("t", cursor=cursor))) == Code.BAD_REQUEST


async def test_a_message_is_found_under_the_topic_it_was_sent_to(store: Store):
    await append(store, "u", "before")
    await append_all(store, replace(keyed("m", "k", queue_id=1), further_queues=(("u", 0), ("t", 0))))
    [first] = (await store.finder.query(MessageQuery("t", key="k"))).messages
    assert (first.body, first.topic, first.queue_id, first.queue_offset) == (b"m", "t", 1, 0)
    assert await found(store, MessageQuery("u")) == ["before"]
    assert [(m.queue_id, m.queue_offset) for m in await store.finder.messages_by_id(b"m")] == [(1, 0)]


async def test_a_deleted_topic_has_no_messages_to_find(store: Store):
    await append_all(store, keyed("old", "k"))
    await store.topology.delete_topic("t")
    assert await refusal_of(store.finder.query(MessageQuery("t"))) == Code.TOPIC_NOT_FOUND
    await store.topology.put_topic(Topic("t", queues=2))
    assert await found(store, MessageQuery("t", key="k")) == []


# -- by id and place -------------------------------------------------------------------------------------------------


async def test_every_message_with_an_id(store: Store):
    await append_all(store, message("t", "twin"), message("t", "other"), message("u", "twin"), message("t", "twin", 1))
    twins = await store.finder.messages_by_id(b"twin")
    assert [(m.topic, m.queue_id) for m in twins] == [("t", 1), ("u", 0), ("t", 0)]
    assert await store.finder.messages_by_id(b"nobody") == []


async def test_a_dead_letter_is_found_by_the_id_of_its_message(store: Store):
    await append(store, "t", "a")
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    assert [m.topic for m in await store.finder.messages_by_id(b"a")] == ["%DLQ%g", "t"]
    assert await found(store, MessageQuery("%DLQ%g")) == ["a"]


async def test_the_message_at_a_place(store: Store):
    await append(store, "t", "a", "b", queue_id=1)
    for stored in await store.messages.read("t", 1, 0, 10):
        assert await store.finder.message_at(stored.commit_log_offset) == stored
    assert await refusal_of(store.finder.message_at(1 << 50)) == Code.OFFSET_NOT_FOUND
    assert await refusal_of(store.finder.message_at(-1)) == Code.OFFSET_NOT_FOUND


# -- what became of it -----------------------------------------------------------------------------------------------


async def state_for_g(store: Store) -> tuple[ConsumptionState, int]:
    [stored] = [m for m in await store.finder.messages_by_id(b"m") if m.topic == "t"]
    [consumer] = [c for c in await store.finder.message_consumers(stored) if c.group == "g"]
    return consumer.state, consumer.attempts


async def test_a_message_on_its_way(store: Store, clock: ManualClock):
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10))
    await pop(store, "t")
    await append(store, "t", "m")
    assert await state_for_g(store) == (ConsumptionState.NOT_YET, 0)
    await pop(store, "t")
    assert await state_for_g(store) == (ConsumptionState.IN_FLIGHT, 1)
    clock.advance(10_000)
    assert await state_for_g(store) == (ConsumptionState.NOT_YET, 1)
    again = handles(await pop(store, "t"))
    assert await state_for_g(store) == (ConsumptionState.IN_FLIGHT, 2)
    await store.consumption.change_invisible_duration("t", "g", again, 1_000, release=True)
    assert await state_for_g(store) == (ConsumptionState.NOT_YET, 2)
    clock.advance(1_000)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    assert (await state_for_g(store))[0] is ConsumptionState.CONSUMED


async def test_a_message_that_was_rejected(store: Store):
    await append(store, "t", "m")
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    assert await state_for_g(store) == (ConsumptionState.DEAD_LETTERED, 1)


async def test_groups_come_by_name_and_only_those_that_read_the_topic(store: Store):
    await append(store, "t", "m")
    await store.topology.put_group(ConsumerGroup("idle"))
    await pop(store, "u", "elsewhere")
    await store.consumption.acknowledge("t", "z", handles(await pop(store, "t", "z")))
    await pop(store, "t", "a")
    [stored] = await store.finder.messages_by_id(b"m")
    consumers = await store.finder.message_consumers(stored)
    assert [(c.group, c.state) for c in consumers] == [
        ("a", ConsumptionState.IN_FLIGHT),
        ("z", ConsumptionState.CONSUMED),
    ]
    assert consumers[0] == MessageConsumer("a", ConsumptionState.IN_FLIGHT, 1)


async def test_what_a_group_began_behind_counts_as_consumed(store: Store):
    await append(store, "t", "m")
    await store.topology.put_group(ConsumerGroup("g", start="latest"))
    await pop(store, "t")
    assert (await state_for_g(store))[0] is ConsumptionState.CONSUMED


async def test_each_message_for_itself(store: Store):
    await append(store, "t", "before", "m", "after")
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t"))[1:2])
    assert (await state_for_g(store))[0] is ConsumptionState.CONSUMED
    [after] = await store.finder.messages_by_id(b"after")
    assert [c.state for c in await store.finder.message_consumers(after)] == [ConsumptionState.IN_FLIGHT]


async def test_nobody_reads_the_topic(store: Store):
    await append(store, "t", "m")
    [stored] = await store.finder.messages_by_id(b"m")
    assert await store.finder.message_consumers(stored) == []
