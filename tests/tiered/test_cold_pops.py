"""Groups that lag behind the disk: they pop what only the object store has, as if it were still here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import Position, PositionKind
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import (
    COUNT,
    QUEUES,
    TOPIC,
    all_uploaded,
    filled,
    gone,
    known,
    message,
    opened,
    published,
    root,
    uploaded,
)
from tests.support.waiting import until

GROUP = ConsumerGroup("late", start="earliest", max_attempts=3)
ODD = FilterExpression(FilterKind.TAG, "odd")


async def popped(
    store: Broker, group: str = "late", count: int = 500, filter: FilterExpression | None = None
) -> list[Delivery]:
    return list(await store.consumption.pop(PopRequest("factory", group, count, 0, filter=filter)))


async def consumed(store: Broker, group: str = "late", filter: FilterExpression | None = None) -> list[StoredMessage]:
    """All that a group gets, each acknowledged."""
    found: list[StoredMessage] = []
    while deliveries := await popped(store, group, 500, filter):
        found += [delivery.message for delivery in deliveries]
        assert not any(await store.consumption.acknowledge("factory", group, deliveries))
    return found


def places(messages: list[StoredMessage]) -> list[tuple[int, int]]:
    return sorted((message.queue_id, message.queue_offset) for message in messages)


ALL = [(queue_id, offset) for queue_id in range(QUEUES) for offset in range(COUNT)]


async def test_a_group_that_begins_at_the_beginning_gets_what_is_cold(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        await store.topology.put_group(GROUP)
        found = await consumed(store)
        assert places(found) == ALL
        assert [m for m in found if m.queue_id == 0] == before[0], "as it was, in order"
        await published(store, clock, COUNT, 100)
        assert len(await consumed(store)) == 100 * QUEUES, "and what comes since"
        [first, *_] = (await store.consumption.group_status("late")).progress
        assert first.lag == 0


async def test_a_group_that_was_away_goes_on_where_it_was(tmp_path: Path) -> None:
    """It took some, held some, gave some back; then all went cold, and the broker was started again."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_group(GROUP)
        await published(store, clock)
        taken = await popped(store, count=100)
        await store.consumption.acknowledge("factory", "late", taken[:60])
        await store.consumption.change_invisible_duration("factory", "late", taken[90:], 0, release=True)
        await all_uploaded(store)
        await gone(store, clock)
        [status, *_] = (await store.consumption.group_status("late")).progress
        assert status.lag >= COUNT - 100, "what is cold is not consumed"
    async with opened(tmp_path, clock) as store:
        await known(store)
        found: list[StoredMessage] = []
        while deliveries := await popped(store):
            assert not any(await store.consumption.acknowledge("factory", "late", deliveries))
            found += [delivery.message for delivery in deliveries]
            again = {(d.message.queue_id, d.message.queue_offset) for d in deliveries if d.attempt > 1}
            assert again <= {(d.message.queue_id, d.message.queue_offset) for d in taken[60:]}
        assert places(found) == sorted(set(ALL) - {(d.message.queue_id, d.message.queue_offset) for d in taken[:60]})


@pytest.mark.parametrize(
    ("kind", "text"),
    [(FilterKind.TAG, "odd"), (FilterKind.SUB_TOPIC, "factory/line3"), (FilterKind.SQL92, "a = '4' OR a = '2001'")],
)
async def test_filters(tmp_path: Path, kind: FilterKind, text: str) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_group(GROUP)
        await store.topology.put_group(replace(GROUP, name="hot"))
        await store.topology.put_topic(TOPIC)
        await published(store, clock)
        wanted = FilterExpression(kind, text)
        expected = await consumed(store, "hot", wanted)
        assert expected
        await all_uploaded(store)
        await gone(store, clock)
        assert places(await consumed(store, "late", wanted)) == places(expected)
        assert not await popped(store)


