"""Trying again: retry policies, retry topics, dead letters sent once more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.message import SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.retry_policy import RetryKind, RetryPolicy
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import (
    LONG_POLL_MS,
    append,
    bodies,
    codes,
    eventually,
    handles,
    message,
    pop,
    refusal_of,
    settled,
    topics_of,
)
from tests.support.waiting import PATIENCE_SECONDS

VOID = Code.INVALID_RECEIPT_HANDLE
RETRY_TOPIC = "%RETRY%g+t"
DEAD_LETTER_TOPIC = "%DLQ%g"


@pytest.fixture
def hold_back_limit() -> int:
    return 4


@pytest.fixture(autouse=True)
async def topic_and_group(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10))


async def release(store: Store, deliveries: Sequence[Delivery], delay_ms: int | None = None) -> None:
    outcomes = await store.consumption.change_invisible_duration("t", "g", handles(deliveries), delay_ms, release=True)
    assert codes(outcomes) == [None] * len(deliveries)


async def acknowledge(store: Store, deliveries: Sequence[Delivery]) -> None:
    assert codes(await store.consumption.acknowledge("t", "g", handles(deliveries))) == [None] * len(deliveries)


async def progress(store: Store) -> dict[str, tuple[int, int]]:
    """Committed offset and lag of each topic of one queue that the group reads."""
    return {p.topic: (p.committed_offset, p.lag) for p in (await store.topology.group_status("g")).progress}


def place(found: Delivery) -> tuple[str, int, int]:
    return found.message.topic, found.message.queue_id, found.message.queue_offset


async def hold_back(store: Store, body: str = "0", queue_id: int = 0, count: int = 6) -> None:
    """Messages "0" to "5": all are settled but one, which waits a minute; then a pop looks at them."""
    await append(store, "t", *map(str, range(count)), queue_id=queue_id)
    found = await pop(store, "t")
    await release(store, [d for d in found if d.message.body.decode() == body], 60_000)
    await acknowledge(store, [d for d in found if d.message.body.decode() != body])
    assert await pop(store, "t") == []


async def retried(store: Store, clock: ManualClock) -> Delivery:
    """What `hold_back` held back, a minute later."""
    clock.advance(60_000)
    [found] = await eventually(lambda: pop(store, "t"))
    return found


# -- policies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (RetryPolicy(), [0, 0, 0]),
        (
            RetryPolicy(RetryKind.EXPONENTIAL, initial_ms=1_000, multiplier=3, max_ms=5_000),
            [1_000, 3_000, 5_000, 5_000],
        ),
        (RetryPolicy(RetryKind.LIST, delays_ms=(700, 0, 200)), [700, 0, 200, 200]),
    ],
    ids=["immediate", "exponential", "list"],
)
async def test_a_release_without_a_delay_waits_as_the_policy_says(
    store: Store, clock: ManualClock, policy: RetryPolicy, delays: list[int]
):
    await store.topology.put_group(ConsumerGroup("g", retry=policy))
    await append(store, "t", "a")
    for attempt, delay in enumerate(delays, 1):
        [found] = await pop(store, "t")
        assert found.attempt == attempt
        await release(store, [found])
        if delay:
            clock.advance(delay - 1)
            assert await pop(store, "t") == []
            clock.advance(1)
    assert len(await pop(store, "t")) == 1


async def test_each_message_waits_by_its_own_attempts(store: Store, clock: ManualClock):
    policy = RetryPolicy(RetryKind.LIST, delays_ms=(1_000, 5_000))
    await store.topology.put_group(ConsumerGroup("g", retry=policy))
    await append(store, "t", "old")
    await release(store, await pop(store, "t"), 0)
    await append(store, "t", "new")
    await release(store, await pop(store, "t"))
    clock.advance(1_000)
    assert bodies(await pop(store, "t")) == ["new"]
    clock.advance(4_000)
    assert bodies(await pop(store, "t")) == ["old"]


async def test_a_delay_that_is_named_counts_more_than_the_policy(store: Store):
    await store.topology.put_group(ConsumerGroup("g", retry=RetryPolicy(RetryKind.EXPONENTIAL)))
    await append(store, "t", "a")
    await release(store, await pop(store, "t"), 0)
    assert len(await pop(store, "t")) == 1


async def test_what_was_not_given_back_is_due_at_once_when_its_time_is_over(store: Store, clock: ManualClock):
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10, retry=RetryPolicy(RetryKind.EXPONENTIAL)))
    await append(store, "t", "a")
    await pop(store, "t")
    clock.advance(10_000)
    assert len(await pop(store, "t")) == 1


# -- retry topics ----------------------------------------------------------------------------------------------------


async def test_a_message_that_waits_does_not_hold_progress_back(store: Store):
    await hold_back(store)
    assert await progress(store) == {"t": (6, 0), RETRY_TOPIC: (0, 1)}
    assert topics_of(store) == {RETRY_TOPIC: 1, "t": 1}


async def test_a_copy_says_where_it_comes_from(store: Store):
    await hold_back(store)
    [copy] = await eventually(lambda: store.messages.read(RETRY_TOPIC, 0, 0, 10))
    assert copy.body == b"0"
    names = (SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET)
    assert [copy.system_text(name) for name in names] == ["t", "0", "0"]


async def test_up_to_the_limit_nothing_is_moved(store: Store, hold_back_limit: int):
    await hold_back(store, count=hold_back_limit - 1)
    assert await progress(store) == {"t": (0, 1)}
    assert list(topics_of(store)) == ["t"]


async def test_at_the_limit_it_is_moved(store: Store, hold_back_limit: int):
    await hold_back(store, count=hold_back_limit)
    assert await progress(store) == {"t": (hold_back_limit, 0), RETRY_TOPIC: (0, 1)}


async def test_a_copy_keeps_its_deadline_and_its_attempts(store: Store, clock: ManualClock):
    await hold_back(store)
    clock.advance(59_999)
    assert await pop(store, "t") == []
    clock.advance(1)
    [again] = await eventually(lambda: pop(store, "t"))
    assert (again.message.body, again.attempt) == (b"0", 2)


async def test_it_is_delivered_as_what_it_was_first(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=2))
    system = {SystemProperty.CONTENT_TYPE: "text/plain"}
    sent = replace(message("t", "bad", 1), tag="tag", keys=("k",), properties=(("p", "1"),), system=system)
    assert await settled(store.messages.append([message("t", "first", 1), sent])) is None
    await hold_back(store, "bad", 1)
    again = await retried(store, clock)
    assert place(again) == ("t", 1, 1)
    assert (again.message.tag, again.message.keys, again.message.properties) == ("tag", ("k",), (("p", "1"),))
    assert dict(again.message.system) == system
    assert RETRY_TOPIC in {topic.name for topic in store.topology.topics()}


async def test_one_that_was_sent_elsewhere_keeps_the_topic_it_was_sent_to(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("s", queues=1))
    await append(store, "t", "before")
    assert await settled(store.messages.append([message("s", "bad", further_queues=(("t", 0),))])) is None
    await hold_back(store, "bad")
    again = await retried(store, clock)
    assert place(again) == ("s", 0, 1)
    assert codes(await store.consumption.reject("t", "g", handles([again]))) == [None]
    [dead] = await store.messages.read(DEAD_LETTER_TOPIC, 0, 0, 10)
    names = (SystemProperty.DEAD_LETTER_TOPIC, SystemProperty.DEAD_LETTER_QUEUE_OFFSET)
    assert [dead.system_text(name) for name in names] == ["t", "1"], "where the group reads"
    assert codes(await store.consumption.resend_dead_letters("g", [0])) == [None]
    assert bodies(await eventually(lambda: pop(store, "t"))) == ["bad"]


async def test_what_is_tried_again_comes_before_what_is_new(store: Store, clock: ManualClock):
    await hold_back(store)
    await eventually(lambda: store.messages.read(RETRY_TOPIC, 0, 0, 10))
    await append(store, "t", "new")
    clock.advance(60_000)
    assert bodies(await pop(store, "t", count=1)) == ["0"]
    assert bodies(await pop(store, "t", count=1)) == ["new"]


async def test_a_long_poll_is_woken_when_a_retry_is_due(store: Store, clock: ManualClock):
    await append(store, "t", *map(str, range(6)))
    found = await pop(store, "t")
    await release(store, found[:1], 50)
    await acknowledge(store, found[1:])
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    clock.advance(50)
    [again] = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert (again.message.body, again.attempt) == (b"0", 2)


async def test_a_message_with_a_consumer_is_not_moved(store: Store, clock: ManualClock):
    await append(store, "t", *map(str, range(6)))
    found = await pop(store, "t")
    await acknowledge(store, found[1:])
    assert await pop(store, "t") == []
    assert await progress(store) == {"t": (0, 1)}
    await acknowledge(store, found[:1])
    assert await progress(store) == {"t": (6, 0)}


async def test_a_message_whose_time_is_over_is_moved(store: Store, clock: ManualClock):
    await append(store, "t", *map(str, range(6)))
    found = await pop(store, "t")
    await acknowledge(store, found[1:])
    clock.advance(10_000)
    [again] = await eventually(lambda: pop(store, "t"))
    assert (place(again), again.attempt) == (("t", 0, 0), 2)
    assert (await progress(store))["t"] == (6, 0)
    assert codes(await store.consumption.acknowledge("t", "g", handles(found[:1]))) == [VOID]


async def test_a_delivery_out_of_the_retry_topic_is_settled_like_any(store: Store, clock: ManualClock):
    await hold_back(store)
    found = await retried(store, clock)
    [handle] = handles([found])
    assert codes(await store.consumption.change_invisible_duration("t", "g", [handle], 20_000, release=False)) == [None]
    clock.advance(19_999)
    assert await pop(store, "t") == []
    clock.advance(1)
    [again] = await pop(store, "t")
    assert again.attempt == 3
    assert codes(await store.consumption.acknowledge("t", "g", [handle, *handles([again])])) == [VOID, None]
    assert await progress(store) == {"t": (6, 0), RETRY_TOPIC: (1, 0)}
    clock.advance(60_000)
    assert await pop(store, "t") == []


async def test_nothing_but_the_group_sees_its_retries(store: Store):
    await hold_back(store)
    found = await pop(store, "t", "other")
    assert sorted(bodies(found)) == [*map(str, range(6))]
    assert {d.attempt for d in found} == {1}


async def drive_poison(store: Store, rounds: int) -> list[int]:
    """Everybody settles what is good at the second attempt, and gives the rest back; the attempts of the bad one."""
    attempts = []
    for _ in range(rounds):
        found = await pop(store, "t", count=100)
        attempts += [d.attempt for d in found if d.message.body == b"bad"]
        assert {place(d) for d in found if d.message.body == b"bad"} <= {("t", 0, 0)}
        good = [d for d in found if d.message.body != b"bad" and d.attempt > 1]
        await acknowledge(store, good)
        await release(store, [d for d in found if d not in good], 0)
        await asyncio.sleep(0)
    return attempts


async def test_a_poisonous_message_ends_as_exactly_one_dead_letter(store: Store):
    await store.topology.put_group(ConsumerGroup("g", max_attempts=5))
    await append(store, "t", "bad", *map(str, range(11)))
    attempts: list[int] = []

    async def it_is_buried() -> Sequence[Delivery]:
        attempts.extend(await drive_poison(store, 1))
        return await pop(store, DEAD_LETTER_TOPIC, "reader")

    await eventually(it_is_buried)
    assert attempts == [1, 2, 3, 4, 5]
    assert await drive_poison(store, 3) == []
    [dead] = await store.messages.read(DEAD_LETTER_TOPIC, 0, 0, 10)
    assert dead.body == b"bad"
    facts = {name: dead.system_text(name) for name in dead.system if name != SystemProperty.DEAD_LETTER_TIME_MS}
    assert facts == {
        SystemProperty.DEAD_LETTER_TOPIC: "t",
        SystemProperty.DEAD_LETTER_QUEUE: "0",
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET: "0",
        SystemProperty.DEAD_LETTER_MESSAGE_ID: b"bad".hex().upper(),
        SystemProperty.DEAD_LETTER_REASON: "max attempts reached",
        SystemProperty.DEAD_LETTER_ATTEMPTS: "5",
    }
    assert {lag for _, lag in (await progress(store)).values()} == {0}


async def test_rejecting_a_retried_message_names_its_first_place(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "before", queue_id=1)
    await hold_back(store, "0", 1)
    found = await retried(store, clock)
    assert codes(await store.consumption.reject("t", "g", handles([found]))) == [None]
    [dead] = await store.messages.read(DEAD_LETTER_TOPIC, 0, 0, 10)
    names = (
        SystemProperty.DEAD_LETTER_TOPIC,
        SystemProperty.DEAD_LETTER_QUEUE,
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
        SystemProperty.DEAD_LETTER_ATTEMPTS,
    )
    assert [dead.system_text(name) for name in names] == ["t", "1", "1", "2"]
    assert not {name for name in dead.system if name.startswith("retry")}


async def test_a_deleted_group_or_topic_takes_its_retries_along(store: Store):
    await hold_back(store)
    await store.topology.delete_group("g")
    assert list(topics_of(store)) == ["t"]
    found = await pop(store, "t")
    assert (sorted(bodies(found)), {d.attempt for d in found}) == ([*map(str, range(6))], {1})
    await acknowledge(store, found[1:])
    await release(store, found[:1], 60_000)
    assert await pop(store, "t") == []
    assert RETRY_TOPIC in {topic.name for topic in store.topology.topics()}
    await store.topology.delete_topic("t")
    assert store.topology.topics() == []


# -- dead letters once more ------------------------------------------------------------------------------------------


async def bury(store: Store, *names: str) -> None:
    await append(store, "t", *names)
    found = await pop(store, "t")
    assert codes(await store.consumption.reject("t", "g", handles(found))) == [None] * len(names)


async def test_a_dead_letter_is_tried_once_more_with_all_its_attempts(store: Store):
    await bury(store, "a", "b")
    assert await pop(store, "t") == []
    assert codes(await store.consumption.resend_dead_letters("g", [1])) == [None]
    [again] = await eventually(lambda: pop(store, "t"))
    assert (again.message.body, place(again), again.attempt) == (b"b", ("t", 0, 1), 1)
    assert dict(again.message.system) == {}
    await acknowledge(store, [again])
    assert await pop(store, "t") == []
    assert bodies(await store.messages.read(DEAD_LETTER_TOPIC, 0, 0, 10)) == ["a", "b"], "they stay where they are"


async def test_only_the_group_sees_what_is_sent_once_more(store: Store):
    await bury(store, "a")
    await acknowledge_as(store, "other")
    await store.consumption.resend_dead_letters("g", [0])
    assert bodies(await eventually(lambda: pop(store, "t"))) == ["a"]
    assert await pop(store, "t", "other") == []
    assert bodies(await store.messages.read("t", 0, 0, 10)) == ["a"]


async def acknowledge_as(store: Store, group: str) -> None:
    await store.consumption.acknowledge("t", group, handles(await pop(store, "t", group)))


async def test_a_resent_dead_letter_may_die_again(store: Store, clock: ManualClock):
    await bury(store, "a")
    await store.consumption.resend_dead_letters("g", [0])
    clock.advance(5_000)
    found = await eventually(lambda: pop(store, "t"))
    assert codes(await store.consumption.reject("t", "g", handles(found))) == [None]
    first, second = await store.messages.read(DEAD_LETTER_TOPIC, 0, 0, 10)
    assert second.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) == clock.now_ms()
    time = SystemProperty.DEAD_LETTER_TIME_MS
    assert {**second.system, time: ""} == {**first.system, time: ""}
    assert codes(await store.consumption.resend_dead_letters("g", [0, 1])) == [None, None]


async def test_a_long_poll_is_woken_by_what_is_sent_once_more(store: Store):
    await bury(store, "a")
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await store.consumption.resend_dead_letters("g", [0])
    assert bodies(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == ["a"]


async def test_what_cannot_be_sent_once_more(store: Store):
    assert codes(await store.consumption.resend_dead_letters("g", [0])) == [Code.ILLEGAL_OFFSET], "there are none yet"
    await bury(store, "a")
    assert codes(await store.consumption.resend_dead_letters("g", [-1, 0, 1])) == [
        Code.ILLEGAL_OFFSET,
        None,
        Code.ILLEGAL_OFFSET,
    ]
    assert await store.consumption.resend_dead_letters("g", []) == []
    assert await refusal_of(store.consumption.resend_dead_letters("no", [0])) == Code.CONSUMER_GROUP_NOT_FOUND
    await store.topology.delete_topic("t")
    assert codes(await store.consumption.resend_dead_letters("g", [0])) == [Code.TOPIC_NOT_FOUND]
