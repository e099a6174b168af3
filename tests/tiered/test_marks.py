"""An object store that is away and looks empty, or older, or another one: nothing is begun anew, lost or skipped."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.marks import STORES, TABLES, TableMark, TableMarks, agree, check_store
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import RestoreRequest
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
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
)
from tests.support.tiered.memory_objects import MemoryObjects
from tests.support.waiting import until
from tests.tiers.marks import soak_only


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come soon."""
    monkeypatch.setattr("entrepot.broker.tiered.tier.FIRST_PAUSE", 0.05)


async def problem(store: Broker, words: str) -> str:
    """The reason why an upload stops, once it says these words."""

    async def told() -> str:
        return (await store.condition.tiering())[0].problem

    found = await told()
    while words not in found:
        await asyncio.sleep(0.01)
        found = await told()
    return found


async def is_refused(store: Broker) -> str:
    """A read of cold messages, which fails and tells why."""
    with pytest.raises(EntrepotError) as refused:
        await store.messages.read("factory", 0, 0, 10)
    assert refused.value.code is Code.UNAVAILABLE
    return refused.value.message


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.failure(
    "The folder of cold messages is not mounted",
    group="The object store",
    does="Nothing is written there, and nothing leaves the disk. All goes on when it is mounted.",
    lost="nothing",
    told="`entrepot tier status`, log: is the folder mounted?",
)
@pytest.mark.parametrize("comes_back", [False, soak_only(True)])
async def test_a_folder_that_is_not_mounted_at_a_start_costs_nothing(tmp_path: Path, comes_back: bool) -> None:
    clock = ManualClock()
    cold, away = tmp_path / "cold", tmp_path / "away"
    async with opened(tmp_path, clock) as store:
        before = await filled(store, clock)
    cold.rename(away)
    cold.mkdir()
    async with opened(tmp_path, clock) as store:
        told = await problem(store, "is not the object store that this store has used")
        assert "has no mark of this store: is the folder mounted? " in told
        assert cold.as_uri() in told and "entrepot tier accept --all" in told
        assert told in await is_refused(store)
        await published(store, clock, COUNT, 100)
        queue = store.engine.dispatcher.queue("factory", 0)
        assert store.tier is not None and store.tier.kept_from(queue) == COUNT, "nothing new leaves the disk"
        assert not files(cold), "and nothing is begun there"
    if not comes_back:
        return
    shutil.rmtree(cold)
    away.rename(cold)
    async with opened(tmp_path, clock) as store:
        await known(store)
        await all_uploaded(store, COUNT + 100)
        await gone(store, clock)
        for queue_id in range(QUEUES):
            found = await all_of(store, queue_id)
            assert [each.queue_offset for each in found] == list(range(COUNT + 100))
            assert [each.body for each in found[:COUNT]] == [each.body for each in before[queue_id]]


@pytest.mark.failure_also("The folder of cold messages is not mounted")
async def test_a_folder_that_goes_away_under_the_uploader_gets_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    cold, away = tmp_path / "cold", tmp_path / "away"
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        cold.rename(away)
        cold.mkdir()
        await published(store, clock, COUNT, 100)
        await problem(store, "is not the object store that this store has used")
        assert not files(cold)
        shutil.rmtree(cold)
        away.rename(cold)
        await all_uploaded(store, COUNT + 100)


@pytest.mark.failure(
    "The object store is put back to an earlier state",
    group="The object store",
    does="Its topics are refused and not gone on with, until it is right again or an operator accepts it.",
    lost="what it lacks, once accepted and gone from the disk",
    told="`entrepot tier status`: both versions, and `tier accept`; `entrepot_tier_missing_messages`",
)
async def test_an_older_table_is_not_gone_on_with(tmp_path: Path) -> None:
    clock = ManualClock()
    cold = tmp_path / "cold"
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        shutil.copytree(cold, tmp_path / "older")
        await published(store, clock, 200, 200)
        await all_uploaded(store, 400)
        await gone(store, clock)
    cold.rename(tmp_path / "newer")
    (tmp_path / "older").rename(cold)
    was_there = files(cold)
    async with opened(tmp_path, clock) as store:
        told = await problem(store, "is at version")
        assert "ends of queues 0: 200, 1: 200" in told, "what is there"
        assert "ends of queues 0: 400, 1: 400" in told, "and what is known"
        assert "entrepot tier accept TOPIC" in told
        await is_refused(store)
        assert files(cold) == was_there
    shutil.rmtree(cold)
    (tmp_path / "newer").rename(cold)
    async with opened(tmp_path, clock) as store:
        await known(store)
        assert [each.queue_offset for each in await all_of(store, 1)] == list(range(400))


