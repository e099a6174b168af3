"""Uploads of which each shows one thing: days, gaps, foreign files, sizes, many topics, fairness and memory."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from entrepot.broker.settings.tier import Payload
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.delta_actions import AddFile, RemoveFile
from entrepot.broker.tiered.delta_log import DeltaLog, next_maintenance
from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.table import CHECKS_FOR_A_LOAD, ColdBounds, TopicTable
from entrepot.broker.tiered.upload.uploader import FIRST_PAUSE, LONGEST_AGE, REQUESTS_AN_UPLOAD, RUN_BYTES, Uploader
from entrepot.domain.errors import Code
from entrepot.domain.tiering import Hole
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects, Fault
from tests.tiered.uploads.model_broker import Master, ModelBroker, ModelTopic
from tests.tiered.uploads.witness import FIRST_QUEUE, NUMBER, STORE, Witness
from tests.tiers.marks import scaled

MIDNIGHT = 20_000 * DAY_MS
WRITER = Writer(STORE, 1)


class Bench:
    """A broker and its uploader over a store."""

    def __init__(
        self,
        objects: ObjectStore | None = None,
        *,
        segment_bytes: int = 1 << 20,
        writer: Writer = WRITER,
        requests_per_hour: int = 20_000,
        payload: Payload = Payload.NONE,
        iceberg: bool = False,
    ) -> None:
        self.clock = ManualClock(MIDNIGHT + DAY_MS // 2)
        self.memory = FailingObjects(self.clock)
        self.objects = self.memory if objects is None else objects
        self.master = Master(Random(1))
        self.broker = ModelBroker(self.master)
        self.steady = 100.0
        self.uploader = Uploader(
            self.broker,
            self.objects,
            self.clock,
            Random(f"{writer}"),
            lambda: self.steady,
            number=NUMBER,
            writer=writer,
            segment_bytes=segment_bytes,
            max_age=30.0,
            requests_per_hour=requests_per_hour,
            grace=3600.0,
            payload=payload,
            iceberg=iceberg,
        )

    def topic(self, name: str = "t", queues: int = 1, retention_ms: int = 10**12) -> ModelTopic:
        return self.master.make(name, queues, retention_ms)

    def publish(self, topic: ModelTopic, *times: int, queue_id: int = 0) -> None:
        for time_ms in times:
            self.master.publish(topic, queue_id, time_ms)

    def upload(self) -> None:
        """All that waits."""
        for _ in range(2):
            while self.uploader.round():
                pass
            self.steady += 31.0

    def cold(self, topic: ModelTopic) -> ColdTopic:
        table = TopicTable(self.objects, topic.root, self.clock, Random(3))
        cold = ColdTopic(table, SegmentReader(self.objects), NUMBER)
        cold.refresh()
        return cold

    def table(self, topic: ModelTopic) -> TopicTable:
        table = TopicTable(self.objects, topic.root, self.clock, Random(4))
        assert table.open()
        return table

    def check(self, topic: ModelTopic) -> None:
        """The table is as it must be."""
        witness = Witness(self.memory, self.clock)
        witness.look([topic], [self.broker])
        witness.of(topic).check_digests()


def offsets(cold: ColdTopic, queue_id: int = 0, first: int = 0) -> list[int]:
    """Of all that is read from an offset on."""
    found: list[int] = []
    while (page := cold.read(queue_id, first, 100)).next_offset > first:
        found += [message.queue_offset for message in page.messages]
        first = page.next_offset
    return found


def days(table: TopicTable) -> list[str]:
    return sorted(path.partition("/")[0] for path in table.snapshot.files)


def test_a_segment_has_one_day() -> None:
    bench = Bench()
    topic = bench.topic(queues=2)
    bench.publish(topic, MIDNIGHT - 2, MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + 1)
    bench.publish(topic, MIDNIGHT - 1, MIDNIGHT + DAY_MS, queue_id=1)
    bench.upload()
    bench.check(topic)
    assert days(bench.table(topic)) == ["2024-10-03", "2024-10-04", "2024-10-05"]
    assert offsets(bench.cold(topic)) == [0, 1, 2, 3] and offsets(bench.cold(topic), 1) == [0, 1]


def test_store_time_steps_back_over_midnight() -> None:
    """Two runs of one day and queue are in two segments; expiry takes what comes first in its queue, and no more."""
    bench = Bench()
    topic = bench.topic(queues=2)
    bench.publish(topic, MIDNIGHT - 1, MIDNIGHT, MIDNIGHT - 2, MIDNIGHT + 1)
    bench.upload()
    bench.check(topic)
    assert days(bench.table(topic)) == ["2024-10-03", "2024-10-03", "2024-10-04", "2024-10-04"]
    assert offsets(bench.cold(topic)) == [0, 1, 2, 3]
    assert bench.cold(topic).since(0, MIDNIGHT) == 1
    table = bench.table(topic)
    assert table.expire(MIDNIGHT) == 1, "offset 2 is old, but lies behind one that is kept"
    assert table.bounds(FIRST_QUEUE).first == 1 and offsets(bench.cold(topic)) == [1, 2, 3]


def test_expiry_leaves_no_gap_in_another_queue() -> None:
    """A segment that stays, for its first queue, keeps what lies behind it in its second one."""
    bench = Bench()
    topic = bench.topic(queues=2)
    bench.publish(topic, MIDNIGHT)  # young
    bench.upload()
    bench.publish(topic, MIDNIGHT - 2)  # old, and stays for what lies before it
    bench.publish(topic, MIDNIGHT - 2, queue_id=1)
    bench.upload()
    bench.publish(topic, MIDNIGHT - 1, queue_id=1)  # old, and stays for the one before
    bench.upload()
    table = bench.table(topic)
    assert len(table.snapshot.files) == 3
    assert table.expire(MIDNIGHT) == 0
    assert offsets(bench.cold(topic), 1) == [0, 1]
    assert table.expire(MIDNIGHT + 1) == 3


def test_what_is_nowhere_is_stepped_over_and_what_is_lost_is_not() -> None:
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 10))
    bench.upload()
    bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 10))
    bench.broker.mins[topic.root][0] = topic.nowhere[0] = 15  # the tier was off, and the disk let go
    bench.upload()
    bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 10))
    bench.upload()
    cold = bench.cold(topic)
    assert offsets(cold) == [*range(10), *range(15, 30)]
    assert offsets(cold, first=12) == list(range(15, 30))
    table = bench.table(topic)
    hole, second = table.place(FIRST_QUEUE, 12), table.place(FIRST_QUEUE, 15)
    assert hole is not None and (hole.first, hole.next_offset, hole.rows) == (10, 15, 0)
    assert second is not None and (second.first, second.next_offset, second.path) == (15, 20, hole.path)
    assert cold.holes(0) == (Hole(10, 15),) and table.missing() == 5
    log = DeltaLog(bench.objects, topic.root, bench.clock)
    snapshot = log.load()
    assert snapshot is not None
    log.commit(snapshot, [RemoveFile(second.path, True, 1), next_maintenance(snapshot)], "somebody")
    cold = bench.cold(topic)
    for offset in (10, 12, 19):
        with pytest.raises(TierError, match="has lost messages 10 to 20") as refused:
            cold.read(0, offset, 1)
        assert refused.value.code is Code.COLD_CORRUPTED
    assert offsets(cold, first=20) == list(range(20, 30))
    assert [each.queue_offset for each in cold.read(0, 0, 100).messages] == list(range(10))


def test_a_foreign_file_is_an_error_that_names_it_and_stops_nobody_else() -> None:
    bench = Bench()
    topic, other = bench.topic(), bench.topic("other")
    for each in (topic, other):
        bench.publish(each, MIDNIGHT)
    bench.upload()
    cold = bench.cold(topic)
    log = DeltaLog(bench.objects, topic.root, bench.clock)
    snapshot = log.load()
    assert snapshot is not None
    bench.objects.put_new(f"{topic.root}/foreign.parquet", b"PAR1")
    snapshot = log.commit(snapshot, [AddFile("foreign.parquet", 4, 1, True, None, None)], "somebody")
    for each in (topic, other):
        bench.publish(each, MIDNIGHT)
    bench.upload()
    assert "foreign.parquet" in bench.broker.progress[topic.root].problem
    assert bench.broker.progress[topic.root].ends == {0: 1}, "what was told is still true"
    assert bench.broker.progress[other.root].ends == {0: 2}
    for _ in range(2):
        with pytest.raises(TierError, match=r"foreign\.parquet"):
            cold.refresh()
        assert offsets(cold) == [0], "what it knew is read on"
    log.commit(snapshot, [RemoveFile("foreign.parquet", True, 1), next_maintenance(snapshot)], "somebody else")
    bench.steady += 1000
    bench.upload()
    assert bench.broker.progress[topic.root].problem == ""
    cold.refresh()
    assert offsets(cold) == [0, 1]


def test_one_message_is_more_than_a_segment() -> None:
    bench = Bench(segment_bytes=100)
    topic = bench.topic()
    for _ in range(3):
        bench.master.publish(topic, 0, MIDNIGHT, bytes(10_000))
    bench.upload()
    bench.check(topic)
    assert len(bench.table(topic).snapshot.files) == 3 and offsets(bench.cold(topic)) == [0, 1, 2]


def test_a_queue_that_always_has_a_segment_keeps_no_other_waiting() -> None:
    bench = Bench(segment_bytes=2000)
    topic = bench.topic(queues=3)
    for queue_id in (1, 2):
        bench.publish(topic, MIDNIGHT, queue_id=queue_id)
    for _ in range(3):
        bench.publish(topic, *[MIDNIGHT] * 100)
        assert bench.uploader.round()
    bench.check(topic)
    assert offsets(bench.cold(topic), 1) == [0] and offsets(bench.cold(topic), 2) == [0]


def test_a_conflict_is_taken_up_and_its_problem_is_over_then() -> None:
    """Two uploaders of one table: the one that came second goes on from where the first one came to."""
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    other = Bench(bench.objects)
    other.master, other.broker.master = bench.master, bench.master
    other.publish(topic, MIDNIGHT)
    other.upload()
    bench.upload()
    assert "another's commit" in bench.broker.progress[topic.root].problem
    bench.steady += FIRST_PAUSE
    bench.upload()
    told = bench.broker.progress[topic.root]
    assert (told.ends, told.problem) == ({0: 2}, "")
    bench.check(topic)


def test_a_segment_that_goes_while_it_is_read() -> None:
    """A refresh that comes between looking up a place and reading it takes nothing from the read."""
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()

    class Refreshed(ColdTopic):
        def _place(self, queue_id: int, offset: int) -> Any:
            found = super()._place(queue_id, offset)
            bench.table(topic).expire(MIDNIGHT + 1)
            self.refresh()
            return found

    table = TopicTable(bench.objects, topic.root, bench.clock, Random(3))
    cold = Refreshed(table, SegmentReader(bench.objects), NUMBER)
    cold.refresh()
    assert [each.queue_offset for each in cold.read(0, 0, 1).messages] == [0]
    assert bench.cold(topic).bounds(0) == cold.bounds(0) == ColdBounds(1, 1)


@pytest.mark.scaled
def test_a_thousand_small_topics_in_one_round() -> None:
    """The store's requests of a topic are counted, and do not grow unseen."""
    count = scaled(100, 1000)
    bench = Bench(segment_bytes=1)
    calls: Counter[str] = Counter()

    def counted(call: str, path: str) -> Fault:
        calls[call] += 1
        return Fault.NONE

    bench.memory.plan = counted
    for number in range(count):
        bench.publish(bench.topic(f"t{number}"), MIDNIGHT)
    bench.uploader.round()
    assert all(told.ends == {0: 1} for told in bench.broker.progress.values()) and len(bench.broker.progress) == count
    first = Counter(calls)
    calls.clear()
    for topic in bench.master.topics.values():
        bench.publish(topic, MIDNIGHT)
    bench.steady += 1.0
    bench.uploader.round()
    print(f"requests of {count} new topics: {dict(first)}; of their second segments: {dict(calls)}")
    assert calls == {"put_new": 2 * count, "size": 2 * count, "get_ranges": count}
    assert first["put_new"] == 3 * count and first.total() <= 19 * count


