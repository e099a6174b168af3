"""Small segments become one: the messages, runs and digests stay, for readers of the new version and of the old."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entrepot.broker.cold.reads import ColdQuery
from entrepot.broker.tiered import merging
from entrepot.broker.tiered.bands import Band, bands_of
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.direct import DirectReader
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.packed_files import Sized
from entrepot.broker.tiered.segment import CLUSTERED_TAG, RUNS_TAG, Run
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.segment_writing import encode_segment
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.broker.tiered.verification import verify
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage
from entrepot.domain.tiering import TierAddress
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.tiered.memory_objects import MemoryObjects
from tests.support.tiered.rows import rows_of

ROOT = root_of("t", "store", 7)


class World:
    """A table with many small segments of two queues, over two days, or a day that goes on."""

    def __init__(
        self, chance: Random, segments: int, *, span_ms: int = DAY_MS, devices: int = 3, most: int = 4
    ) -> None:
        self.clock = ManualClock(10 * DAY_MS + DAY_MS // 2)
        self.objects = MemoryObjects(self.clock)
        self.messages: dict[int, list[StoredMessage]] = {0: [], 1: []}
        self.table = self.opened()
        self.chance, self.devices = chance, devices
        for _ in range(segments):
            self.upload({queue: chance.randint(0, most) for queue in (0, 1)})
            self.clock.advance(span_ms // segments)

    def opened(self) -> TopicTable:
        table = TopicTable(self.objects, ROOT, self.clock, Random(len(self.messages[0])))
        assert table.open(create=True)
        return table

    def upload(self, counts: dict[int, int], size: int = 8, stored_ms: int | None = None) -> None:
        some: list[StoredMessage] = []
        for queue, count in counts.items():
            for _ in range(count):
                at = len(self.messages[queue])
                device = f"line/{queue}-{self.chance.randrange(self.devices)}"
                message = StoredMessage(
                    "t", self.chance.randbytes(size), device, queue, message_id=b"%d/%d" % (queue, at)
                )
                message.queue_offset, message.store_time_ms = at, stored_ms or self.clock.now_ms()
                message.commit_log_offset = 1000 * at + queue
                self.messages[queue].append(message)
                some.append(message)
        ends = {queue: len(self.messages[queue]) for queue, count in counts.items() if count}
        if some:
            self.table.upload(rows_of(some), {queue: self.table.progress(queue) for queue in ends}, ends)

    def merge(self, table: TopicTable | None = None, *, clusters: bool = True) -> int:
        return merging.merge(table or self.table, self.objects, self.clock.now_ms(), clusters=clusters)

    def merge_all(self, *, clusters: bool = True) -> int:
        merged = 0
        while count := self.merge(clusters=clusters):
            merged += count
        return merged

    def read(self, table: TopicTable) -> dict[int, list[StoredMessage]]:
        cold = ColdTopic(table, SegmentReader(self.objects), 0)
        found: dict[int, list[StoredMessage]] = {0: [], 1: []}
        for queue, messages in found.items():
            while len(messages) < len(self.messages[queue]):
                messages += cold.read(queue, len(messages), 100).messages
        return found

    def bands(self) -> list[Band]:
        footers = [
            pq.read_metadata(pa.BufferReader(self.objects.get(f"{ROOT}/{path}"))) for path in self.table.snapshot.files
        ]
        return [band for footer in footers for band in bands_of(footer)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Final segments and bands of some hundred messages."""
    for name, value in {"FINAL_BYTES": 30_000, "MOST_BYTES": 90_000, "BAND_ROWS": 128, "GROUP_ROWS": 16}.items():
        monkeypatch.setattr(merging, name, value)


def test_everything_is_read_before_and_after() -> None:
    world = World(seeded(), 40)
    old = world.opened()
    before = len(old.snapshot.files)
    merged = 0
    while count := world.merge():
        merged += count
        assert world.read(world.table) == world.messages
    assert merged > 20 and len(world.table.snapshot.files) < before // 3
    days = {path.partition("/")[0] for path in world.table.snapshot.files}
    assert len(days) == 2, "days stay apart"
    assert world.read(old) == world.messages, "who has the old version goes on with it"
    world.upload({0: 3, 1: 1})
    assert world.read(world.opened()) == world.messages


def test_of_two_who_merge_one_is_refused() -> None:
    world = World(seeded(), 20)
    other = world.opened()
    assert world.merge()
    with pytest.raises(ConflictError):
        world.merge(other)
    assert world.read(world.opened()) == world.messages