@pytest.mark.soak
async def test_fifo_groups_keep_the_order(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_group(replace(GROUP, fifo=True))
        for start in range(0, 600, 100):
            await append_all(store, *(grouped(number) for number in range(start, start + 100)))
            clock.advance(1000)
        assert len(await popped(store, count=20)) == 20
        await all_uploaded(store, 300)
        await gone(store, clock)
    async with opened(tmp_path, clock) as store:
        await known(store)
        held = await popped(store, count=7)
        assert held
        by_group: dict[str, list[int]] = {}
        deliveries = held
        while deliveries:
            for delivery in deliveries:
                by_group.setdefault(delivery.message.message_group, []).append(int(delivery.message.body[:6]))
            assert not any(await store.consumption.acknowledge("factory", "late", deliveries))
            deliveries = await popped(store, count=50)
        assert sorted(number for numbers in by_group.values() for number in numbers) == list(range(600))
        assert all(numbers == sorted(numbers) for numbers in by_group.values())


def grouped(number: int) -> Message:
    queue_id = number % QUEUES
    return Message(
        "factory",
        b"%06d" % number + bytes(1000),
        queue_id=queue_id,
        message_id=b"g%d" % number,
        message_group=f"{queue_id}/{number % 6}",
        filter_hash=filter_hash("", ""),
        born_time_ms=5,
    )


async def test_dead_letters_are_made_of_cold_messages(tmp_path: Path) -> None:
    """By a consumer that rejects, and where the last attempt is over."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_group(replace(GROUP, max_attempts=1))
        await published(store, clock, 0, 100)
        taken = await popped(store, count=10)
        assert len(taken) == 10
        await all_uploaded(store, 100)
        clock.advance(20_000)
        rejected = await popped(store, count=3)
        await gone(store, clock)
        await store.consumption.change_invisible_duration("factory", "late", rejected, 60_000, release=False)
        letters = store.engine.dispatcher.queues
        name = dead_letter_topic("late")
        await until(
            lambda: (name, 0) in letters and letters[name, 0].visible_offset >= 10, "the last attempts are over"
        )
        outcomes = await store.consumption.reject("factory", "late", rejected, "no")
        moved = await store.messages.read(name, 0, 0, 100)
        expected = {d.message.message_id for d in taken} | {
            d.message.message_id for d, outcome in zip(rejected, outcomes, strict=True) if outcome is None
        }
        assert {message.message_id for message in moved} >= expected
        assert all(len(message.body) > 1000 for message in moved)
        assert {d.message.message_id for d in taken} <= {m.message_id for m in moved}


async def test_starts_and_resets_in_the_cold(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_group(ConsumerGroup("since", start="latest"))
        before = await filled(store, clock)
        assert places(await consumed(store, "since")) == ALL, "it was there before all of them"
        moment = before[0][700].store_time_ms
        await store.topology.put_group(ConsumerGroup("timed", start=_rfc3339(moment)))
        wanted = [(q, m.queue_offset) for q in before for m in before[q] if m.store_time_ms >= moment]
        assert places(await consumed(store, "timed")) == wanted
        await store.topology.put_group(ConsumerGroup("new", start="latest"))
        assert await popped(store, "new") == []
        await store.consumption.reset_group("new", "factory", Position(PositionKind.TIME, moment))
        assert places(await consumed(store, "new")) == wanted
        await store.consumption.reset_group("new", "factory", Position(PositionKind.EARLIEST))
        assert places(await consumed(store, "new")) == ALL
        await store.consumption.reset_group("new", "factory", Position(PositionKind.OFFSET, 1190), 1)
        assert places(await consumed(store, "new")) == [(1, offset) for offset in range(1190, COUNT)]


async def test_a_group_over_many_queues_begins_with_one_question_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, queues = ManualClock(), 16
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(replace(TOPIC, queues=queues))
        for start in range(0, 40, 10):
            numbers = range(start, start + 10)
            some = [replace(message(n), queue_id=queue_id) for queue_id in range(queues) for n in numbers]
            assert not any(await append_all(store, *some))
            clock.advance(1000)
        await until(lambda: uploaded(store) == dict.fromkeys(range(queues), 40), "all is uploaded")
        clock.advance(120_000)
        found = [store.engine.dispatcher.queue("factory", number) for number in range(queues)]
        await until(lambda: all(queue.min_offset == 40 for queue in found), "all is cold")
        assert store.tier is not None
        asked: list[int] = []
        since = store.tier.reads.since

        async def counted(queue: ConsumeQueue, time_ms: int) -> int:
            asked.append(queue.queue_id)
            return await since(queue, time_ms)

        monkeypatch.setattr(store.tier.reads, "since", counted)
        await store.topology.put_group(ConsumerGroup("timed", start=_rfc3339(clock.now_ms() - 122_000)))
        assert places(await consumed(store, "timed")) == [(q, at) for q in range(queues) for at in range(20, 40)]
        assert sorted(asked) == list(range(queues))


def _rfc3339(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


@pytest.mark.failure_also("The object store is away")
async def test_a_store_that_is_away_is_an_error_and_nothing_is_passed_over(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, cache_bytes=1) as store:
        before = await filled(store, clock)
        await store.topology.put_group(GROUP)
        table = tmp_path / "cold" / root(store)
        table.rename(tmp_path / "elsewhere")
        with pytest.raises(EntrepotError) as refused:
            await popped(store)
        assert refused.value.code in (Code.COLD_CORRUPTED, Code.UNAVAILABLE)
        await published(store, clock, COUNT, 100)
        await store.topology.put_group(ConsumerGroup("hot", start="latest"))
        await store.consumption.reset_group("hot", "factory", Position(PositionKind.OFFSET, COUNT))
        assert len(await popped(store, "hot")) == 200, "hot messages are not concerned"
        (tmp_path / "elsewhere").rename(table)
        found = await consumed(store)
        assert places(found) == sorted(ALL + [(q, COUNT + at) for q in range(QUEUES) for at in range(100)])
        assert [m for m in found if m.queue_id == 1][:COUNT] == before[1]


@pytest.mark.soak
async def test_what_expires_in_the_tier_is_passed_over(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_group(GROUP)
        await filled(store, clock)
        assert len(await popped(store, count=4)) == 4
        await store.topology.put_topic(replace(TOPIC, tier_seconds=1))
        clock.advance(200_000_000)  # whole days go
        queues = [store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
        assert store.tier is not None
        store.tier.service.process.kill()  # type: ignore[union-attr]  # the next one looks at ages at once
        await until(lambda: all(store.core.min_offset(queue) == COUNT for queue in queues), "it is gone")
        assert await popped(store) == []
        assert all(each.lag == 0 for each in (await store.consumption.group_status("late")).progress)


async def test_a_poll_waits_for_what_comes_behind_the_cold(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        await store.topology.put_group(GROUP)
        await consumed(store)
        poll = asyncio.ensure_future(store.consumption.pop(PopRequest("factory", "late", 10, 60_000)))
        await published(store, clock, COUNT, 100)
        assert len(await poll) > 0


async def test_odd_is_a_filter_of_a_group(tmp_path: Path) -> None:
    """A group's own filter, over cold and hot alike."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        await published(store, clock, COUNT, 100)
        await store.topology.put_group(replace(GROUP, filter=ODD))
        wanted = [(q, m.queue_offset) for q in before for m in before[q] if m.tag == "odd"]
        hot = [(q, COUNT + at) for q in range(QUEUES) for at in range(1, 100, 2)]
        assert places(await consumed(store)) == sorted(wanted + hot)


async def test_a_slow_store_keeps_nobody_from_hot_messages(tmp_path: Path) -> None:
    """One queue of a group is cold, and the store does not answer; what comes to the other queue is handed out."""
    clock = ManualClock()
    async with opened(tmp_path, clock, cache_bytes=1) as store:
        await filled(store, clock)
        await store.topology.put_group(GROUP)
        await store.consumption.reset_group("late", "factory", Position(PositionKind.OFFSET, 0), 0)
        await store.consumption.reset_group("late", "factory", Position(PositionKind.OFFSET, COUNT), 1)
        assert store.tier is not None
        asked, release = asyncio.Event(), asyncio.Event()
        cold, loop = store.tier.tables.cold[root(store)], asyncio.get_running_loop()
        read = cold.read

        def slow(*arguments: Any) -> Any:
            loop.call_soon_threadsafe(asked.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return read(*arguments)

        cold.read = slow  # type: ignore[method-assign, assignment]
        poll = asyncio.ensure_future(store.consumption.pop(PopRequest("factory", "late", 10, 600_000)))
        await asked.wait()
        await published(store, clock, COUNT, 100)
        assert {delivery.message.queue_id for delivery in await poll} == {1}
        release.set()
        found = await consumed(store)
        assert {m.queue_offset for m in found if m.queue_id == 0} == set(range(COUNT + 100))
