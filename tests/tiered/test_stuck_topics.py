"""A topic that does not get on, and a table that goes back: nothing leaves the disk for it unless somebody has said so,
and the others go on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.source import Progress
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.ports import PopRequest
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import (
    COUNT,
    QUEUES,
    TOPIC,
    all_of,
    all_uploaded,
    filled,
    gone,
    known,
    message,
    opened,
    published,
    root,
)
from tests.support.waiting import until

OTHER = replace(TOPIC, name="other", queues=1)


async def both_published(store: Broker, clock: ManualClock) -> None:
    for start in range(0, COUNT, 100):
        numbers = range(start, start + 100)
        assert not any(await append_all(store, *(replace(message(n), topic="other", queue_id=0) for n in numbers)))
    await published(store, clock)


async def one_is_stuck(store: Broker, clock: ManualClock, cold: Path) -> None:
    """The place of one topic's tables is taken by a file.  The other one goes cold."""
    assert store.tier is not None
    await until(lambda: store.tier and not store.tier.problem, "the store is reached")
    (cold / "factory").write_text("no folder")
    for topic in (TOPIC, OTHER):
        await store.topology.put_topic(topic)
    await both_published(store, clock)
    progress = store.tier.progress
    await until(lambda: root(store) in progress and progress[root(store)].problem, "one says why it does not go on")
    clock.advance(120_000)
    other = store.engine.dispatcher.queue("other", 0)
    await until(lambda: other.min_offset == COUNT, "the other one leaves the disk")
    assert (await store.messages.read("other", 0, 0, 1))[0].queue_offset == 0


def mended(store: Broker, cold: Path) -> None:
    """It can go on; the next uploader tries at once."""
    (cold / "factory").unlink()
    assert store.tier is not None and store.tier.service.process is not None
    store.tier.service.process.kill()


