"""A broker is lost with its disk, and a new one has the topic back from its table: each offset once, as it was."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.verification import verify
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import RestoreRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.waiting import until
from tests.tiered.test_tier import (
    QUEUES,
    TOPIC,
    all_of,
    all_uploaded,
    gone,
    opened,
    published,
    root,
    uploaded,
)

COUNT = 200
"""Messages of a queue."""
LATER_MS = 120_000
"""Long enough for a table to be nobody's."""
REQUEST = RestoreRequest("factory", tier_seconds=10**9)


async def lost(tmp_path: Path, clock: ManualClock, **tier: Any) -> tuple[str, dict[int, list[StoredMessage]]]:
    """A broker fills its table, and is gone with its disk; returns the table, and what was in the topic."""
    async with opened(tmp_path / "old", clock, (tmp_path / "cold").as_uri(), **tier) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, COUNT)
        before = {queue_id: await all_of(store, queue_id) for queue_id in range(QUEUES)}
        await all_uploaded(store, COUNT)
        table = root(store)
    shutil.rmtree(tmp_path / "old")
    pass_time(clock)
    return table, before


def pass_time(clock: ManualClock) -> None:
    """Nobody has written for a while.  An uploader has a clock of its own, which is that of the machine."""
    clock.advance(max(0, time.time_ns() // 1_000_000 - clock.now_ms()) + LATER_MS)


def reopened(tmp_path: Path, clock: ManualClock, name: str = "new", **tier: Any) -> Any:
    return opened(tmp_path / name, clock, (tmp_path / "cold").as_uri(), **tier)


async def restored(store: Broker, request: RestoreRequest = REQUEST) -> Any:
    await until(lambda: store.tier is not None and not store.tier.problem, "the object store is reached")
    return await store.tables.restore(request)


async def refused(store: Broker, request: RestoreRequest = REQUEST) -> EntrepotError:
    with pytest.raises(EntrepotError) as raised:
        await restored(store, request)
    return raised.value


def check_table(tmp_path: Path, table: str, clock: ManualClock, count: int) -> None:
    """Each offset of each queue is in it once."""
    verdict = verify(FolderStore(tmp_path / "cold"), table, clock, is_full=True)
    assert verdict.problems == []
    rows = polars.read_delta(str(tmp_path / "cold" / table))
    found = Counter(zip(rows["queue_id"].to_list(), rows["queue_offset"].to_list(), strict=True))
    assert found == Counter((queue_id, offset) for queue_id in range(QUEUES) for offset in range(count))


@pytest.mark.soak
async def test_a_topic_goes_on_where_its_table_ends(tmp_path: Path) -> None:
    clock = ManualClock()
    table, before = await lost(tmp_path, clock)
    async with reopened(tmp_path, clock) as store:
        found = await restored(store)
        assert (found.table, found.topic) == (table, replace(TOPIC, retention_seconds=None))
        assert [(b.min_offset, b.max_offset) for b in found.queues] == [(0, COUNT)] * QUEUES
        for queue_id in range(QUEUES):
            assert await all_of(store, queue_id) == before[queue_id]
        position = Position(PositionKind.TIME, before[0][100].store_time_ms)
        assert await store.messages.offset_at("factory", 0, position) == 100
        await published(store, clock, COUNT, 100)
        assert [each.queue_offset for each in await all_of(store, 1, COUNT - 5)] == list(range(COUNT - 5, COUNT + 100))
        await all_uploaded(store, COUNT + 100)
        assert root(store) == table
    async with reopened(tmp_path, clock) as store:  # and after another start
        await store.topology.put_topic(replace(store.registry.topics["factory"], retention_seconds=60))
        await until(lambda: uploaded(store), "the table is loaded")
        await until(lambda: store.core.min_offset(store.engine.dispatcher.queue("factory", 1)) == 0, "it is read")
        await gone(store, clock)
        assert [each.queue_offset for each in await all_of(store, 0)] == list(range(COUNT + 100))
    check_table(tmp_path, table, clock, COUNT + 100)


@pytest.mark.failure(
    "A broker is lost with its disk, and its tables are there",
    group="The object store",
    does="`entrepot tier restore` gives a new broker the topics. They go on where the tables end.",
    lost="what was not uploaded",
    told="`tier restore` says so, and asks for `--force`",
)
async def test_what_was_on_the_lost_disk_alone_is_lost_and_offsets_are_given_anew(tmp_path: Path) -> None:
    """The table ends before the queue did: the new one goes on from where the table ends."""
    clock = ManualClock()
    async with opened(tmp_path / "old", clock, (tmp_path / "cold").as_uri()) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        table = root(store)
        (tmp_path / "cold").rename(tmp_path / "away")  # from now on nothing goes there
        (tmp_path / "cold").write_text("no folder")
        await published(store, clock, 200, 100)
    shutil.rmtree(tmp_path / "old")
    (tmp_path / "cold").unlink()
    (tmp_path / "away").rename(tmp_path / "cold")
    pass_time(clock)
    async with reopened(tmp_path, clock) as store:
        found = await restored(store)
        assert [(b.min_offset, b.max_offset) for b in found.queues] == [(0, 200)] * QUEUES
        await published(store, clock, 200, 300)
        await all_uploaded(store, 500)
    check_table(tmp_path, table, clock, 500)


async def test_a_definition_that_is_there_without_messages_is_kept(tmp_path: Path) -> None:
    """Other brokers told it, as soon as the new one was there."""
    clock = ManualClock()
    table, before = await lost(tmp_path, clock)
    async with reopened(tmp_path, clock) as store:
        await store.topology.put_topic(replace(TOPIC, queues=3, max_message_bytes=5000, tier_seconds=10**8))
        found = await restored(store, RestoreRequest("factory"))
        assert (found.topic.queues, found.topic.max_message_bytes, found.topic.tier_seconds) == (3, 5000, 10**8)
        assert [(b.min_offset, b.max_offset) for b in found.queues] == [(0, COUNT), (0, COUNT), (0, 0)]
        assert (await all_of(store, 1)) == before[1]
    async with reopened(tmp_path, clock) as store:
        assert root(store) == table


async def test_a_deleted_topic_comes_back(tmp_path: Path) -> None:
    """The same broker, which still has the right to its table."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, COUNT)
        before, table = await all_of(store, 0), root(store)
        await all_uploaded(store, COUNT)
        await store.topology.delete_topic("factory")
        found = await restored(store)
        assert found.table == table and await all_of(store, 0) == before
        await published(store, clock, COUNT, 100)
        await all_uploaded(store, COUNT + 100)
    check_table(tmp_path, table, clock, COUNT + 100)


async def test_what_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    table, _ = await lost(tmp_path, clock)
    async with reopened(tmp_path, clock) as store:
        error = await refused(store, replace(REQUEST, topic="unknown"))
        assert error.code is Code.TOPIC_NOT_FOUND and "no table of topic 'unknown'" in error.message
        assert table not in error.message, "those of other topics are not told to whoever restores this one"
        error = await refused(store, replace(REQUEST, table="factory/none-1"))
        assert error.code is Code.TOPIC_NOT_FOUND and table in error.message
        error = await refused(store, replace(REQUEST, tier_seconds=None))
        assert error.code is Code.BAD_REQUEST and "tierSeconds" in error.message
        error = await refused(store, replace(REQUEST, topic="lab/factory"))
        assert error.code is Code.BAD_REQUEST and "no namespace 'lab'" in error.message
        error = await refused(store, replace(REQUEST, topic="%DLQ%g"))
        assert error.code is Code.FORBIDDEN
        await store.topology.put_topic(Topic("factory", queues=2))
        await published(store, clock, 0, 100)
        error = await refused(store)
        assert error.code is Code.PRECONDITION_FAILED and "delete it first" in error.message
        await store.topology.delete_topic("factory")
        await restored(store)
        error = await refused(store)
        assert error.code is Code.PRECONDITION_FAILED and "delete it first" in error.message


async def test_the_queues_of_another_broker_number(tmp_path: Path) -> None:
    clock = ManualClock()
    await lost(tmp_path, clock, number=7)
    async with reopened(tmp_path, clock, number=3) as store:
        error = await refused(store)
        assert error.code is Code.PRECONDITION_FAILED and "broker.number = 7" in error.message
    async with reopened(tmp_path, clock, "right", number=7) as store:
        found = await restored(store)
        assert [bounds.queue_id for bounds in found.queues] == [0, 1]
        await published(store, clock, COUNT, 100)
        await all_uploaded(store, COUNT + 100)
        rows = polars.read_delta(str(tmp_path / "cold" / root(store)))
        assert set(rows["queue_id"].to_list()) == {first_queue(7), first_queue(7) + 1}


async def test_one_of_several_tables_is_named(tmp_path: Path) -> None:
    clock = ManualClock()
    tables = []
    for _ in range(2):
        table, before = await lost(tmp_path, clock)
        tables.append(table)
    async with reopened(tmp_path, clock) as store:
        error = await refused(store)
        assert error.code is Code.BAD_REQUEST and all(table in error.message for table in tables)
        found = await restored(store, replace(REQUEST, table=tables[1]))
        assert found.table == tables[1] and await all_of(store, 0) == before[0]


@pytest.mark.soak
async def test_a_broker_that_is_alive_is_not_robbed_unseen(tmp_path: Path) -> None:
    """Its table is taken by force, and from then on it uploads nothing more."""
    clock = ManualClock()
    async with reopened(tmp_path, clock, "old") as old, reopened(tmp_path, clock) as store:
        await old.topology.put_topic(TOPIC)
        await published(old, clock, 0, 200)
        await all_uploaded(old, 200)
        error = await refused(store)
        assert error.code is Code.PRECONDITION_FAILED and "is its broker alive?" in error.message
        assert await restored(store, replace(REQUEST, is_forced=True))
        await published(old, clock, 200, 100)
        await until(lambda: "was taken over" in old.tier.progress[root(old)].problem, "the old one is told")  # type: ignore[union-attr]
        await published(store, clock, 200, 300)
        await all_uploaded(store, 500)
        table = root(store)
    check_table(tmp_path, table, clock, 500)


@pytest.mark.soak
@pytest.mark.parametrize("at", ["take_over", "know", "record"])
async def test_a_crash_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Before the record nothing is there, and it is done again; that of the same broker, or of yet another."""
    clock = ManualClock()
    table, before = await lost(tmp_path, clock)

    class Crashed(Exception):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crashed

    async with reopened(tmp_path, clock) as store:
        await until(lambda: store.tier is not None and not store.tier.problem, "the object store is reached")
        with monkeypatch.context() as patch:
            if at == "take_over":
                patch.setattr("entrepot.broker.tiered.table.TopicTable.take_over", crash)
            elif at == "know":
                patch.setattr(store.tier.tables, "know", crash)
            else:
                patch.setattr(store.core, "record", crash)
            with pytest.raises(Crashed):
                await store.tables.restore(REQUEST)
        assert store.topology.topic("factory") is None
    async with reopened(tmp_path, clock) as store:
        assert store.topology.topic("factory") is None
        await restored(store)
        assert await all_of(store, 0) == before[0]
    shutil.rmtree(tmp_path / "new")
    pass_time(clock)
    async with reopened(tmp_path, clock, "third") as store:
        await restored(store)
        await published(store, clock, COUNT, 100)
        await all_uploaded(store, COUNT + 100)
    check_table(tmp_path, table, clock, COUNT + 100)


async def test_a_broker_without_a_tier(tmp_path: Path) -> None:
    from entrepot.broker.settings.store import BrokerSettings

    store = await Broker.open(BrokerSettings(tmp_path / "data"), ManualClock())
    with pytest.raises(EntrepotError, match=r"set tier\.url"):
        await store.tables.restore(REQUEST)
    await store.close()
