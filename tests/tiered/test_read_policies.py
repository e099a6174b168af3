"""When the object store is read: never, for what has left the disk, or for all that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.broker.settings.tier import ReadPolicy
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import EARLIEST_POSITION
from entrepot.domain.query import MessageQuery
from tests.support.clock import ManualClock
from tests.support.tiered.cold_topics import (
    COUNT,
    QUEUES,
    TOPIC,
    all_of,
    all_uploaded,
    filled,
    gone,
    known,
    opened,
    published,
    root,
)
from tests.support.waiting import until


@pytest.mark.soak
async def test_disabled_what_has_left_the_disk_is_gone_and_still_uploaded(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, read=ReadPolicy.DISABLED) as store:
        await filled(store, clock)
        await published(store, clock, COUNT, 100)
        assert [b.min_offset for b in await store.messages.bounds("factory")] == [COUNT] * QUEUES
        assert await store.messages.offset_at("factory", 0, EARLIEST_POSITION) == COUNT
        with pytest.raises(EntrepotError) as refused:
            await store.messages.read("factory", 0, 0, 1)
        assert refused.value.code is Code.ILLEGAL_OFFSET
        await store.topology.put_group(ConsumerGroup("late", start="earliest"))
        found = await store.consumption.pop(PopRequest("factory", "late", 500))
        assert {delivery.message.queue_offset for delivery in found} == set(range(COUNT, COUNT + 100))
        assert len((await store.finder.query(MessageQuery("factory", limit=1000))).messages) == 100 * QUEUES
        await all_uploaded(store, COUNT + 100)
    async with opened(tmp_path, clock) as store:
        await known(store)
        assert [each.queue_offset for each in await all_of(store, 0)][:COUNT] == list(range(COUNT))


async def test_force_reads_the_store_though_the_disk_has_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, read=ReadPolicy.FORCE, cache_bytes=1) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        before = await all_of(store, 0)
        await all_uploaded(store, 200)
        assert store.tier is not None
        await until(lambda: store.tier.reads.hot_from(store.engine.dispatcher.queue("factory", 0)) == 200, "it is read")  # type: ignore[union-attr]
        await published(store, clock, 200, 100)
        assert (await all_of(store, 0))[:200] == before
        for path in (tmp_path / "cold" / root(store)).rglob("*.parquet"):
            path.unlink()
        store.tier.store.reader._bands.clear()  # type: ignore[union-attr]
        with pytest.raises(EntrepotError) as refused:
            await store.messages.read("factory", 0, 0, 1)
        assert refused.value.code is Code.COLD_CORRUPTED, "the disk was not asked"
        await store.topology.put_group(ConsumerGroup("late", start="earliest"))
        found = await store.consumption.pop(PopRequest("factory", "late", 600))
        assert len(found) == 300 * QUEUES, "pops take what the disk has"
        await gone(store, clock)
