"""Timers: messages that wait for their time, are recalled, or given another one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.timing import MAX_DELAY_MS, TimerCursor
from entrepot.domain.topic import QueueBounds, Topic
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import (
    LONG_POLL_MS,
    append,
    append_all,
    bodies,
    eventually_read,
    handles,
    message,
    pop,
    refusal_of,
)
from tests.support.waiting import PATIENCE_SECONDS, until

START_MS = ManualClock().now_ms()


@pytest.fixture(autouse=True)
async def topics(store: Store) -> None:
    await store.topology.put_topics([Topic("t", queues=2), Topic("u", queues=1)])


def timed(body: str, delay_ms: int | str, topic: str = "t", queue_id: int = 0) -> Message:
    """A message for so many milliseconds after the beginning of the test; a text is taken as it is."""
    value = delay_ms if isinstance(delay_ms, str) else START_MS + delay_ms
    return replace(message(topic, body, queue_id), system={SystemProperty.DELIVER_AT_MS: value})


async def send(store: Store, *messages: Message) -> None:
    assert await append_all(store, *messages) == [None] * len(messages)


async def waiting(store: Store, topic: str | None = None) -> list[str]:
    return [timed.message.body.decode() for timed in await store.timers.timed_messages(topic)]


# -- delivering ------------------------------------------------------------------------------------------------------


async def test_before_its_time_it_is_nowhere(store: Store):
    seen: list[StoredMessage] = []
    tail = store.messages.tail("t", 0, 0, seen.extend)
    await send(store, timed("a", 60_000))
    await append(store, "t", "b")
    await until(lambda: seen, "the one that does not wait")
    assert bodies(seen) == ["b"]
    tail.close()
    assert bodies(await store.messages.read("t", 0, 0, 10)) == ["b"]
    assert bodies((await store.messages.pull("t", 0, 0, 10)).messages) == ["b"]
    assert bodies(await pop(store, "t")) == ["b"]
    assert await store.messages.bounds("t") == [QueueBounds(0, 0, 1), QueueBounds(1, 0, 0)]
    [progress, _] = (await store.topology.group_status("g")).progress
    assert progress.lag == 1


async def test_at_its_time_it_is_a_message_like_any(store: Store, clock: ManualClock):
    sent = replace(timed("a", 60_000, queue_id=1), tag="tag", keys=("k",), message_group="m")
    await send(store, sent)
    clock.advance(60_000)
    [found] = await eventually_read(store, 1, queue_id=1)
    assert (found.body, found.tag, found.keys, found.message_group) == (b"a", "tag", ("k",), "m")
    assert (found.queue_id, found.queue_offset, found.store_time_ms) == (1, 0, START_MS + 60_000)
    assert dict(found.system) == dict(sent.system), "its time stays with it"
    assert await store.finder.message_at(found.commit_log_offset) == found
    assert bodies(await pop(store, "t")) == ["a"]
    assert await waiting(store) == []


async def test_a_timed_message_is_never_early(store: Store, clock: ManualClock):
    await send(store, timed("late", 60_000), timed("soon", 59_999))
    clock.advance(59_999)
    assert bodies(await eventually_read(store, 1)) == ["soon"]
    assert await waiting(store) == ["late"]
    clock.advance(1)
    assert bodies(await eventually_read(store, 2)) == ["soon", "late"]


async def test_messages_come_in_the_order_of_their_times(store: Store, clock: ManualClock):
    await send(store, timed("c", 3_000), timed("a", 1_000), timed("b", 2_000), timed("a again", 1_000))
    clock.advance(10_000)
    assert bodies(await eventually_read(store, 4)) == ["a", "a again", "b", "c"]


async def test_a_time_that_is_over_counts_as_none(store: Store):
    await send(store, timed("now", 0), timed("past", -5_000), timed("long ago", -START_MS))
    assert bodies(await store.messages.read("t", 0, 0, 10)) == ["now", "past", "long ago"]


async def test_a_long_poll_is_woken_by_it(store: Store, clock: ManualClock):
    await send(store, timed("a", 60_000))
    polling = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    clock.advance(60_000)
    assert bodies(await asyncio.wait_for(polling, PATIENCE_SECONDS)) == ["a"]


async def test_a_tail_gets_it(store: Store, clock: ManualClock):
    seen: list[StoredMessage] = []
    tail = store.messages.tail("t", 0, None, seen.extend)
    await send(store, timed("a", 60_000))
    clock.advance(60_000)
    await until(lambda: seen, "the message at its time")
    assert bodies(seen) == ["a"]
    tail.close()


async def test_further_queues_get_it_at_its_time(store: Store, clock: ManualClock):
    await send(store, replace(timed("a", 1_000), further_queues=(("u", 0),)))
    assert await store.messages.read("u", 0, 0, 10) == []
    clock.advance(1_000)
    assert bodies(await eventually_read(store, 1, "u")) == ["a"]
    assert bodies(await eventually_read(store, 1, "t")) == ["a"]


@cases(
    "time",
    ["", "soon", "-1", "1.5", " 5", "\u0663", "9" * 30, "9" * 5_000, MAX_DELAY_MS + 1],
    ids=lambda time: str(time)[:20],
)
async def test_what_is_no_time_is_refused(store: Store, time: int | str):
    before = await store.messages.read("t", 0, 0, 100)
    outcomes = await append_all(store, timed("x", time), message("t", "good"))
    assert outcomes == [Code.ILLEGAL_DELIVERY_TIME, None]
    assert bodies(await store.messages.read("t", 0, len(before), 10)) == ["good"]


async def test_as_far_ahead_as_it_may_be(store: Store):
    await send(store, timed("a", MAX_DELAY_MS))
    assert await waiting(store) == ["a"]


async def test_other_refusals_come_when_it_is_sent(store: Store):
    await store.topology.put_topic(Topic("t", queues=2, write_queues=1))
    outcomes = await append_all(store, timed("x", 1_000, "no"), timed("x", 1_000, queue_id=1))
    assert outcomes == [Code.TOPIC_NOT_FOUND, Code.FORBIDDEN]
    assert await waiting(store) == []


async def test_a_deleted_topic_takes_them_along(store: Store, clock: ManualClock):
    await send(store, timed("a", 1_000), timed("b", 1_000, "u"))
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=2))
    assert await waiting(store) == ["b"]
    clock.advance(1_000)
    assert bodies(await eventually_read(store, 1, "u")) == ["b"]
    assert await store.messages.read("t", 0, 0, 10) == []


async def test_a_queue_that_is_gone_leaves_its_messages_to_another(store: Store, clock: ManualClock):
    await send(store, timed("a", 1_000, queue_id=1))
    await store.topology.put_topic(Topic("t", queues=1))
    clock.advance(1_000)
    assert bodies(await eventually_read(store, 1)) == ["a"]


async def test_a_dead_letter_does_not_wait_again(store: Store, clock: ManualClock):
    await send(store, timed("a", 1_000))
    clock.advance(1_000)
    await eventually_read(store, 1)
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    assert bodies(await pop(store, "%DLQ%g", "reader")) == ["a"]
    await store.consumption.resend_dead_letters("g", [0])
    assert bodies(await store.consumption.pop(PopRequest("t", "g", 10, LONG_POLL_MS))) == ["a"]


# -- listing ---------------------------------------------------------------------------------------------------------


async def test_what_waits_is_listed_the_next_one_first(store: Store):
    await send(store, timed("c", 3_000), timed("a", 1_000, queue_id=1), timed("b", 2_000, "u"), message("t", "now"))
    assert await waiting(store) == ["a", "b", "c"]
    assert await waiting(store, "t") == ["a", "c"]
    assert await waiting(store, "no") == []
    first = (await store.timers.timed_messages())[0]
    assert (first.deliver_at_ms, first.message.topic, first.message.queue_id) == (START_MS + 1_000, "t", 1)
    assert (first.message.queue_offset, first.message.message_id) == (0, b"a")


async def test_listing_page_by_page(store: Store):
    await send(store, *(timed(f"m{i}", 1_000 + i // 3) for i in range(7)))
    pages, after = [], None
    while page := await store.timers.timed_messages("t", after=after, limit=2):
        pages.append([timed.message.body.decode() for timed in page])
        after = TimerCursor(page[-1].deliver_at_ms, page[-1].message.commit_log_offset)
    assert pages == [["m0", "m1"], ["m2", "m3"], ["m4", "m5"], ["m6"]]


# -- recalling and giving another time ---------------------------------------------------------------------------------


async def test_one_that_is_recalled_never_comes(store: Store, clock: ManualClock):
    await send(store, timed("a", 1_000), timed("b", 1_000), timed("a", 2_000))
    await store.timers.recall("t", b"a", START_MS + 1_000)
    assert await waiting(store) == ["b", "a"]
    clock.advance(2_000)
    assert bodies(await eventually_read(store, 2)) == ["b", "a"]
    assert await refusal_of(store.timers.recall("t", b"a", START_MS + 1_000)) == Code.OFFSET_NOT_FOUND


async def test_only_what_waits_can_be_recalled(store: Store, clock: ManualClock):
    await send(store, timed("a", 1_000))
    for topic, message_id, time in (
        ("u", b"a", START_MS + 1_000),
        ("no", b"a", START_MS + 1_000),
        ("t", b"b", START_MS + 1_000),
        ("t", b"a", START_MS + 1_001),
    ):
        assert await refusal_of(store.timers.recall(topic, message_id, time)) == Code.OFFSET_NOT_FOUND
    clock.advance(1_000)
    await eventually_read(store, 1)
    assert await refusal_of(store.timers.recall("t", b"a", START_MS + 1_000)) == Code.OFFSET_NOT_FOUND


async def test_a_timed_message_gets_another_time(store: Store, clock: ManualClock):
    await send(store, timed("sooner", 50_000), timed("later", 1_000), timed("middle", 10_000))
    await store.timers.retime("t", b"sooner", START_MS + 50_000, START_MS + 2_000)
    await store.timers.retime("t", b"later", START_MS + 1_000, START_MS + 60_000)
    assert await waiting(store) == ["sooner", "middle", "later"]
    clock.advance(10_000)
    found = await eventually_read(store, 2)
    assert bodies(found) == ["sooner", "middle"]
    assert found[0].time_ms(SystemProperty.DELIVER_AT_MS) == START_MS + 2_000
    await store.timers.recall("t", b"later", START_MS + 60_000)
    assert await waiting(store) == []


async def test_a_new_time_that_is_over_delivers_it(store: Store):
    await send(store, timed("a", 50_000))
    await store.timers.retime("t", b"a", START_MS + 50_000, START_MS - 1)
    assert bodies(await eventually_read(store, 1)) == ["a"]


async def test_what_cannot_get_another_time(store: Store):
    await send(store, timed("a", 1_000))
    at, new = START_MS + 1_000, START_MS + 2_000
    for topic, message_id, time in (("u", b"a", at), ("t", b"b", at), ("t", b"a", new)):
        assert await refusal_of(store.timers.retime(topic, message_id, time, new)) == Code.OFFSET_NOT_FOUND
    too_far = START_MS + MAX_DELAY_MS + 1
    assert await refusal_of(store.timers.retime("t", b"a", at, too_far)) == Code.ILLEGAL_DELIVERY_TIME
    assert await waiting(store) == ["a"]