async def test_another_object_store_is_used_once_it_is_accepted(tmp_path: Path) -> None:
    clock = ManualClock()
    other = tmp_path / "other"
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
    async with opened(tmp_path, clock, other.as_uri()) as store:
        assert other.as_uri() in await problem(store, "is not the object store that this store has used")
        assert not files(other)
        await store.tables.accept("")
        await published(store, clock, COUNT, 100)
        await all_uploaded(store, COUNT + 100)
        assert files(other)
        assert {bounds.min_offset for bounds in await store.messages.bounds("factory")} == {COUNT}, (
            "the rest is given up"
        )
        found = await all_of(store, 0, COUNT)
        assert [each.queue_offset for each in found] == list(range(COUNT, COUNT + 100))
    async with opened(tmp_path, clock, other.as_uri()) as store:
        await known(store)
        status = (await store.condition.tiering())[0]
        assert status.holes == tuple((queue, 0, COUNT) for queue in range(QUEUES)), "what is given up is told"
        assert status.problem.startswith(f"{QUEUES * COUNT} messages are missing")


async def test_who_may_accept_what(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        with pytest.raises(EntrepotError) as refused:
            await store.tables.accept("factory")
        assert refused.value.code is Code.TOPIC_NOT_FOUND
        await store.topology.put_topic(type(TOPIC)("hot"))
        with pytest.raises(EntrepotError) as refused:
            await store.tables.accept("hot")
        assert refused.value.code is Code.PRECONDITION_FAILED


async def test_nothing_leaves_the_disk_before_its_mark_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, note, may_go_on = ManualClock(), TableMarks.note, asyncio.Event()
    waiting: list[TableMark] = []

    async def later(marks: TableMarks, root: str, mark: TableMark) -> None:
        if mark.ends:
            waiting.append(mark)
            await may_go_on.wait()
        await note(marks, root, mark)

    monkeypatch.setattr(TableMarks, "note", later)
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock)
        await until(lambda: bool(waiting), "the table has something")
        clock.advance(120_000)
        queue = store.engine.dispatcher.queue("factory", 0)
        assert store.tier is not None and store.tier.kept_from(queue) == 0
        may_go_on.set()
        await all_uploaded(store)
        await gone(store, clock)


async def test_a_topic_that_is_gone_takes_its_mark_with_it(tmp_path: Path) -> None:
    clock = ManualClock()

    async def marks(store: Broker) -> list[str]:
        return [found.key for found in await store.key_values.scan(TABLES)]

    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        assert len(await marks(store)) == 1
        await store.topology.delete_topic("factory")
    async with opened(tmp_path, clock) as store:
        assert store.tier is not None
        await until(lambda: store.tier is not None and not store.tier.problem, "it is open")
        assert await marks(store) == []


# -- bounds while a table is not loaded ----------------------------------------------------------------------------