def test_few_of_a_day_that_goes_on_stay_and_those_of_one_that_is_over_do_not() -> None:
    world = World(seeded(), merging.LEAST_SEGMENTS - 1, span_ms=DAY_MS // 4)
    before = len(world.table.snapshot.files)
    assert world.merge() == 0
    world.clock.advance(DAY_MS)
    assert world.merge() == before and len(world.table.snapshot.files) == 1
    assert world.merge() == 0
    assert world.read(world.table) == world.messages


def test_final_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(seeded(), 30)
    monkeypatch.setattr(merging, "FINAL_BYTES", 1)
    assert world.merge() == 0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("devices", [1, 7])
@pytest.mark.parametrize("clusters", [True, False])
def test_final_ones_have_a_device_in_few_row_groups(devices: int, *, clusters: bool) -> None:
    world = World(seeded(), 60, span_ms=DAY_MS // 4, devices=devices, most=30)
    old = world.opened()
    assert world.merge_all(clusters=clusters)
    assert world.read(world.table) == world.read(old) == world.messages
    is_clustered = clusters and devices > 1
    assert any(len(band.groups) > 1 for band in world.bands()) is is_clustered
    tags = [file.tags or {} for file in world.table.snapshot.files.values()]
    assert any(CLUSTERED_TAG in each for each in tags) is is_clustered
    assert all((RUNS_TAG in each) is not (CLUSTERED_TAG in each) for each in tags), "earlier versions refuse the one"
    assert verify(world.objects, ROOT, world.clock, is_full=True).problems == []


@pytest.mark.usefixtures("small")
def test_clustered_ones_are_read_from_any_offset() -> None:
    world = World(chance := seeded(), 60, span_ms=DAY_MS // 4, devices=5, most=30)
    assert world.merge_all()
    cold = ColdTopic(world.table, SegmentReader(world.objects, 1), 0)  # nothing is kept: each read decodes
    direct = DirectReader(world.objects, TierAddress("memory://"), world.clock)
    for _ in range(40):
        queue = chance.randrange(2)
        first = chance.randrange(len(world.messages[queue]))
        end = min(first + chance.randint(1, 300), len(world.messages[queue]))
        found: list[StoredMessage] = []
        while len(found) < end - first:
            found += cold.read(queue, first + len(found), end - first - len(found)).messages
        assert found == world.messages[queue][first:end]
        bodies: list[bytes] = []
        for part, segment in direct.found(ROOT, [(queue, first, end)]):
            for rows in direct.rows(segment, [part], ["body"]):
                bodies += rows.rows.column("body").to_pylist() if len(rows.rows) else []
        assert bodies == [message.body for message in world.messages[queue][first:end]]


@pytest.mark.usefixtures("small")
def test_clustered_ones_are_searched_and_filtered() -> None:
    world = World(chance := seeded(), 60, span_ms=DAY_MS // 4, devices=5, most=30)
    assert world.merge_all()
    cold = ColdTopic(world.table, SegmentReader(world.objects), 0)
    below = {queue: len(messages) for queue, messages in world.messages.items()}
    for message in chance.sample(world.messages[0], 10):
        assert cold.search(ColdQuery(topic="t", limit=5, message_id=message.message_id), below).messages == [message]
    wanted = compile_filter(FilterExpression(FilterKind.SUB_TOPIC, "+/1-3"))
    found: list[StoredMessage] = []
    offset = 0
    while offset < below[1]:
        page = cold.read(1, offset, 50, wanted)
        found, offset = found + list(page.messages), page.next_offset
    assert found == [message for message in world.messages[1] if message.sub_topic == "line/1-3"]


@pytest.mark.usefixtures("small")
def test_a_message_is_written_few_times_and_segments_stay_few() -> None:
    world = World(seeded(), 0)
    written = uploaded = 0
    for number in range(200):
        world.upload({0: 8, 1: 8}, size=100)
        uploaded += list(world.table.snapshot.files.values())[-1].size
        world.clock.advance(DAY_MS // 4 // 200)
        while number % 10 == 9 and world.merge():
            written += max(world.table.snapshot.files.values(), key=lambda file: file.modification_time).size
    sizes = sorted(file.size for file in world.table.snapshot.files.values())
    assert len([size for size in sizes if size < merging.FINAL_BYTES]) < 3 * merging.LEAST_SEGMENTS
    assert written < 4 * uploaded
    assert world.read(world.table) == world.messages


def test_columns_that_come_later_are_null_before(small: None) -> None:
    world = World(seeded(), 0)
    kinds = ["json_n", "json_s", "json_n"]
    for at in range(30):
        world.upload({0: 20})
        path = list(world.table.snapshot.files)[-1]
        rows = pq.read_table(pa.BufferReader(world.objects.get(f"{ROOT}/{path}")))
        values = pa.array([at] * len(rows)) if (name := kinds[at % 3]) == "json_n" else pa.array([f"v{at}"] * len(rows))
        segment = encode_segment(rows.append_column(name, values), world.table.runs(path))
        world.table.replace([path], segment)
        world.clock.advance(DAY_MS // 400)
    assert world.merge_all()
    found: dict[int, tuple[int | None, str | None]] = {}
    for path in world.table.snapshot.files:
        rows = pq.read_table(pa.BufferReader(world.objects.get(f"{ROOT}/{path}")))
        names = ["queue_offset", "json_n", "json_s"]
        for offset, n, s in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
            found[offset] = n, s
    assert found == {
        offset: ((offset // 20), None) if kinds[offset // 20 % 3] == "json_n" else (None, f"v{offset // 20}")
        for offset in range(600)
    }


def test_bands_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "BAND_BYTES", 10_000)
    world = World(seeded(), 0)
    for size in (100, 4_000, 30_000, 1, 9_000, 2_000):
        world.upload({0: 5}, size)
    sources = merging._Sources(
        world.objects, [(f"{ROOT}/{path}", file.size) for path, file in world.table.snapshot.files.items()]
    )
    bands = list(merging._banded(sources.of_queue(0)))
    sizes = [[len(body) for body in band.column("body").to_pylist()] for band in bands]
    assert all(sum(each) <= 10_000 or len(each) == 1 for each in sizes)
    assert [size for each in sizes for size in each] == [len(message.body) for message in world.messages[0]]


def test_a_segment_with_other_messages_is_not_merged() -> None:
    """Its bytes are another's: the digests tell."""
    world = World(seeded(), 30)
    paths = [f"{ROOT}/{path}" for path in merging._chosen(world.table, world.clock.now_ms())[0]]
    one = paths[0]
    other = next(path for path in paths[1:] if world.objects.get(path) != world.objects.get(one))
    data = world.objects.get(other)
    world.objects.delete([one])
    world.objects.put_new(one, data)
    with pytest.raises(TierError):
        world.merge()


@pytest.mark.usefixtures("small")
def test_what_is_left_of_a_day_is_clustered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never merged again, however small it is."""
    monkeypatch.setattr(merging, "FINAL_BYTES", 1 << 30)
    world = World(seeded(), 7, span_ms=DAY_MS // 4, devices=5, most=60)
    world.clock.advance(DAY_MS)
    assert world.merge() > 1
    assert [CLUSTERED_TAG in (file.tags or {}) for file in world.table.snapshot.files.values()] == [True]
    assert world.read(world.table) == world.messages


def old_and_new(kinds: str) -> tuple[list[Sized], dict[str, list[Run]]]:
    """Segments with a run of ten offsets each: whole, a hole, or old, where one is missing that nobody knows."""
    rows = {"whole": 10, "hole": 0, "old": 9}
    files = [Sized(f"{at}", 1, at) for at in range(len(kinds.split()))]
    return files, {
        file.path: [Run(0, 10 * at, 10 * at + 10, rows[kind], (0, 0), 0)]
        for at, (file, kind) in enumerate(zip(files, kinds.split(), strict=True))
    }


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        ("whole hole whole", 3),
        ("old whole old", 3),
        ("old hole whole", 1),
        ("hole whole old", 2),
        ("whole old hole", 2),
    ],
)
def test_old_holes_and_known_ones_are_not_merged(kinds: str, count: int) -> None:
    """In one segment nobody could tell what is missing where: messages behind a hole would count as missing."""
    assert len(merging._following(*old_and_new(kinds))) == count


def test_a_day_to_which_something_was_added_a_moment_ago_goes_on() -> None:
    """As of a backlog, or by a clock that was set ahead: each upload would be merged with all before it."""
    world = World(seeded(), 0)
    stored_ms = world.clock.now_ms()
    world.clock.advance(2 * DAY_MS)
    for _ in range(3):
        world.upload({0: 3}, stored_ms=stored_ms)
        world.clock.advance(1)
        assert world.merge() == 0
    world.clock.advance(merging.LATE_MS + 1)
    assert world.merge() == 3
    assert world.read(world.table) == world.messages


@pytest.mark.usefixtures("small")
def test_large_bodies_are_clustered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "BAND_BYTES", 40_000)
    monkeypatch.setattr(merging, "GROUP_ROWS", 1_000)
    world = World(seeded(), 0, devices=5)
    for _ in range(12):
        world.upload({0: 10}, size=1_000)
    world.clock.advance(DAY_MS)
    assert world.merge()
    assert any(len(band.groups) > 1 for band in world.bands())
    assert world.read(world.table)[0] == world.messages[0]