@pytest.mark.failure(
    "The upload of one topic is stuck",
    group="The object store",
    does="Its messages stay on the disk beyond retention. Other topics are uploaded.",
    lost="nothing",
    told="`entrepot_tier_problems`, `entrepot_tier_kept_bytes`",
)
@pytest.mark.soak
async def test_a_stuck_topic_stays_on_the_disk_and_stops_nobody(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await one_is_stuck(store, clock, tmp_path / "cold")
        assert [each.min_offset for each in await store.messages.bounds("factory")] == [0] * QUEUES
        gauges = await store.condition.gauges()
        assert gauges["tier_problems"] == 1 and gauges["tier_kept_bytes"] > COUNT * 1000
        mended(store, tmp_path / "cold")
        await all_uploaded(store)
        await gone(store, clock)
        assert len(await all_of(store, 0)) == COUNT


@pytest.mark.failure(
    "A stuck topic reaches `tier.max_kept_bytes`",
    group="The object store",
    does="Its oldest messages leave the disk.",
    lost="these messages",
    told="`entrepot tier status`: the missing offsets",
)
@pytest.mark.soak
async def test_what_it_may_keep_can_be_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.tiered.tier.FIRST_PAUSE", 0.05)
    clock, most = ManualClock(), 1 << 20
    async with opened(tmp_path, clock, max_kept_bytes=most) as store:
        await one_is_stuck(store, clock, tmp_path / "cold")
        queues = [store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
        end = store.engine.end
        await until(
            lambda: all(end - (queue.first_commit_log_offset() or end) <= most for queue in queues),
            lambda: f"{[queue.min_offset for queue in queues]}",
        )
        await until(lambda: store.cleaner.deleted_segments > 0, "files of the log are deleted")
        left = [queue.min_offset for queue in queues]
        mended(store, tmp_path / "cold")
        await all_uploaded(store)
        [status, _] = sorted(await store.condition.tiering(), key=lambda each: each.topic)
        assert status.missing == sum(left) and [each[1:] for each in status.holes] == [(0, end) for end in left]
        assert [each.queue_offset for each in await all_of(store, 0, left[0])] == list(range(left[0], COUNT))


@pytest.mark.failure_also("The object store is put back to an earlier state")
async def test_a_table_that_was_put_back_is_brought_up_again_once_that_is_accepted(tmp_path: Path) -> None:
    """Somebody restores an old state of the bucket; the disk still has what that lacks."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(replace(TOPIC, retention_seconds=10**6))
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        table = tmp_path / "cold" / root(store)
        shutil.copytree(table, tmp_path / "old")
        await published(store, clock, 200, 200)
        await all_uploaded(store, 400)
        ours = TopicTable(FolderStore(tmp_path / "cold"), root(store), clock, Random(1))
        ours.open()
        ours.check_current()
        queues = [store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
        await until(
            lambda: store.tier and [store.tier.kept_from(each) for each in queues] == [400] * QUEUES,
            "the store has noted it",
        )
        told = watched(store)
        await put_back(store, tmp_path)
        with pytest.raises(TierError) as refused:
            ours.check_current()
        assert refused.value.code is Code.COLD_CORRUPTED and "has gone back behind version" in refused.value.message
        queue = store.engine.dispatcher.queue("factory", 0)
        await until(lambda: told and "is at version" in told[-1].problem, "the uploader has seen it")
        assert "ends of queues 0: 200, 1: 200" in told[-1].problem, "what is there"
        assert "ends of queues 0: 400, 1: 400" in told[-1].problem, "and what is known"
        await store.tables.accept("factory")
        await until(lambda: told[-1].ends.get(0) == 400 and not told[-1].problem, "it is brought up again")
        await known(store)
        await until(lambda: store.tier and store.tier.kept_from(queue) == 400, "and known")
        await store.topology.put_topic(TOPIC)
        await gone(store, clock)
        assert [each.queue_offset for each in await all_of(store, 0)] == list(range(400))


def watched(store: Broker) -> list[Progress]:
    """What the uploader tells from now on."""
    assert store.tier is not None
    told: list[Progress] = []
    service, before = store.tier.service, store.tier.service._told

    def tell(progress: Progress) -> None:
        told.append(progress)
        before(progress)

    service._told = tell
    return told


async def put_back(store: Broker, directory: Path) -> None:
    """The old state of the table, while nobody uploads."""
    assert store.tier is not None and store.tier.service.process is not None
    process = store.tier.service.process
    process.kill()
    process.wait()
    shutil.rmtree(directory / "cold" / root(store))
    shutil.copytree(directory / "old", directory / "cold" / root(store))


@pytest.mark.failure_also("The object store is put back to an earlier state")
@pytest.mark.soak
async def test_what_a_table_that_was_put_back_lacks_is_counted(tmp_path: Path) -> None:
    """The disk has let go of it: it is nowhere, and an alarm says so."""
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        shutil.copytree(tmp_path / "cold" / root(store), tmp_path / "old")
        await published(store, clock, 200, 200)
        await all_uploaded(store, 400)
        await gone(store, clock)
        await put_back(store, tmp_path)
        await published(store, clock, 400, 100)

        def problem() -> str:
            return "" if store.tier is None else store.tier.progress[root(store)].problem

        await until(lambda: "is at version" in problem(), "the uploader has seen it")
        await store.tables.accept("factory")
        await all_uploaded(store, 500)
        [status] = await store.condition.tiering()
        assert status.missing == 200 * QUEUES
        assert (await store.condition.gauges())["tier_missing_messages"] == 200 * QUEUES
        there = [*range(200), *range(400, 500)]
        assert [each.queue_offset for each in await all_of(store, 0)] == there, "the others are read"
        await store.topology.put_group(ConsumerGroup("late", start="earliest"))
        found: list[int] = []
        while deliveries := await store.consumption.pop(PopRequest("factory", "late", 1000)):
            found += [each.message.queue_offset for each in deliveries]
        assert sorted(found) == sorted(there * QUEUES)


async def test_an_uploader_that_lives_makes_no_commit_over_a_hole(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(replace(TOPIC, retention_seconds=10**6))
        await published(store, clock, 0, 200)
        await all_uploaded(store, 200)
        table = tmp_path / "cold" / root(store)
        shutil.copytree(table, tmp_path / "old")
        await published(store, clock, 200, 200)
        await all_uploaded(store, 400)
        told = watched(store)
        for path in [path for path in table.rglob("*.*") if not (tmp_path / "old" / path.relative_to(table)).exists()]:
            path.unlink()
        await published(store, clock, 400, 100)
        await until(lambda: told and "gone back" in told[0].problem, "it says so")
        await until(lambda: told and "is at version" in told[-1].problem, "and what is known of it")
        await store.tables.accept("factory")
        await all_uploaded(store, 500)
        TopicTable(FolderStore(tmp_path / "cold"), root(store), clock, Random(1)).open()
        await known(store)
        await store.topology.put_topic(TOPIC)
        await gone(store, clock)
        assert [each.queue_offset for each in await all_of(store, 0)] == list(range(500))


@pytest.mark.soak
async def test_nothing_is_missing_where_all_went_well(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await filled(store, clock)
        [status] = await store.condition.tiering()
        assert (status.missing, status.problem) == (0, "")
