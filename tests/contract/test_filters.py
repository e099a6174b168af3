"""Filters: what a group or a pop wants of a topic, and pulling with one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import MAX_SUB_TOPIC_FILTERS, FilterExpression, FilterKind, sub_topic_filters
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message, PropertyValue
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.query import ConsumptionState
from entrepot.domain.routing.topic_filter import matches
from entrepot.domain.topic import Topic
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import LONG_POLL_MS, append_all, bodies, handles, message, pop, refusal_of
from tests.tiers.marks import scaled

A_OR_B = FilterExpression(FilterKind.TAG, "a || b")
ONLY_A = FilterExpression(FilterKind.TAG, "a")
ONLY_B = FilterExpression(FilterKind.TAG, "b")
DEAR_AND_RED = FilterExpression(FilterKind.SQL92, "price > 10 AND color = 'red'")


@pytest.fixture(autouse=True)
async def topic(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=1))


def tagged(body: str, tag: str) -> Message:
    return replace(message("t", body), tag=tag, filter_hash=filter_hash("t", tag))


def named(body: str, sub_topic: str) -> Message:
    return replace(message("t", body), sub_topic=sub_topic, filter_hash=filter_hash(sub_topic))


def sold(body: str, **properties: PropertyValue) -> Message:
    return replace(message("t", body), properties=tuple(properties.items()), filter_hash=filter_hash("t"))


async def send(store: Store, *messages: Message) -> None:
    assert await append_all(store, *messages) == [None] * len(messages)


async def send_tags(store: Store, *tags: str) -> None:
    """Messages called by their tag and their number: "a0", "b1"."""
    await send(store, *(tagged(f"{tag}{i}", tag) for i, tag in enumerate(tags)))


async def filtered(
    store: Store, expression: FilterExpression | None, group: str = "g", count: int = 32
) -> Sequence[Delivery]:
    return await store.consumption.pop(PopRequest("t", group, count, filter=expression))


async def lag(store: Store, group: str = "g") -> tuple[int, int]:
    [progress] = (await store.topology.group_status(group)).progress
    return progress.committed_offset, progress.lag


# -- what is wanted --------------------------------------------------------------------------------------------------


async def test_messages_are_filtered_by_tags(store: Store):
    await send_tags(store, "a", "b", "c", "", "a", "A")
    assert bodies(await filtered(store, A_OR_B)) == ["a0", "b1", "a4"]


async def test_a_star_takes_every_tag(store: Store):
    await send_tags(store, "a", "", "b")
    assert len(await filtered(store, FilterExpression(FilterKind.TAG, "*"))) == 3


async def test_messages_are_filtered_by_properties(store: Store):
    await send(
        store,
        sold("good", price="11", color="red"),
        sold("cheap", price="10", color="red"),
        sold("green", price="50", color="green"),
        sold("no price", color="red"),
        sold("nothing"),
        sold("also good", color="red", price="10.5", size="L"),
    )
    assert bodies(await filtered(store, DEAR_AND_RED)) == ["good", "also good"]


async def test_by_sub_topics(store: Store):
    await send(
        store,
        named("root", "t"),
        named("deep", "t/line1/temp/max"),
        named("one", "t/line1/temp"),
        named("two", "t/line2/temp"),
    )
    for number, (text, expected) in enumerate(
        (
            ("t/#", ["root", "deep", "one", "two"]),
            ("t/+/temp", ["one", "two"]),
            ("t/line1/#", ["deep", "one"]),
            ("t/line2/temp", ["two"]),
            ("t", ["root"]),
            ("other/#", []),
        )
    ):
        wanted = FilterExpression(FilterKind.SUB_TOPIC, text)
        assert bodies(await filtered(store, wanted, f"g{number}")) == expected, text


async def pulled(store: Store, expression: FilterExpression, batch: int) -> list[str]:
    """Everything of the queue that an expression wants, a few at a time."""
    found: list[str] = []
    offset = 0
    while True:
        part = await store.messages.pull("t", 0, offset, batch, expression)
        found += bodies(part.messages)
        if part.next_offset >= part.max_offset:
            return found
        assert part.next_offset > offset
        offset = part.next_offset


async def test_by_several_topic_filters(store: Store):
    """What several of them want comes once."""
    await send(store, named("root", "t"), named("a", "t/a"), named("b", "t/b"), named("deep", "t/a/c"))
    for number, (filters, expected) in enumerate(
        (
            (["t/a", "t/b"], ["a", "b"]),
            (["t/a", "t/#"], ["root", "a", "b", "deep"]),
            (["t/+", "t/a", "+/a"], ["a", "b"]),
            (["t", "t/a/c"], ["root", "deep"]),
            (["other", "t/x"], []),
            (["t/a", "t/a"], ["a"]),
        )
    ):
        wanted = sub_topic_filters(filters)
        assert await pulled(store, wanted, 1) == expected, filters
        assert await pulled(store, wanted, 10) == expected, filters
        assert bodies(await filtered(store, wanted, f"g{number}")) == expected, filters


@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(scaled(2, 10)))
async def test_several_topic_filters_against_a_model(store: Store, seed: int):
    print(f"seed {seed}")
    rng = random.Random(seed)
    levels = ["a", "b", "c", ""]
    names = ["/".join(["t", *rng.choices(levels, k=rng.randint(0, 3))]) for _ in range(25)]
    sent = [(str(number), rng.choice(names)) for number in range(400)]
    for start in range(0, len(sent), 50):
        await send(store, *(named(body, name) for body, name in sent[start : start + 50]))
    for _ in range(12):
        filters = [_random_filter(rng, names) for _ in range(rng.choice([1, 2, 3, 8, MAX_SUB_TOPIC_FILTERS]))]
        expected = [body for body, name in sent if any(matches(each, name) for each in filters)]
        assert await pulled(store, sub_topic_filters(filters), rng.choice([1, 7, 64, 500])) == expected, filters


def _random_filter(rng: random.Random, names: list[str]) -> str:
    """A name, of which some levels became wildcards."""
    levels = [level if rng.random() < 0.7 else "+" for level in rng.choice(names).split("/")]
    if rng.random() < 0.3:
        levels[rng.randint(1, len(levels)) :] = ["#"]
    return "/".join(levels)


@cases(
    "text",
    ["t/a\0", "\0t/a", "t/a\0\0t/b", "t/a\0t/#/b", "\0".join(["t"] * (MAX_SUB_TOPIC_FILTERS + 1))],
    ids=["empty last", "empty first", "empty between", "one is bad", "too many"],
)
async def test_several_topic_filters_of_which_one_is_none_are_refused(store: Store, text: str):
    bad = FilterExpression(FilterKind.SUB_TOPIC, text)
    assert await refusal_of(store.messages.pull("t", 0, 0, 10, bad)) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await refusal_of(filtered(store, bad)) == Code.ILLEGAL_FILTER_EXPRESSION


async def test_an_expression_that_is_none_is_refused(store: Store):
    bad = FilterExpression(FilterKind.SQL92, "price >")
    assert await refusal_of(filtered(store, bad)) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await refusal_of(store.messages.pull("t", 0, 0, 10, bad)) == Code.ILLEGAL_FILTER_EXPRESSION


# -- groups ----------------------------------------------------------------------------------------------------------


async def test_a_group_has_a_filter_of_its_own(store: Store):
    await store.topology.put_group(ConsumerGroup("g", filter=ONLY_A))
    assert store.topology.group("g") == ConsumerGroup("g", filter=ONLY_A)
    await send_tags(store, "a", "b", "a")
    assert bodies(await pop(store, "t")) == ["a0", "a2"]
    assert bodies(await pop(store, "t", "other")) == ["a0", "b1", "a2"]


async def test_a_pop_may_say_otherwise(store: Store):
    await store.topology.put_group(ConsumerGroup("g", filter=ONLY_A))
    await send_tags(store, "a", "b", "a", "c")
    assert bodies(await filtered(store, ONLY_B)) == ["b1"]
    assert await pop(store, "t") == [], "what the pop did not want is settled"


async def test_what_is_not_wanted_is_settled(store: Store, clock: ManualClock):
    await send_tags(store, "b", "b", "a", "b")
    found = await filtered(store, ONLY_A)
    await store.consumption.acknowledge("t", "g", handles(found))
    assert bodies(found) == ["a2"]
    assert await lag(store) == (4, 0)
    clock.advance(1_000_000)
    assert await filtered(store, None) == []


async def test_a_pop_passes_over_any_number_of_them(store: Store):
    await send_tags(store, *["b"] * 300, "a", *["b"] * 300, "a")
    assert bodies(await filtered(store, ONLY_A, count=1)) == ["a300"]
    assert bodies(await filtered(store, ONLY_A, count=1)) == ["a601"]


async def test_lag_counts_what_was_not_looked_at(store: Store):
    await send_tags(store, "b", "a", "b", "b", "a")
    found = await filtered(store, ONLY_A, count=1)
    assert bodies(found) == ["a1"]
    committed, before = await lag(store)
    assert committed == 1
    assert 2 <= before <= 4, "a1 and a4 at least, and what was not looked at yet"
    await store.consumption.acknowledge("t", "g", handles(found))
    await store.consumption.acknowledge("t", "g", handles(await filtered(store, ONLY_A)))
    assert await lag(store) == (5, 0)


async def test_a_message_that_comes_again_is_wanted_still(store: Store, clock: ManualClock):
    await store.topology.put_group(ConsumerGroup("g", filter=ONLY_A, invisible_seconds=1))
    await send_tags(store, "b", "a")
    await pop(store, "t")
    clock.advance(1_000)
    [again] = await pop(store, "t")
    assert (again.message.body, again.attempt) == (b"a1", 2)


@pytest.mark.parametrize("again", [ONLY_B, DEAR_AND_RED])
async def test_what_comes_again_is_filtered_by_who_receives_it(
    store: Store, clock: ManualClock, again: FilterExpression
):
    await send_tags(store, "a", "a", "b")
    first = await filtered(store, ONLY_A)
    await store.consumption.change_invisible_duration("t", "g", handles(first), 1_000, release=False)
    clock.advance(1_000)
    assert [body for body in bodies(await filtered(store, again)) if body.startswith("a")] == []
    assert await filtered(store, ONLY_A) == []
    assert (await lag(store))[0] >= 2, "as new ones they count as settled"


async def test_what_comes_again_is_told_from_what_nobody_wants(store: Store, clock: ManualClock):
    await send_tags(store, "a", "b", "a", "b")
    first = await filtered(store, A_OR_B)
    assert bodies(first) == ["a0", "b1", "a2", "b3"]
    await store.consumption.change_invisible_duration("t", "g", handles(first), 1_000, release=False)
    clock.advance(1_000)
    found = await filtered(store, ONLY_B)
    assert [(delivery.message.body, delivery.attempt) for delivery in found] == [(b"b1", 2), (b"b3", 2)]
    assert await store.consumption.acknowledge("t", "g", handles(found)) == [None, None]
    assert await lag(store) == (4, 0)


async def test_a_long_poll_waits_for_what_it_wants(store: Store):
    await store.topology.put_group(ConsumerGroup("g", filter=ONLY_A))
    await send_tags(store, "b")
    assert await pop(store, "t", wait_ms=20) == []
    await send_tags(store, "b", "a")
    assert bodies(await pop(store, "t", wait_ms=LONG_POLL_MS)) == ["a1"]


async def test_with_fifo_groups(store: Store):
    await store.topology.put_group(ConsumerGroup("g", fifo=True, filter=ONLY_A))
    await send(store, *(replace(tagged(f"{tag}{i}", tag), message_group="m") for i, tag in enumerate("abaab")))
    assert bodies(await pop(store, "t", count=2)) == ["a0", "a2"]
    assert await pop(store, "t") == []


async def test_what_became_of_a_message_that_is_not_wanted(store: Store):
    await store.topology.put_group(ConsumerGroup("g", filter=ONLY_A))
    await send_tags(store, "a", "b")
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t")))
    states = []
    for stored in await store.messages.read("t", 0, 0, 10):
        [consumer] = await store.finder.message_consumers(stored)
        states.append(consumer.state)
    assert states == [ConsumptionState.CONSUMED, ConsumptionState.FILTERED]


# -- pulling ---------------------------------------------------------------------------------------------------------


async def test_pulling_with_a_filter(store: Store):
    await send_tags(store, "a", "b", "a", "c", "b", "c", "c")
    found, offset = [], 0
    while offset < 7:
        pulled = await store.messages.pull("t", 0, offset, 2, A_OR_B)
        assert len(pulled.messages) <= 2
        assert (pulled.min_offset, pulled.max_offset) == (0, 7)
        assert pulled.next_offset > offset, "it goes on even where nothing is wanted"
        if pulled.messages:
            assert pulled.next_offset > pulled.messages[-1].queue_offset
        found += bodies(pulled.messages)
        offset = pulled.next_offset
    assert (found, offset) == (["a0", "b1", "a2", "b4"], 7)
    at_end = await store.messages.pull("t", 0, 7, 2, A_OR_B)
    assert (at_end.messages, at_end.next_offset) == ([], 7)


async def test_pulling_by_properties(store: Store):
    await send(store, sold("cheap", price="1", color="red"), sold("good", price="11", color="red"))
    found, offset = [], 0
    while offset < 2:
        pulled = await store.messages.pull("t", 0, offset, 10, DEAR_AND_RED)
        found += bodies(pulled.messages)
        offset = pulled.next_offset
    assert found == ["good"]