def test_many_small_topics_keep_to_a_number_of_requests() -> None:
    """Topics with a message a minute: where not all can go each 30 s, they go less often, and within the hour."""
    bench = Bench(requests_per_hour=200)
    requests = 0

    def counted(call: str, path: str) -> Fault:
        nonlocal requests
        requests += 1
        return Fault.NONE

    topics = [bench.topic(f"t{number}") for number in range(4)]
    bench.memory.plan = counted
    hours, lag = 4, 0
    for minute in range(60 * hours):
        if minute == 60:
            requests = 0  # the first hour has the making of the tables
        for topic in topics:
            bench.publish(topic, MIDNIGHT + minute)
        bench.steady += 60.0
        bench.clock.advance(60_000)
        bench.uploader.round()
        told = bench.broker.progress.values()
        lag = max(lag, minute + 1 - min([each.ends.get(0, 0) for each in told], default=0))
    print(f"{requests / (hours - 1):.0f} requests an hour, {lag} minutes behind at most")
    assert requests / (hours - 1) <= 200
    assert lag <= 4 * REQUESTS_AN_UPLOAD * 60 / 200 + 3
    bench.uploader._requests_per_hour = 1
    for _ in range(2 * int(LONGEST_AGE // 60)):
        bench.steady += 60.0
        bench.uploader.round()
    assert all(each.ends == {0: 60 * hours} for each in bench.broker.progress.values()), "an hour is the longest"


def test_one_upload_has_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With far more waiting than a segment has, no more is asked for than that and one message.

    The broker takes messages to be smaller than these are, and yet one segment follows on the other.
    """
    segment_bytes, most = 64 << 10, 0
    bench = Bench(segment_bytes=segment_bytes)
    topic = bench.topic(queues=2)
    upload = TopicTable.upload

    def measured(self: TopicTable, rows: Any, *others: Any) -> None:
        nonlocal most
        most = max(most, sum(map(len, rows.column("body").to_pylist())))
        upload(self, rows, *others)

    monkeypatch.setattr(TopicTable, "upload", measured)
    for number in range(1000):
        bench.master.publish(topic, number % 2, MIDNIGHT, bytes(1000))
    bench.upload()
    bench.check(topic)
    assert segment_bytes // 2 < most <= segment_bytes + 2000
    assert bench.broker.most_asked <= min(segment_bytes, RUN_BYTES) + 3000
    assert len(offsets(bench.cold(topic))) == 500


def test_a_folder_gives_what_memory_gives(tmp_path: Path) -> None:
    bench = Bench(FolderStore(tmp_path), segment_bytes=2000)
    topic = bench.topic(queues=2)
    for number in range(50):
        bench.publish(topic, MIDNIGHT + number, queue_id=number % 2)
    bench.upload()
    assert offsets(bench.cold(topic)) == offsets(bench.cold(topic), 1) == list(range(25))


def test_a_log_with_a_hole_is_found_out() -> None:
    """The newest version is there, and nobody who begins anew can come to it."""
    bench = Bench()
    topic = bench.topic()
    for day in range(3):
        bench.publish(topic, MIDNIGHT + day * DAY_MS)
        bench.upload()
    table = TopicTable(bench.memory, topic.root, bench.clock, Random(1))
    table.open()
    bench.memory.delete([f"{topic.root}/_delta_log/{2:020}.json"])
    for _ in range(CHECKS_FOR_A_LOAD - 1):
        table.check_current()
    with pytest.raises(TierError, match="is missing, and version"):
        table.check_current()


def test_what_another_uploader_has_uploaded_is_told_where_nothing_waits() -> None:
    """The broker lets go of nothing that it is not told of."""
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, MIDNIGHT)
    bench.upload()
    bench.publish(topic, MIDNIGHT + 1)
    other = Bench(bench.memory, writer=WRITER)  # of the broker that was master before
    other.clock, other.broker.master = bench.clock, bench.master
    other.upload()
    assert bench.table(topic).progress(FIRST_QUEUE) == 2
    assert bench.broker.progress[topic.root].ends == {0: 1}
    assert bench.uploader._topics[topic.root].table.open()  # as housekeeping does
    bench.uploader.round()
    assert bench.broker.progress[topic.root].ends == {0: 2}
