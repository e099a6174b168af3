"""FIFO groups: the messages of a message group in order, and to one consumer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import LONG_POLL_MS, append_all, bodies, codes, handles, message, pop, topics_of
from tests.support.waiting import PATIENCE_SECONDS

VOID = Code.INVALID_RECEIPT_HANDLE


@pytest.fixture
def hold_back_limit() -> int:
    return 4


@pytest.fixture(autouse=True)
async def topic_and_group(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=2))
    await store.topology.put_group(ConsumerGroup("g", fifo=True, invisible_seconds=10))


async def send(store: Store, *names: str, queue_id: int = 0) -> None:
    """Messages named by their message group and a number: "a1"; "-1" has no message group."""
    sent = [replace(message("t", name, queue_id), message_group=name[0].strip("-")) for name in names]
    assert await append_all(store, *sent) == [None] * len(names)


async def release(store: Store, deliveries: Sequence[Delivery], delay_ms: int | None = 0) -> None:
    outcomes = await store.consumption.change_invisible_duration("t", "g", handles(deliveries), delay_ms, release=True)
    assert codes(outcomes) == [None] * len(deliveries)


async def acknowledge(store: Store, deliveries: Sequence[Delivery]) -> None:
    assert codes(await store.consumption.acknowledge("t", "g", handles(deliveries))) == [None] * len(deliveries)


def of_group(found: Sequence[Delivery], name: str) -> list[str]:
    return [body for body in bodies(found) if body.startswith(name)]


async def test_one_pop_may_take_a_run_of_a_message_group(store: Store):
    await send(store, "a1", "b1", "a2", "b2", "a3")
    found = await pop(store, "t")
    assert of_group(found, "a") == ["a1", "a2", "a3"]
    assert of_group(found, "b") == ["b1", "b2"]


async def test_a_message_group_has_one_consumer_at_a_time(store: Store):
    await send(store, "a1", "a2", "a3")
    first = await pop(store, "t", count=1)
    assert bodies(first) == ["a1"]
    assert await pop(store, "t") == []
    await acknowledge(store, first)
    assert bodies(await pop(store, "t")) == ["a2", "a3"]


async def test_it_waits_until_the_whole_run_is_settled(store: Store):
    await send(store, "a1", "a2", "a3")
    found = await pop(store, "t", count=2)
    await acknowledge(store, found[:1])
    assert await pop(store, "t") == []
    await acknowledge(store, found[1:])
    assert bodies(await pop(store, "t")) == ["a3"]


async def test_the_first_of_a_run_given_back_waits_for_the_rest_of_it(store: Store):
    await send(store, "a1", "a2", "a3")
    found = await pop(store, "t", count=2)
    await release(store, found[:1])
    assert await pop(store, "t") == []
    await acknowledge(store, found[1:])
    assert bodies(await pop(store, "t")) == ["a1", "a3"]


async def test_settling_out_of_order_opens_nothing(store: Store):
    await send(store, "a1", "a2", "a3")
    found = await pop(store, "t", count=2)
    await acknowledge(store, found[1:])
    assert await pop(store, "t") == []
    await release(store, found[:1])
    assert bodies(await pop(store, "t")) == ["a1", "a3"]


async def test_other_message_groups_flow(store: Store):
    await send(store, "a1", "a2", "b1", "-1", "a3", "b2", "-2")
    assert bodies(await pop(store, "t", count=1)) == ["a1"]
    assert sorted(bodies(await pop(store, "t", count=100))) == ["-1", "-2", "b1", "b2"]


async def test_messages_without_a_group_wait_for_nobody(store: Store):
    await send(store, "-1", "-2", "-3")
    for name in ("-1", "-2", "-3"):
        assert bodies(await pop(store, "t", count=1)) == [name]


async def test_a_name_in_another_queue_is_another_message_group(store: Store):
    await send(store, "a1", queue_id=0)
    await send(store, "a2", queue_id=1)
    assert len(await pop(store, "t", count=1)) == 1
    assert len(await pop(store, "t", count=1)) == 1


async def test_groups_that_are_not_fifo_take_all(store: Store):
    await send(store, "a1", "a2")
    assert bodies(await pop(store, "t", "other", count=1)) == ["a1"]
    assert bodies(await pop(store, "t", "other", count=1)) == ["a2"]


async def test_a_released_message_comes_before_the_ones_behind_it(store: Store):
    await send(store, "a1", "a2", "a3")
    found = await pop(store, "t", count=2)
    await release(store, found)
    again = await pop(store, "t")
    assert [(d.message.body, d.attempt) for d in again] == [(b"a1", 2), (b"a2", 2), (b"a3", 1)]


async def test_a_message_group_waits_for_its_first_that_waits(store: Store, clock: ManualClock):
    await send(store, "a1", "a2", "b1")
    found = await pop(store, "t", count=1)
    await release(store, found, 5_000)
    assert bodies(await pop(store, "t")) == ["b1"]
    clock.advance(4_999)
    assert await pop(store, "t") == []
    clock.advance(1)
    assert bodies(await pop(store, "t")) == ["a1", "a2"]


async def test_a_run_ends_before_one_that_waits(store: Store):
    await send(store, "a1", "a2", "a3")
    found = await pop(store, "t", count=3)
    await release(store, found[1:2], 5_000)
    await release(store, [found[0], found[2]])
    assert bodies(await pop(store, "t")) == ["a1"]


async def test_the_retry_policy_holds_the_message_group(store: Store, clock: ManualClock):
    policy = RetryPolicy(RetryKind.LIST, delays_ms=(1_000,))
    await store.topology.put_group(ConsumerGroup("g", fifo=True, retry=policy))
    await send(store, "a1", "a2")
    await release(store, await pop(store, "t", count=1), None)
    assert await pop(store, "t") == []
    clock.advance(1_000)
    assert bodies(await pop(store, "t")) == ["a1", "a2"]


async def test_an_expired_run_is_delivered_again_in_order(store: Store, clock: ManualClock):
    await send(store, "a1", "a2", "a3")
    old = await pop(store, "t", count=2)
    clock.advance(10_000)
    again = await pop(store, "t")
    assert [(d.message.body, d.attempt) for d in again] == [(b"a1", 2), (b"a2", 2), (b"a3", 1)]
    assert codes(await store.consumption.acknowledge("t", "g", handles(old))) == [VOID] * 2
    await acknowledge(store, again)


async def test_renewing_keeps_the_message_group(store: Store, clock: ManualClock):
    await send(store, "a1", "a2")
    found = await pop(store, "t", count=1)
    await store.consumption.change_invisible_duration("t", "g", handles(found), 30_000, release=False)
    clock.advance(29_999)
    assert await pop(store, "t") == []
    clock.advance(1)
    assert bodies(await pop(store, "t", count=1)) == ["a1"]


async def test_a_dead_letter_lets_its_message_group_go_on(store: Store, clock: ManualClock):
    await store.topology.put_group(ConsumerGroup("g", fifo=True, invisible_seconds=10, max_attempts=1))
    await send(store, "a1", "a2", "a3")
    await pop(store, "t", count=1)
    clock.advance(10_000)
    found = await pop(store, "t", count=1)
    assert bodies(found) == ["a2"]
    assert codes(await store.consumption.reject("t", "g", handles(found))) == [None]
    assert bodies(await pop(store, "t", count=1)) == ["a3"]
    assert sorted(bodies(await pop(store, "%DLQ%g", "reader"))) == ["a1", "a2"]


async def test_a_long_poll_is_woken_when_the_message_group_is_free(store: Store):
    await send(store, "a1", "a2")
    found = await pop(store, "t", count=1)
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await acknowledge(store, found)
    assert bodies(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == ["a2"]


async def test_nothing_leaves_the_order_for_a_retry_topic(store: Store, clock: ManualClock):
    await send(store, "a1", *(f"b{i}" for i in range(8)))
    found = await pop(store, "t")
    await release(store, [d for d in found if d.message.body == b"a1"], 60_000)
    await acknowledge(store, [d for d in found if d.message.body != b"a1"])
    await send(store, "a2")
    assert await pop(store, "t") == []
    assert list(topics_of(store)) == ["t"]
    clock.advance(60_000)
    assert bodies(await pop(store, "t")) == ["a1", "a2"]


# -- trying again with the same name -----------------------------------------------------------------------------------


async def attempt(store: Store, attempt_id: str, group: str = "g", count: int = 32) -> Sequence[Delivery]:
    return await store.consumption.pop(PopRequest("t", group, count, invisible_ms=10_000, attempt_id=attempt_id))


def facts(found: Sequence[Delivery]) -> list[tuple[bytes, int]]:
    return [(delivery.message.body, delivery.attempt) for delivery in found]


async def test_the_same_attempt_gets_the_same_messages(store: Store):
    await send(store, "a1", "a2", "b1")
    lost = await attempt(store, "x", count=2)
    again = await attempt(store, "x", count=2)
    assert sorted(facts(again)) == sorted(facts(lost))
    assert {d.attempt for d in again} == {1}
    await acknowledge(store, again)


async def test_another_attempt_gets_others(store: Store):
    await send(store, "a1", "a2", "b1")
    assert bodies(await attempt(store, "x", count=2)) == ["a1", "a2"]
    assert bodies(await attempt(store, "y")) == ["b1"]
    assert await attempt(store, "") == []
    assert await attempt(store, "z") == []


async def test_what_is_settled_does_not_come_again(store: Store):
    await send(store, "a1", "a2", "a3", "a4")
    found = await attempt(store, "x", count=3)
    await acknowledge(store, found[:1])
    assert facts(await attempt(store, "x", count=3)) == [(b"a2", 1), (b"a3", 1)]


async def test_an_attempt_that_is_over_begins_anew(store: Store, clock: ManualClock):
    await send(store, "a1", "a2")
    await attempt(store, "x", count=1)
    clock.advance(10_000)
    again = await attempt(store, "x", count=1)
    assert facts(again) == [(b"a1", 2)]
    await acknowledge(store, again)
    assert facts(await attempt(store, "x", count=1)) == [(b"a2", 1)]


async def test_attempts_belong_to_their_group(store: Store):
    await store.topology.put_group(ConsumerGroup("h", fifo=True))
    await send(store, "a1", "b1")
    assert bodies(await attempt(store, "x", "g", count=1)) == ["a1"]
    assert bodies(await attempt(store, "x", "h")) == ["a1", "b1"]
