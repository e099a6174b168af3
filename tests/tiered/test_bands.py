"""Bands and statistics: row groups that share offsets are read together, and no bound excludes a row that is there."""

from __future__ import annotations

import io
import json
from itertools import pairwise

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.tiered.bands import bands_of, in_order
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.segment_writing import MAX_BOUND_LENGTH, encode_segment
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.domain.message import StoredMessage
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.tiered.rows import rows_of

PLACES = pa.schema([("queue_id", pa.int32()), ("queue_offset", pa.int64())])


def footer_of(groups: list[list[tuple[int, int]]]) -> object:
    """The footer of a file with these places, group by group."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, PLACES) as writer:
        for group in groups:
            queues, offsets = zip(*group, strict=True)
            writer.write_table(pa.table([pa.array(queues, pa.int32()), pa.array(offsets)], schema=PLACES))
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def test_a_group_between_two_others_makes_one_band_of_all() -> None:
    groups = [[(3, 0), (3, 100)], [(3, 101), (3, 200)], [(3, 50), (3, 150)], [(3, 201)], [(4, 0)]]
    assert [list(band.groups) for band in bands_of(footer_of(groups))] == [[0, 1, 2], [3], [4]]


def test_groups_of_several_queues_are_bands_of_their_own() -> None:
    groups = [[(1, 0), (2, 5)], [(2, 6), (2, 9)], [(2, 7), (2, 8)], [(2, 10), (3, 0)]]
    found = bands_of(footer_of(groups))
    assert [list(band.groups) for band in found] == [[0], [1, 2], [3]]
    assert [band.may_have(2, 9) for band in found] == [True, True, True]
    assert [band.may_have(2, 10) for band in found] == [True, False, True]
    assert [band.may_have(2, 0, 6) for band in found] == [True, False, True]
    assert [band.may_have(4, 0) for band in found] == [False] * 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40)), min_size=1, max_size=8), st.randoms())
def test_bands_are_in_order_and_have_every_place_once(parts, chance) -> None:  # type: ignore[no-untyped-def]
    """Whatever lies beside each other in a part of a queue."""
    ends = {0: 0, 1: 0, 2: 0}
    groups: list[list[tuple[int, int]]] = []
    for queue, count in sorted(parts):
        places = [(queue, ends[queue] + at) for at in range(count)]
        ends[queue] += count
        chance.shuffle(places)
        cut = chance.randint(1, count)
        groups += [each for each in (places[:cut], places[cut:]) if each]
    found = [sorted(place for at in band.groups for place in groups[at]) for band in bands_of(footer_of(groups))]
    assert [place for band in found for place in band] == sorted(place for group in groups for place in group)
    assert all(before[-1] < after[0] for before, after in pairwise(found))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, unique=True))
def test_rows_are_put_in_order(places: list[tuple[int, int]]) -> None:
    queues, offsets = zip(*places, strict=True)
    rows = in_order(pa.table([pa.array(queues, pa.int32()), pa.array(offsets)], schema=PLACES))
    assert list(zip(*(rows.column(name).to_pylist() for name in PLACES.names), strict=True)) == sorted(places)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=2 * MAX_BOUND_LENGTH) | st.text(
    st.sampled_from("a\U0010ffff"), min_size=MAX_BOUND_LENGTH - 2, max_size=MAX_BOUND_LENGTH + 6
)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_bound_of_texts_is_never_within(texts: list[str]) -> None:
    """Readers compare texts by their bytes in UTF-8."""
    messages = [StoredMessage("t", b"", text, 0, tag="x", queue_offset=at) for at, text in enumerate(texts)]
    stats = json.loads(encode_segment(rows_of(messages), []).stats)
    least, greatest = stats["minValues"]["sub_topic"], stats["maxValues"]["sub_topic"]
    assert all(least.encode() <= text.encode() <= greatest.encode() for text in texts)
    assert len(least) <= MAX_BOUND_LENGTH and (
        len(greatest) <= MAX_BOUND_LENGTH + 1 or set(greatest[MAX_BOUND_LENGTH:-1]) <= {"\U0010ffff"}
    )
    assert stats["nullCount"]["sub_topic"] == 0 and stats["numRecords"] == len(texts)


def test_readers_of_tables_exclude_segments_and_miss_no_row(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """With delta-rs and polars: by sub-topic, tag, born time and fields of bodies."""
    chance, clock = seeded(), ManualClock(20_000 * DAY_MS)
    table = TopicTable(FolderStore(tmp_path), root_of("t", "s", 0), clock, chance)
    assert table.open(create=True)
    fields = [{"name": "json_n", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.loads(table.schema)
    told = json.dumps({**schema, "fields": schema["fields"] + fields})
    expected: list[tuple[int, str, str, int]] = []
    for segment in range(6):
        names = [f"line{segment}/" + "x" * chance.randrange(2 * MAX_BOUND_LENGTH) for _ in range(20)]
        messages = [
            StoredMessage("t", b"", name, 0, tag=f"tag{segment}", born_time_ms=clock.now_ms() + at)
            for at, name in enumerate(names)
        ]
        for at, message in enumerate(messages):
            message.queue_offset, message.store_time_ms = 20 * segment + at, clock.now_ms()
            expected.append((message.queue_offset, message.sub_topic, f"tag{segment}", 100 * segment + at))
        rows = rows_of(messages).append_column("json_n", pa.array([100 * segment + at for at in range(20)]))
        table.upload(rows, {0: table.progress(0)}, {0: 20 * (segment + 1)}, told)
        clock.advance(3_600_000)
    path = str(tmp_path / table.root)
    frame = pl.scan_delta(path)
    for offset, name, tag, number in chance.sample(expected, 20):
        for wanted in (pl.col("sub_topic") == name, (pl.col("json_n") == number) & (pl.col("tag") == tag)):
            assert offset in frame.filter(wanted).select("queue_offset").collect()["queue_offset"].to_list()
    dataset = DeltaTable(path).to_pyarrow_dataset()
    for column, value in (("tag", "tag3"), ("json_n", 305), ("sub_topic", expected[70][1])):
        fragments = list(dataset.get_fragments(pa.compute.field(column) == value))
        assert len(fragments) == 1, f"{column}: the others are excluded by the table's log alone"
