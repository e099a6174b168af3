"""Messages that left the disk before they were uploaded: each who reads, counts or checks is told, before and after
the next upload."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.broker.settings.tier import Missing
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.holes import missing_of
from entrepot.broker.tiered.merging import LEAST_SEGMENTS
from entrepot.broker.tiered.table import ColdBounds
from entrepot.broker.tiered.verification import verify
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.tiering import MAX_HOLES, AttachRequest, Hole, TierAddress, TierStatus, hole_from, joined
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from entrepot.spark_ingest.source.planning import Range
from entrepot.spark_ingest.source.positions import DataLossError
from entrepot.spark_ingest.source.stores import close_readers, reader_of
from entrepot.spark_ingest.source.tier import without_holes
from entrepot.store_client.blocking import StoreLocation
from tests.support.clock import ManualClock
from tests.support.tiered.broker import NUMBER, TieredBroker
from tests.support.tiered.cold_topics import QUEUES, all_uploaded, gone, opened, published
from tests.support.tiered.cold_topics import TOPIC as COLD
from tests.support.waiting import until
from tests.tiered.test_attach import attached, their_broker, theirs
from tests.tiered.uploads.test_uploader import MIDNIGHT, Bench, offsets

BASE = first_queue(NUMBER)
TOPIC = Topic("factory", queues=1, retention_seconds=60, tier_seconds=10**9)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    close_readers()


def messages(count: int) -> list[Message]:
    return [Message("factory", b"%d" % number, queue_id=0, message_id=b"m%d" % number) for number in range(count)]


def off_and_on(broker: TieredBroker) -> None:
    """The tier is off while 40 messages expire, as an operator may do to save the disk."""
    broker.publish(messages(100))
    broker.upload()
    broker.run(broker.store.topology.put_topic(replace(TOPIC, tier_seconds=None)))
    broker.publish(messages(40))
    broker.run(expired(broker))
    broker.run(broker.store.topology.put_topic(TOPIC))


async def expired(broker: TieredBroker) -> None:
    broker.clock.advance(120_000)
    queue = broker.store.engine.dispatcher.queue("factory", 0)
    await until(lambda: queue.min_offset == queue.visible_offset == 140, "retention passes")


def status_of(broker: TieredBroker) -> TierStatus:
    statuses = broker.run(broker.store.condition.tiering())
    return next(each for each in statuses if each.topic == "factory")


def read(broker: TieredBroker, first: int) -> list[int]:
    """Offsets of what is read from an offset on."""
    found: list[int] = []
    while page := broker.run(broker.store.messages.read("factory", 0, first, 30)):
        found += [each.queue_offset for each in page]
        first = found[-1] + 1
    return found


def popped(broker: TieredBroker, group: str) -> list[int]:
    broker.run(broker.store.topology.put_group(ConsumerGroup(group, start="earliest")))
    found: list[int] = []
    while deliveries := broker.run(broker.store.consumption.pop(PopRequest("factory", group, 1000))):
        found += [each.message.queue_offset for each in deliveries]
    return sorted(found)


def planned(location: StoreLocation, *, fails: bool, told: list[str]) -> list[tuple[int, int]]:
    """What Spark reads."""
    reader = reader_of(location)
    ranges = [Range("factory", b.queue_id, b.min_offset, b.max_offset) for b in reader.bounds("factory")]
    found = without_holes(reader.tiering(["factory"]), ranges, fails=fails, tell=told.append)
    return [(each.start, each.end) for each in found]


def check_told(broker: TieredBroker, location: StoreLocation) -> None:
    status = status_of(broker)
    assert status.missing == 40 and status.holes == ((BASE, 100, 140),)
    assert "40 messages are missing (queue" in status.problem and "100 to 140" in status.problem
    gauges = broker.run(broker.store.condition.gauges())
    assert (gauges["tier_missing_messages"], gauges["tier_problems"]) == (40, 0), "no upload is stuck"
    told: list[str] = []
    with pytest.raises(DataLossError, match=f"DATA_LOSS: factory/{BASE} has lost messages 100 to 140"):
        planned(location, fails=True, told=told)
    assert planned(location, fails=False, told=told)[0] == (0, 100) and len(told) == 1


def test_a_hole_is_told_to_all_before_and_after_the_next_upload(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, queues=1) as broker:
        off_and_on(broker)
        check_told(broker, broker.location)
        assert read(broker, 0) == list(range(100)), "nothing is behind it yet"
        broker.publish(messages(60))
        assert read(broker, 0) == [*range(100), *range(140, 200)]
        broker.upload()
        broker.run(until_holes(broker, ((BASE, 100, 140),)))
        check_told(broker, broker.location)
        broker.forget()
        skipped = broker.run(broker.store.condition.gauges())["tier_skipped_messages"]
        assert read(broker, 110) == list(range(140, 200))
        gauges = broker.run(broker.store.condition.gauges())
        assert gauges["tier_skipped_messages"] == skipped + 30, "who begins within it steps over the rest"
        assert popped(broker, "late") == [*range(100), *range(140, 200)]
        tier_only = StoreLocation(tier=TierAddress(broker.folder.as_uri()))
        with pytest.raises(DataLossError, match="has lost messages 100 to 140"):
            planned(tier_only, fails=True, told=[])
        verdict = verify(FolderStore(broker.folder), broker.root, broker.clock, is_full=True)
        [problem] = verdict.problems
        assert (problem.queue_id, problem.first, problem.end) == (BASE, 100, 140)
        assert "left the disk before" in problem.text


def test_verify_tells_it_by_its_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with TieredBroker(tmp_path, queues=1) as broker:
        off_and_on(broker)
        broker.publish(messages(20))
        broker.upload()
        capfd.readouterr()
        assert run(["tier", "verify", "--url", broker.folder.as_uri(), "--json"]) == 1
        [found] = [each for each in json.loads(capfd.readouterr().out) if each["problems"]]
        [problem] = found["problems"]
        assert (problem["firstOffset"], problem["nextOffset"]) == (100, 140)


def test_reads_are_refused_there_if_that_is_set(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, queues=1, missing=Missing.REFUSE) as broker:
        off_and_on(broker)
        broker.publish(messages(20))
        for _ in range(2):
            assert [m.queue_offset for m in broker.run(broker.store.messages.read("factory", 0, 90, 30))] == [
                *range(90, 100)
            ], "all before it"
            for first in (100, 139):
                with pytest.raises(
                    EntrepotError, match=f"messages {first} to 140 of queue 0 .* are missing"
                ) as refused:
                    read(broker, first)
                assert refused.value.code is Code.COLD_CORRUPTED
            assert read(broker, 140) == list(range(140, 160))
            assert broker.run(broker.store.condition.gauges())["tier_skipped_messages"] == 0
            broker.upload()


async def until_holes(broker: TieredBroker, holes: Sequence[tuple[int, int, int]]) -> None:
    """Wait until the table is loaded that was uploaded to."""
    tier = broker.store.tier
    assert tier is not None
    topic = broker.store.registry.topics["factory"]
    await until(lambda: tier.missing(topic)[1] == holes, lambda: f"{tier.missing(topic)}")


async def told(broker: TieredBroker, what: str) -> None:
    """Wait for a problem of the topic, as its uploader tells it."""
    tier = broker.store.tier
    assert tier is not None
    await until(lambda: what in tier.problem_of("factory"), lambda: tier.problem_of("factory"))


def test_it_is_known_while_the_store_is_away(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, queues=1) as broker:
        off_and_on(broker)
        broker.publish(messages(60))
        broker.upload()
        broker.run(until_holes(broker, ((BASE, 100, 140),)))
        broker.folder.rename(tmp_path / "away")
        broker.publish(messages(5))
        broker.run(told(broker, "is gone"))
        status = status_of(broker)
        assert (status.missing, status.holes) == (40, ((BASE, 100, 140),)) and status.segments
        assert "is gone" in status.problem and "40 messages are missing" in status.problem
        (tmp_path / "away").rename(broker.folder)


def test_what_an_accepted_store_lacks_is_missing(tmp_path: Path) -> None:
    """The table is gone with what the disk had let go of, and somebody accepts that."""
    with TieredBroker(tmp_path, queues=1) as broker:
        broker.publish(messages(100))
        broker.forget()
        shutil.rmtree(broker.folder / broker.root)
        broker.run(broker.store.tables.accept("factory"))
        broker.publish(messages(20))
        broker.upload()
        broker.run(until_holes(broker, ((BASE, 0, 100),)))
        assert status_of(broker).missing == 100
        broker.forget()
        [bounds] = broker.run(broker.store.messages.bounds("factory"))
        assert bounds.min_offset == 100 and read(broker, 100) == list(range(100, 120))
        broker.run(broker.store.topology.delete_topic("factory"))
        assert broker.run(broker.store.condition.gauges())["tier_missing_messages"] == 0


def test_a_note_of_long_ago_makes_no_hole(tmp_path: Path) -> None:
    with TieredBroker(tmp_path, queues=1) as broker:
        tier = broker.store.tier
        assert tier is not None
        queue = broker.store.engine.dispatcher.queue("factory", 0)
        broker.publish(messages(20))
        broker.forget()
        broker.run(tier.marks.note_given_up(broker.root, {0: Hole(3, 10)}))
        assert tier.service._queue_state(broker.root, queue).given_up == -1, "the disk begins far behind it"
        broker.run(tier.marks.note_given_up(broker.root, {0: Hole(3, 20)}))
        assert tier.service._queue_state(broker.root, queue).given_up == 3


def test_more_holes_than_are_told_are_data_loss() -> None:
    holes = tuple((queue, 0, 5) for queue in range(MAX_HOLES))
    status = TierStatus("t", "t/a-0", (), 0, 1, 1, missing=10_000, holes=holes)
    with pytest.raises(DataLossError, match="more places than are told"):
        without_holes([status], [Range("t", 5_000, 0, 20)], fails=True, tell=print)


async def test_holes_of_an_attached_table_are_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with their_broker(tmp_path, clock) as their:
        await their.topology.put_topic(COLD)
        await published(their, clock, 0, 100)
        await all_uploaded(their, 100)
        await their.topology.put_topic(replace(COLD, tier_seconds=None))
        await published(their, clock, 100, 100)
        await gone(their, clock)
        await their.topology.put_topic(COLD)
        await published(their, clock, 200, 100)
        await all_uploaded(their, 300)
        async with opened(tmp_path, clock, attach_urls=(theirs(tmp_path),)) as store:
            await attached(store, AttachRequest(theirs(tmp_path), name="copy"))
            [status] = await store.condition.tiering()
            assert (status.topic, status.missing) == ("copy", 100 * QUEUES)
            assert status.holes == tuple((queue, 100, 200) for queue in range(QUEUES))


def test_what_is_given_up_before_the_first_upload_is_a_hole() -> None:
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 30))
    bench.broker.mins[topic.root] = [10]
    bench.broker.given_up = {(topic.root, 0): 4}
    bench.upload()
    cold = bench.cold(topic)
    assert cold.holes(0) == (Hole(4, 10),) and bench.table(topic).missing() == 6
    assert offsets(cold) == list(range(10, 30))


def test_a_hole_stays_when_segments_are_merged() -> None:
    bench = Bench()
    topic = bench.topic(queues=2)
    for number in range(LEAST_SEGMENTS + 1):
        for queue_id in range(2):
            bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 10), queue_id=queue_id)
        if number == 3:
            bench.broker.mins[topic.root][1] = 35
            topic.lost |= {(1, offset) for offset in range(30, 35)}
        bench.upload()
        bench.clock.advance(1000)
    bench.steady += 61.0
    bench.uploader.round()
    assert len(bench.table(topic).snapshot.files) == 2, "the first ones are merged"
    bench.check(topic)
    cold = bench.cold(topic)
    assert cold.holes(1) == (Hole(30, 35),) and not cold.holes(0)
    assert offsets(cold, 1) == [*range(30), *range(35, 10 * (LEAST_SEGMENTS + 1))]
    assert not verify(bench.objects, topic.root, bench.clock, is_full=True).problems[1:]


@pytest.mark.parametrize(
    ("holes", "whole"),
    [
        ([], ()),
        ([(5, 9), (1, 3)], ((1, 3), (5, 9))),
        ([(1, 3), (3, 5), (4, 4), (9, 10)], ((1, 5), (9, 10))),
        ([(1, 9), (2, 3)], ((1, 9),)),
    ],
)
def test_holes_that_touch_are_one(holes: Sequence[Any], whole: Sequence[Any]) -> None:
    assert joined(Hole(*each) for each in holes) == whole


def test_the_next_hole_from_an_offset_on() -> None:
    holes = (Hole(1, 3), Hole(5, 9))
    assert [hole_from(holes, at) for at in (0, 1, 2, 3, 8, 9)] == [*holes[:1] * 3, holes[1], holes[1], None]


def test_spark_reads_what_is_between_holes() -> None:
    status = TierStatus("t", "t/a-0", (), 0, 1, 1, holes=((0, 5, 10), (0, 10, 12), (0, 30, 40), (1, 0, 9)))
    told: list[str] = []
    found = without_holes(
        [status], [Range("t", 0, 0, 20), Range("t", 0, 35, 50), Range("other", 0, 0, 9)], fails=False, tell=told.append
    )
    assert found == [Range("t", 0, 0, 5), Range("t", 0, 12, 20), Range("t", 0, 40, 50), Range("other", 0, 0, 9)]
    assert len(told) == 2


@pytest.mark.parametrize(("told", "known", "count"), [(0, 0, 40), (40, 0, 40), (40, 40, 40), (0, 40, 40), (70, 0, 70)])
def test_a_hole_is_counted_once_whoever_is_behind(told: int, known: int, count: int) -> None:
    """The uploader's report may be of a later version than the broker has, or of an earlier one."""
    hole = Hole(100, 140)
    end = hole.end if known else hole.first
    cold: Any = SimpleNamespace(
        missing=known,
        bounds=lambda queue_id: ColdBounds(0, end),
        holes=lambda queue_id: (hole,) if known else (),
    )
    queue: Any = SimpleNamespace(queue_id=0, min_offset=hole.end)
    assert missing_of([queue], cold, told, lambda queue_id: None, NUMBER) == (count, ((BASE, 100, 140),))
