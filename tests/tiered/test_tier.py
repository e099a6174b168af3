"""A broker with a tier: what has left its disk is read from the object store, and nobody notices where it lay."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from entrepot.broker.broker import Broker
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.segment import times_of
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.protocols.wire.records import RecordColumns, decode_run
from entrepot.protocols.wire.stored_record import decode_message
from tests.support.clock import ManualClock
from tests.support.tiered.cold_topics import (
    COUNT,
    QUEUES,
    TOPIC,
    all_of,
    all_uploaded,
    filled,
    gone,
    opened,
    published,
    root,
    uploaded,
)
from tests.support.waiting import until


async def test_what_is_cold_is_read_as_it_was(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        await until(lambda: store.cleaner.deleted_segments > 0, "files of the log are deleted")
        for queue_id in range(QUEUES):
            assert await all_of(store, queue_id) == before[queue_id]
        assert [(b.min_offset, b.max_offset) for b in await store.messages.bounds("factory")] == [(0, COUNT)] * QUEUES
        await published(store, clock, COUNT, 100)  # hot ones behind: no seam
        found = await all_of(store, 0, COUNT - 50)
        assert [each.queue_offset for each in found] == list(range(COUNT - 50, COUNT + 100))
    async with opened(tmp_path, clock) as store:  # after a start it is known once the table is loaded
        await until(lambda: uploaded(store), "the table is loaded")
        await until(lambda: store.core.min_offset(store.engine.dispatcher.queue("factory", 1)) == 0, "it is read")
        assert (await all_of(store, 1))[:COUNT] == before[1]


async def test_positions_filters_and_pages(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        messages = store.messages
        at = before[0][400]
        assert await messages.offset_at("factory", 0, Position(PositionKind.TIME, at.store_time_ms)) == 400
        assert await messages.offset_at("factory", 0, Position(PositionKind.EARLIEST)) == 0
        assert await messages.offset_at("factory", 0, Position(PositionKind.OFFSET, 7)) == 7
        assert await messages.offset_at("factory", 0, Position(PositionKind.LATEST)) == COUNT
        assert await messages.offset_at("factory", 0, Position(PositionKind.TIME, clock.now_ms())) == COUNT
        for kind, text, wants in (
            (FilterKind.TAG, "odd", lambda m: m.tag == "odd"),
            (FilterKind.SUB_TOPIC, "factory/line3", lambda m: m.sub_topic == "factory/line3"),
            (FilterKind.SUB_TOPIC, "+/line3", lambda m: m.sub_topic == "factory/line3"),
            (FilterKind.SQL92, "a = '4'", lambda m: m.properties[0][1] == "4"),
        ):
            wanted = FilterExpression(kind, text)
            assert await pulled(store, 0, wanted) == [m.queue_offset for m in before[0] if wants(m)], text
        with pytest.raises(EntrepotError) as refused:
            await messages.read("factory", 0, -1, 1)
        assert refused.value.code is Code.ILLEGAL_OFFSET


async def pulled(store: Broker, queue_id: int, wanted: FilterExpression) -> list[int]:
    found: list[int] = []
    offset = 0
    while offset < COUNT:
        page = await store.messages.pull("factory", queue_id, offset, 50, wanted)
        assert page.min_offset == 0 and page.next_offset > offset
        found += [message.queue_offset for message in page.messages]
        offset = page.next_offset
    return found


async def test_a_tail_begins_in_the_cold_and_goes_on_live(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        live: list[StoredMessage] = []
        by_time: list[StoredMessage] = []
        at = before[1][800].store_time_ms
        tails = [
            store.messages.tail("factory", 1, 5, live.extend),
            store.messages.tail("factory", 1, Position(PositionKind.TIME, at), by_time.extend),
        ]
        await published(store, clock, COUNT, 100)
        await until(lambda: len(live) >= COUNT + 95, lambda: f"{len(live)} came")
        assert [each.queue_offset for each in live] == list(range(5, COUNT + 100))
        assert live[: COUNT - 5] == before[1][5:]
        await until(lambda: by_time and by_time[-1].queue_offset == COUNT + 99, "the other one, too")
        assert [each.queue_offset for each in by_time] == list(range(800, COUNT + 100))
        for tail in tails:
            assert tail.next_offset == COUNT + 100
            tail.close()


@pytest.mark.failure(
    "The object store is away",
    group="The object store",
    does=(
        "Messages stay on the disk. Those are read; who reads cold ones gets an error, and misses nothing. All goes "
        "on when it is back."
    ),
    lost="nothing",
    told="alarm: the tier has problems; `entrepot_tier_problems`",
)
async def test_nothing_leaves_the_disk_before_the_table_has_it(tmp_path: Path) -> None:
    """The store is away at first: a folder that is a file."""
    (tmp_path / "cold").write_text("no folder")
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        clock.advance(120_000)
        assert store.tier is not None
        await until(lambda: "cold" in store.tier.problem, "it says why")  # type: ignore[union-attr]
        rounds = store.cleaning.last_end
        await until(lambda: store.cleaning.last_end > rounds + 0.05, "the cleaner has looked")
        assert [b.min_offset for b in await store.messages.bounds("factory")] == [0, 0]
        assert len(await all_of(store, 0)) == 200, "hot messages are not concerned"
        (tmp_path / "cold").unlink()
        await all_uploaded(store, 200)
        await gone(store, clock)
        assert len(await all_of(store, 0)) == 200


async def test_an_uploader_that_dies_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.tiered.tier.FIRST_PAUSE", 0.05)
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        assert store.tier is not None
        await store.topology.put_topic(TOPIC)
        for turn in range(3):
            await published(store, clock, 100 * turn, 100)
            process = await until(lambda: store.tier.service.process, "there is an uploader")  # type: ignore[union-attr]
            os.kill(process.pid, signal.SIGKILL)  # type: ignore[union-attr]
            await until(lambda before=process: store.tier.service.process not in (None, before), "another one")  # type: ignore[misc,union-attr]
        await all_uploaded(store, 300)
        await gone(store, clock)
        assert [each.queue_offset for each in await all_of(store, 0)] == list(range(300))


async def test_everybody_reads_the_table(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        path = str(tmp_path / "cold" / root(store))
        frame = polars.read_delta(path)
        assert len(frame) == COUNT * QUEUES
        bodies = {(row["queue_id"], row["queue_offset"]): row["body"] for row in frame.to_dicts()}
        assert bodies == {(q, m.queue_offset): m.body for q in before for m in before[q]}
        assert DeltaTable(path).to_pyarrow_table().num_rows == COUNT * QUEUES
        files = [str(each) for each in Path(path).rglob("*.parquet")]
        [(count, ids)] = duckdb.sql(
            f"select count(*), count(distinct (queue_id, queue_offset)) from read_parquet({files})"
        ).fetchall()
        assert count == ids == COUNT * QUEUES


async def test_a_topic_that_is_made_anew_has_another_table(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 100)
        await all_uploaded(store, 100)
        first = root(store)
        await store.topology.delete_topic("factory")
        await store.topology.put_topic(TOPIC)
        assert root(store) != first
        assert await all_of(store, 0) == []
        await published(store, clock, 0, 100)
        await all_uploaded(store, 100)
        assert len(await all_of(store, 0)) == 100


async def test_old_segments_go_from_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        queue = store.engine.dispatcher.queue("factory", 0)
        table = TopicTable(FolderStore(tmp_path / "cold"), root(store), clock, Random(1))
        table.open()
        old = table.place(0, 0)
        assert old is not None
        assert table.expire(times_of(table.runs(old.path))[1] + 1) >= 1
        assert table.bounds(0).first == old.next_offset
        assert store.tier is not None
        await store.tier.tables.know(root(store))
        assert store.core.min_offset(queue) == old.next_offset
        with pytest.raises(EntrepotError) as refused:
            await store.messages.read("factory", 0, 0, 1)
        assert refused.value.code is Code.ILLEGAL_OFFSET
        assert (await store.messages.read("factory", 0, old.next_offset, 1))[0].queue_offset == old.next_offset


async def test_a_segment_that_was_deleted_is_an_error_at_its_offsets(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, cache_bytes=1) as store:
        await filled(store, clock)
        paths = sorted((tmp_path / "cold" / root(store)).rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
        paths[0].unlink()
        with pytest.raises(EntrepotError) as refused:
            await all_of(store, 0)
        assert refused.value.code is Code.COLD_CORRUPTED
        assert "of queue 0 were in" in refused.value.message
        later = await store.messages.read("factory", 0, COUNT - 1, 1)
        assert [each.queue_offset for each in later] == [COUNT - 1], "the others are read"


@pytest.mark.parametrize("left", [0.5, 0.0])
async def test_a_segment_that_was_cut_is_an_error_at_its_offsets(tmp_path: Path, left: float) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        for path in (tmp_path / "cold").rglob("*.parquet"):
            os.truncate(path, int(path.stat().st_size * left))
        with pytest.raises(EntrepotError) as refused:
            await store.messages.read("factory", 0, 0, 10)
        assert refused.value.code is Code.COLD_CORRUPTED and ".parquet ends before" in refused.value.message


async def test_what_precedes_a_lost_segment_is_found_by_filters(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, cache_bytes=1) as store:
        before = await filled(store, clock)
        segments = (tmp_path / "cold" / root(store)).rglob("*.parquet")
        max(segments, key=lambda path: path.stat().st_mtime_ns).unlink()
        odd = FilterExpression(FilterKind.TAG, "odd")
        page = await store.messages.pull("factory", 0, 0, COUNT, odd)
        end = page.next_offset
        expected = [m.queue_offset for m in before[0] if m.tag == "odd" and m.queue_offset < end]
        assert [message.queue_offset for message in page.messages] == expected != []
        with pytest.raises(EntrepotError, match=f"messages {end} to .* which is gone"):
            await store.messages.pull("factory", 0, end, COUNT, odd)


async def test_a_reader_that_is_slow_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    """While a cold read waits for the store, messages are published and confirmed."""
    clock = ManualClock()
    async with opened(tmp_path, clock, cache_bytes=1) as store:
        await filled(store, clock)
        assert store.tier is not None
        held, release = asyncio.Event(), asyncio.Event()
        read: Callable[..., Any] = store.tier.tables.cold[root(store)].read
        loop = asyncio.get_running_loop()

        def slow(*arguments: Any) -> Any:
            loop.call_soon_threadsafe(held.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return read(*arguments)

        store.tier.tables.cold[root(store)].read = slow  # type: ignore[method-assign, assignment]
        reading = asyncio.ensure_future(store.messages.read("factory", 0, 0, 1))
        await held.wait()
        await published(store, clock, COUNT, 100)
        assert not reading.done()
        release.set()
        assert (await reading)[0].queue_offset == 0


async def test_runs_of_records_go_on_into_the_cold(tmp_path: Path) -> None:
    """What Spark's jobs and gateways read."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
        await published(store, clock, COUNT, 100)
        found: list[StoredMessage] = []
        offset = 7
        while offset < COUNT + 100:
            run = decode_run(await store.messages.records("factory", 1, offset, COUNT + 100, 64 << 10))
            assert run.min_offset == 0 and run.max_offset == COUNT + 100 and run.next_offset > offset
            assert not RecordColumns(run).corrupted
            for start, entry in zip(run.starts.tolist(), run.entries.tolist(), strict=True):
                found.append(decode_message(run.data, start, entry[1]))  # type: ignore[arg-type]
            offset = run.next_offset
        assert [each.queue_offset for each in found] == list(range(7, COUNT + 100))
        assert found[: COUNT - 7] == before[1][7:]
        part = decode_run(await store.messages.records("factory", 1, 10, 12, 1))
        assert (len(part), part.next_offset) == (1, 11), "one at least"
        few = FilterExpression(FilterKind.TAG, "odd")
        run = decode_run(await store.messages.records("factory", 1, 0, 10, 1 << 20, few))
        assert run.queue_offsets.tolist() == [1, 3, 5, 7, 9] and run.next_offset == 10
