"""Messages by key, id, time and place, where only the object store has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.broker import Broker
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import COUNT, QUEUES, TOPIC, all_of, all_uploaded, gone, message, opened
from tests.support.waiting import until


async def filled(store: Broker, clock: ManualClock, first: int = 0, count: int = COUNT) -> None:
    """Each seventh message has the key `seven`, each one a key of its own."""
    for start in range(first, first + count, 100):
        numbers = range(start * QUEUES, (start + 100) * QUEUES)
        await append_all(store, *(replace(message(number), keys=keys(number)) for number in numbers))
        clock.advance(1000)


def keys(number: int) -> tuple[str, ...]:
    return (f"k{number}", "seven") if number % 7 == 0 else (f"k{number}",)


async def everything(store: Broker) -> list[StoredMessage]:
    found = [each for queue_id in range(QUEUES) for each in await all_of(store, queue_id)]
    return sorted(found, key=lambda each: -each.commit_log_offset)


async def pages(store: Broker, query: MessageQuery) -> list[StoredMessage]:
    """All that a query finds, page by page."""
    found: list[StoredMessage] = []
    while True:
        page = await store.finder.query(query)
        assert len(page.messages) <= query.limit
        found += page.messages
        if page.next is None:
            return found
        query = replace(query, cursor=page.next)


async def test_queries_find_the_same_hot_and_cold(tmp_path: Path) -> None:
    """Half is cold and half is not; what each query finds was told by the log while all of it was hot."""
    seed = 20261125
    clock, random = ManualClock(), Random(seed)
    print(f"seed {seed}")
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await filled(store, clock)
        times = [each.store_time_ms for each in await everything(store)]
        queries = [
            MessageQuery("factory", limit=1000),
            MessageQuery("factory", limit=37),
            MessageQuery("factory", key="seven", limit=10),
            MessageQuery("factory", key="k77"),
            MessageQuery("factory", key="nobody"),
        ]
        for _ in range(6):
            first, last = sorted(random.sample(times, 2))
            key = random.choice([None, "seven", f"k{random.randrange(COUNT * QUEUES)}"])
            queries.append(MessageQuery("factory", key, first, last, random.choice([3, 100])))
        expected = [await pages(store, query) for query in queries]
        assert len(expected[0]) == COUNT * QUEUES and len(expected[2]) == len(range(0, COUNT * QUEUES, 7))
        await all_uploaded(store)
        await gone(store, clock)
        await filled(store, clock, COUNT, 200)
        behind = clock.now_ms() - 2000
        hot = {each.commit_log_offset for each in (await everything(store))[: 200 * QUEUES]}
        for query, before in zip(queries, expected, strict=True):
            found = await pages(store, query)
            assert [each for each in found if each.commit_log_offset not in hot] == before, query
        assert len(await pages(store, MessageQuery("factory", limit=64))) == (COUNT + 200) * QUEUES
        assert len(await pages(store, MessageQuery("factory", from_ms=behind, limit=64))) == 200 * QUEUES


async def test_one_message_is_found_by_id_and_by_place(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await store.topology.put_topic(Topic("other", retention_seconds=10**9))
        await filled(store, clock)
        [_, wanted, *_] = await all_of(store, 1)
        copy = Message("other", b"the same id", queue_id=0, message_id=wanted.message_id)
        assert await append_all(store, copy) == [None]
        await all_uploaded(store)
        await gone(store, clock)
        found = await store.finder.messages_by_id(wanted.message_id)
        assert [each.topic for each in found] == ["other", "factory"]
        assert found[1] == wanted
        assert await store.finder.messages_by_id(b"nobody has it") == []
        assert await store.finder.message_at(wanted.commit_log_offset) == wanted
        with pytest.raises(EntrepotError) as refused:
            await store.finder.message_at(wanted.commit_log_offset + 1)
        assert refused.value.code is Code.OFFSET_NOT_FOUND


@pytest.mark.soak
async def test_a_message_of_several_queues_is_one_message(tmp_path: Path) -> None:
    """At its own place, as while it was hot; once that is gone, where it lies still."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        for name in ("a-feed", "z-feed"):
            await store.topology.put_topic(replace(TOPIC, name=name, queues=1))
        await append_all(store, Message("z-feed", b"moves the offsets", queue_id=0))
        own = replace(message(3), keys=("k",), further_queues=(("a-feed", 0), ("z-feed", 0)))
        await filled(store, clock)
        await append_all(store, own)
        queries = [MessageQuery("factory", limit=1000), MessageQuery("factory", "k"), MessageQuery("z-feed", "k")]
        by_key = [await pages(store, query) for query in queries]
        [hot] = by_key[1]
        assert by_key[2] == [], "by its own topic alone"
        by_id = [each for each in await store.finder.messages_by_id(b"m3") if each.keys == ("k",)]
        assert by_id == [hot] and (hot.topic, hot.queue_id, hot.queue_offset) == ("factory", 1, COUNT)
        await filled(store, clock, COUNT + 1)  # the file of the log with its record is full
        await gone(store, clock)
        dispatcher = store.engine.dispatcher
        queues = [dispatcher.queue(name, 0) for name in ("a-feed", "z-feed")]
        await until(lambda: all(queue.min_offset == queue.visible_offset for queue in queues), "feeds are cold, too")
        await until(lambda: store.engine.commit_log.min_offset > hot.commit_log_offset, "its record is gone")
        assert await pages(store, queries[1]) == [hot] and await pages(store, queries[2]) == []
        assert [each for each in await store.finder.messages_by_id(b"m3") if each.keys == ("k",)] == [hot]
        assert await store.finder.message_at(hot.commit_log_offset) == hot
        await store.topology.delete_topic("factory")
        found = await store.finder.message_at(hot.commit_log_offset)
        places = {("a-feed", 0, 0), ("z-feed", 0, 1)}
        assert (found.topic, found.queue_id, found.queue_offset) in places and found.body == hot.body


