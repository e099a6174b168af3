"""Popping: sharing, waiting, where a group begins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.topic import Permission, Topic
from tests.support.clock import ManualClock
from tests.support.stores.cancelled_pops import cancel_at_every_step
from tests.support.stores.steps import LONG_POLL_MS, append, bodies, codes, handles, pop
from tests.support.waiting import PATIENCE_SECONDS


async def test_pop_takes_from_all_queues(store: Store):
    await store.topology.put_topic(Topic("t", queues=4))
    for queue_id in range(4):
        await append(store, "t", f"a{queue_id}", f"b{queue_id}", queue_id=queue_id)
    found = await pop(store, "t")
    assert sorted(bodies(found)) == sorted(f"{letter}{q}" for letter in "ab" for q in range(4))
    assert {d.attempt for d in found} == {1}
    assert len(set(handles(found))) == 8
    for queue_id in range(4):
        assert bodies([d for d in found if d.message.queue_id == queue_id]) == [f"a{queue_id}", f"b{queue_id}"]


async def test_pop_gives_no_more_than_asked_and_keeps_the_order(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *map(str, range(10)))
    assert bodies(await pop(store, "t", count=3)) == ["0", "1", "2"]
    assert bodies(await pop(store, "t", count=4)) == ["3", "4", "5", "6"]
    assert bodies(await pop(store, "t", count=100)) == ["7", "8", "9"]
    assert await pop(store, "t") == []


async def test_consumers_of_a_group_share_and_groups_do_not(store: Store):
    await store.topology.put_topic(Topic("t", queues=3))
    for i in range(60):
        await append(store, "t", f"m{i}", queue_id=i % 3)
    shares = await asyncio.gather(*(pop(store, "t", "g", 7) for _ in range(12)))
    got = [body for share in shares for body in bodies(share)]
    assert sorted(got) == sorted(f"m{i}" for i in range(60)), "each to exactly one"
    assert len(await pop(store, "t", "other", 100)) == 60


async def test_what_cannot_be_popped(store: Store):
    await store.topology.put_topic(Topic("closed", queues=1, permission=Permission.WRITE))
    await store.topology.put_topic(Topic("t", queues=1))
    for topic, group, code in (
        ("no", "g", Code.TOPIC_NOT_FOUND),
        ("closed", "g", Code.FORBIDDEN),
        ("t", "b\u00e4d name", Code.ILLEGAL_CONSUMER_GROUP),
        ("%DLQ%nobody", "g", Code.TOPIC_NOT_FOUND),
    ):
        with pytest.raises(EntrepotError) as refused:
            await pop(store, topic, group)
        assert refused.value.code == code


async def test_a_group_comes_into_being_on_first_use(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    assert store.topology.group("new") is None
    await pop(store, "t", "new")
    assert store.topology.group("new") == replace(ConsumerGroup("defaults"), name="new")


async def test_a_long_poll_is_woken_by_an_append(store: Store):
    await store.topology.put_topic(Topic("t", queues=2))
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    assert not waiting.done()
    await append(store, "t", "late", queue_id=1)
    assert bodies(await asyncio.wait_for(waiting, PATIENCE_SECONDS)) == ["late"]


async def test_every_waiting_consumer_gets_its_share(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    waiting = [asyncio.create_task(pop(store, "t", count=1, wait_ms=LONG_POLL_MS)) for _ in range(5)]
    others = asyncio.create_task(pop(store, "t", "other", 10, wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await append(store, "t", *map(str, range(5)))
    found = await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_SECONDS)
    assert sorted(body for share in found for body in bodies(share)) == [*map(str, range(5))]
    assert bodies(await asyncio.wait_for(others, PATIENCE_SECONDS)) == [*map(str, range(5))]


async def test_a_long_poll_is_woken_by_a_release(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    first = await pop(store, "t")
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    await store.consumption.change_invisible_duration("t", "g", handles(first), 0, release=True)
    [again] = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert (again.message.body, again.attempt) == (b"a", 2)


async def test_a_long_poll_is_woken_by_an_expiry(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    await pop(store, "t", invisible_ms=30)
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    clock.advance(30)
    [again] = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert (again.message.body, again.attempt) == (b"a", 2)


async def test_a_long_poll_is_woken_at_an_earlier_expiry(store: Store, clock: ManualClock):
    for name in ("t", "other"):
        await store.topology.put_topic(Topic(name, queues=1))
    await append(store, "t", "a")
    first = await pop(store, "t", invisible_ms=2 * LONG_POLL_MS)
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    for _ in range(3):  # each is durable when it is answered: by then the pop has found nothing, and waits
        await append(store, "other", "b")
    await store.consumption.change_invisible_duration("t", "g", handles(first), 30, release=False)
    clock.advance(30)
    [again] = await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert (again.message.body, again.attempt) == (b"a", 2)


async def test_a_long_poll_ends_empty_after_its_time(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await pop(store, "t", wait_ms=20) == []


async def test_releasing_answers_all_who_wait_and_keeps_none(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    waiting = [asyncio.create_task(pop(store, "t", f"g{i}", wait_ms=LONG_POLL_MS)) for i in range(3)]
    await asyncio.sleep(0)
    store.consumption.release_waiting()
    assert await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE_SECONDS) == [[], [], []]
    assert await asyncio.wait_for(pop(store, "t", wait_ms=LONG_POLL_MS), PATIENCE_SECONDS) == []
    await append(store, "t", "a")
    assert bodies(await pop(store, "t", wait_ms=LONG_POLL_MS)) == ["a"], "what is there is still given out"


async def test_a_consumer_that_goes_while_waiting_takes_nothing_along(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    gone = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    stays = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await append(store, "t", "a")
    assert bodies(await asyncio.wait_for(stays, PATIENCE_SECONDS)) == ["a"]


@pytest.mark.parametrize("start", [EARLIEST, LATEST, "time"])
async def test_where_a_group_begins(store: Store, clock: ManualClock, start: str):
    await store.topology.put_topic(Topic("t", queues=2))
    await append(store, "t", "old0", queue_id=0)
    await append(store, "t", "old1", queue_id=1)
    clock.advance(10_000)
    await append(store, "t", "mid0", queue_id=0)
    moment = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat()
    await store.topology.put_group(ConsumerGroup("g", start=moment if start == "time" else start))
    clock.advance(10_000)
    await append(store, "t", "new0", queue_id=0)
    await append(store, "t", "new1", queue_id=1)
    expected = {
        EARLIEST: ["mid0", "new0", "new1", "old0", "old1"],
        "time": ["mid0", "new0", "new1"],
        LATEST: ["new0", "new1"],
    }
    assert sorted(bodies(await pop(store, "t"))) == expected[start]


async def test_latest_counts_from_the_making_of_the_group(store: Store):
    """Not from its first pop: what came in between is its own."""
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "before")
    await store.topology.put_group(ConsumerGroup("g", start=LATEST))
    await append(store, "t", "between")
    assert bodies(await pop(store, "t")) == ["between"]


async def test_queues_that_come_later_are_read_from_their_beginning(store: Store):
    topic = await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", start=LATEST))
    assert await pop(store, "t") == []
    await store.topology.put_topic(replace(topic, queues=2))
    await append(store, "t", "grown", queue_id=1)
    assert bodies(await pop(store, "t")) == ["grown"]


async def test_a_small_pop_passes_over_what_is_spent(store: Store, clock: ManualClock):
    """A message whose attempts are used up goes to the dead letters; it does not stand for one of the answer."""
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_attempts=1, invisible_seconds=1))
    await append(store, "t", "spent", "good")
    assert bodies(await pop(store, "t", count=1)) == ["spent"]
    clock.advance(1_000)
    assert bodies(await pop(store, "t", count=1)) == ["good"]
    assert bodies(await pop(store, "%DLQ%g", "other")) == ["spent"]


async def test_status_tells_lag_and_what_is_in_flight(store: Store, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *map(str, range(6)))
    found = await pop(store, "t", count=4, invisible_ms=1_000)

    async def progress() -> tuple[int, int, int, int]:
        [queue] = (await store.topology.group_status("g")).progress
        assert (queue.topic, queue.queue_id) == ("t", 0)
        return queue.committed_offset, queue.max_offset, queue.in_flight, queue.lag

    assert await progress() == (0, 6, 4, 6)
    assert codes(await store.consumption.acknowledge("t", "g", [found[1].receipt_handle])) == [None]
    assert await progress() == (0, 6, 3, 5), "the committed offset does not pass what is not acknowledged"
    await store.consumption.acknowledge("t", "g", [found[0].receipt_handle])
    assert await progress() == (2, 6, 2, 4)
    await store.consumption.change_invisible_duration("t", "g", [found[2].receipt_handle], 0, release=True)
    assert await progress() == (2, 6, 1, 4)
    clock.advance(1_000)
    assert await progress() == (2, 6, 0, 4)
    await store.consumption.acknowledge("t", "g", handles(await pop(store, "t", count=100)))
    assert await progress() == (6, 6, 0, 0)


@pytest.mark.parametrize("is_waiting", [False, True], ids=["messages are there", "messages come"])
async def test_a_pop_that_is_cancelled_takes_nothing_along(store: Store, is_waiting: bool):
    """Whenever that is: before it has claimed, while that becomes durable, when its answer is on its way."""
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", start=EARLIEST, invisible_seconds=600))

    async def messages() -> None:
        await append(store, "t", "1", "2")

    async def nothing() -> None: ...

    begin, go_on = (nothing, messages) if is_waiting else (messages, nothing)
    assert await cancel_at_every_step(store, 2, begin, go_on)