async def test_bounds_wait_for_the_table_right_after_a_start(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
    async with opened(tmp_path, clock) as store:
        assert store.tier is not None and not store.tier.tables.cold
        assert [each.first for each in await store.messages.bounds("factory")] == [0] * QUEUES
        assert [each.queue_offset for each in await all_of(store, 0)] == list(range(COUNT))


async def test_bounds_tell_no_first_offset_while_the_object_store_is_away(tmp_path: Path) -> None:
    """Whoever would begin at the disk's first message would skip the others for ever; who is at the end goes on."""
    clock = ManualClock()
    cold, away = tmp_path / "cold", tmp_path / "away"
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        await store.topology.put_topic(type(TOPIC)("hot", queues=1))
    cold.rename(away)
    cold.mkdir()
    async with opened(tmp_path, clock) as store:
        await problem(store, "is the folder mounted?")
        for bounds in await store.messages.bounds("factory"):
            assert (bounds.min_offset, bounds.max_offset, bounds.is_pending) == (0, COUNT, True), "nothing is skipped"
            with pytest.raises(EntrepotError) as refused:
                _ = bounds.first
            assert refused.value.code is Code.UNAVAILABLE
        assert "is the folder mounted?" in await is_refused(store)
        for position in (Position(PositionKind.EARLIEST), Position(PositionKind.OFFSET, 3)):
            with pytest.raises(EntrepotError):
                await store.messages.offset_at("factory", 0, position)
        assert await store.messages.offset_at("factory", 0, Position(PositionKind.LATEST)) == COUNT
        [hot] = await store.messages.bounds("hot")
        assert (hot.first, hot.is_pending) == (0, False)
        queue = store.engine.dispatcher.queue("factory", 0)
        assert store.core.least_known(queue) == COUNT, "what is counted is on the disk"


async def test_what_is_loaded_during_an_accept_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be of the table before."""
    clock, refresh, may_go_on, waits = ManualClock(), ColdTopic.refresh, threading.Event(), threading.Event()

    def slow(cold: ColdTopic, *known: Any) -> TableMark:
        mark = refresh(cold, *known)
        waits.set()
        may_go_on.wait(10)
        return mark

    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        assert store.tier is not None
        path = store.tier.root(store.registry.topics["factory"])
        monkeypatch.setattr(ColdTopic, "refresh", slow)
        loading = asyncio.create_task(store.tier.tables.know(path))
        await until(waits.is_set, "it is being loaded")
        await store.tables.accept("factory")
        may_go_on.set()
        with pytest.raises(EntrepotError):
            await loading
        monkeypatch.undo()
        await known(store)
        assert store.tier.marks.of(path) is not None


async def test_a_topic_that_was_deleted_is_restored_from_the_table_that_is_there(tmp_path: Path) -> None:
    """The table went back; who restores it says that it is to be taken as it is."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        assert store.tier is not None
        path = store.tier.root(store.registry.topics["factory"])
        shutil.copytree(tmp_path / "cold" / path, tmp_path / "old")
        await published(store, clock, 200, 100)
        await all_uploaded(store, 300)
        await store.topology.delete_topic("factory")
        shutil.rmtree(tmp_path / "cold" / path)
        (tmp_path / "old").rename(tmp_path / "cold" / path)
        found = await store.tables.restore(RestoreRequest("factory", path, 10**9, is_forced=True))
        assert [each.max_offset for each in found.queues] == [200] * QUEUES
        assert len(await all_of(store, 0)) == 200


# -- the marks alone -----------------------------------------------------------------------------------------------

MARK = TableMark("id", 7, {3: 40, 4: 9}, {"s": 5})


class Seen:
    """A snapshot, as far as a mark looks at it."""

    ends, numbers = Snapshot.ends, Snapshot.numbers

    def __init__(self, table_id: str, version: int, epoch: int = 5, **ends: int) -> None:
        self.metadata = type("Metadata", (), {"id": table_id})
        self.version = version
        self.transactions = {f"next/{queue[1:]}": end for queue, end in ends.items()} | {"epoch/s": epoch}


@pytest.mark.parametrize(
    ("found", "fits"),
    [
        (Seen("id", 7, q3=40, q4=9), True),
        (Seen("id", 8, q3=41, q4=9, q5=1), True),
        (Seen("id", 6, q3=40, q4=9), False),
        (Seen("id", 9, q3=39, q4=9), False),
        (Seen("id", 9, q3=40), False),
        (Seen("another", 9, q3=40, q4=9), False),
        (Seen("id", 9, 4, q3=40, q4=9), False),
        (None, False),
    ],
)
def test_a_table_fits_with_all_that_is_known_of_it(found: Any, fits: bool) -> None:
    if fits:
        MARK.check("t/s-0", "file:///x", found)
        return
    with pytest.raises(TierError) as refused:
        MARK.check("t/s-0", "file:///x", found)
    assert refused.value.code is Code.PRECONDITION_FAILED
    assert "version 7 (table id, ends of queues 3: 40, 4: 9)" in refused.value.message


async def test_very_many_marks_are_forgotten_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.tiered.marks.MAX_SCAN", 3)
    key_values = MemoryStore(ManualClock()).key_values
    marks = TableMarks(key_values)
    for number in range(8):
        await marks.note(f"t/{number}", MARK)
    await marks.keep({"t/3"})
    assert (marks.count, marks.of("t/3")) == (1, MARK)
    for number in range(8):
        await marks.note(f"t/{number}", MARK)
    await key_values.write([KeyValueChange(f"{TABLES}odd", b"?")])
    again = TableMarks(key_values)
    with pytest.raises(EntrepotError, match="cannot be read"):
        await again.load()
    await again.forget(None)
    assert await key_values.scan(TABLES) == []


async def test_marks_are_kept_by_the_broker() -> None:
    key_values = MemoryStore(ManualClock()).key_values
    marks = TableMarks(key_values)
    await marks.note("t/s-0", MARK)
    await marks.note("u/s-9", MARK)
    await marks.note_store("token")
    for _ in range(2):
        assert (marks.of("t/s-0"), marks.end("t/s-0", 3), marks.end("t/s-0", 5), marks.token) == (MARK, 40, 0, "token")
        marks = TableMarks(key_values)
        await marks.load()
    await marks.keep({"u/s-9"})
    assert (marks.of("t/s-0"), marks.of("u/s-9")) == (None, MARK)
    await key_values.write([KeyValueChange("another", b"")])
    await marks.forget(None)
    assert [found.key for found in await key_values.scan("")] == ["another"]
    assert (marks.of("u/s-9"), marks.token) == (None, "")


def test_a_store_and_its_object_store_agree_on_a_mark(tmp_path: Path) -> None:
    for objects in (MemoryObjects(ManualClock()), FolderStore(tmp_path / "cold")):
        assert agree(objects, "s", "", "new") == "new"
        assert agree(objects, "s", "", "newer") == "new", "that of a run which could not note it"
        assert agree(objects, "s", "new", "newer") == "new"
        assert agree(objects, "t", "", "other") == "other"
        with pytest.raises(TierError) as refused:
            check_store(objects, "s", "of another one")
        assert "has another mark (new)" in refused.value.message
        assert [each.path for each in objects.objects(STORES)] == [f"{STORES}s", f"{STORES}t"]