@pytest.mark.soak
async def test_a_search_of_many_messages_goes_on_by_its_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.tiered.searching.MAX_SEARCHED_ROWS", 100)
    clock = ManualClock()
    async with opened(tmp_path, clock, segment_bytes=64 << 10) as store:
        await store.topology.put_topic(TOPIC)
        await filled(store, clock)
        await all_uploaded(store)
        await gone(store, clock)
        page = await store.finder.query(MessageQuery("factory", key="k0"))
        assert page.messages == [] and page.next is not None, "the key is the oldest's"
        assert [each.keys for each in await pages(store, MessageQuery("factory", key="k0"))] == [("k0", "seven")]
        found = await pages(store, MessageQuery("factory", key="seven", limit=5))
        assert [each.body.split()[0] for each in found] == [b"%d" % n for n in reversed(range(0, COUNT * QUEUES, 7))]


async def test_bytes_of_ranges_count_what_is_cold(tmp_path: Path) -> None:
    """Limits in bytes go by them: a range that lies half in the store has the bytes of both halves."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await filled(store, clock)
        on_disk = await store.messages.bytes_between(TOPIC.name, 0, 0, COUNT)
        await all_uploaded(store)
        await gone(store, clock)
        stored = sum(path.stat().st_size for path in (tmp_path / "cold").rglob("*.parquet"))
        cold = [await store.messages.bytes_between(TOPIC.name, queue_id, 0, COUNT) for queue_id in range(QUEUES)]
        assert 0.8 * stored < sum(cold) < 1.2 * stored < on_disk
        least = store.engine.dispatcher.queue(TOPIC.name, 0).min_offset
        part = await store.messages.bytes_between(TOPIC.name, 0, least // 4, least // 2)
        assert 0 < part < cold[0]
        await filled(store, clock, COUNT, 400)
        both = await store.messages.bytes_between(TOPIC.name, 0, 0, COUNT + 400)
        assert both > cold[0] + on_disk // 10
