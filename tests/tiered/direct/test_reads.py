"""What is read of a segment, and of which store: the columns that are wanted, the row groups that may have them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.direct import DirectReader
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from entrepot.domain.tiering import ColdSegment, TierAddress
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.tiered.memory_objects import MemoryObjects
from tests.support.tiered.rows import rows_of

ADDRESS = TierAddress("memory://")
GROUP_ROWS = 1000


class CountingObjects(MemoryObjects):
    """Counts the bytes that are read in parts."""

    read = 0

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.read += sum(end - start for start, end in ranges)
        return super().get_ranges(path, ranges)


def stored(number: int, queue_id: int, offset: int, body: bytes, tag: str = "") -> StoredMessage:
    message = StoredMessage("factory", body, "factory/a", queue_id, tag=tag, message_id=b"%d" % number)
    message.queue_offset, message.filter_hash = offset, filter_hash("factory/a", tag)
    return message


def put(objects: MemoryObjects, rows: Any, path: str = "a.parquet") -> ColdSegment:
    """Rows as a segment of a table."""
    file = io.BytesIO()
    pq.write_table(rows, file, row_group_size=GROUP_ROWS)
    objects.put_new(f"factory/x-0/{path}", file.getvalue())
    return ColdSegment(ADDRESS, "factory/x-0", path, len(file.getvalue()), len(rows))


def test_no_more_is_read_than_what_is_wanted() -> None:
    random, objects = seeded("bodies"), CountingObjects(ManualClock())
    messages = [
        stored(at, at // 5000, at % 5000, random.randbytes(500), "seldom" if at == 3210 else "often")
        for at in range(10_000)
    ]
    segment = put(objects, rows_of(messages))
    reader = DirectReader(objects, ADDRESS, ManualClock())

    def read(
        *parts: tuple[int, int, int], columns: Sequence[str] = ("body",), tag: str = ""
    ) -> tuple[list[Any], float]:
        objects.read = 0
        wanted = FilterExpression(FilterKind.TAG, tag) if tag else None
        tables = [found.rows for found in reader.rows(segment, parts, columns, wanted) if found.rows.num_rows]
        values = [value for table in tables for value in table.column(columns[0]).to_pylist()]
        return values, objects.read / segment.size

    bodies = [message.body for message in messages]
    everything = (0, 0, 5000), (1, 0, 5000)
    assert (found := read(*everything))[0] == bodies and found[1] > 0.9
    assert (found := read(*everything, columns=("queue_offset",)))[0] == 2 * list(range(5000)) and found[1] < 0.1
    assert (found := read((0, 900, 1100)))[0] == bodies[900:1100] and found[1] < 0.3, "two row groups of ten"
    assert (found := read((1, 4999, 5000)))[0] == bodies[-1:] and found[1] < 0.2
    assert (found := read(*everything, tag="seldom"))[0] == [bodies[3210]] and found[1] < 0.3, "bodies of one row group"
    assert (found := read(*everything, tag="never"))[0] == [] and found[1] < 0.1, "no body"
    assert read((0, 10, 20), (0, 15, 30), (1, 0, 1))[0] == [*bodies[10:30], bodies[5000]], "a row once"


def test_each_kind_of_store_is_read(store: ObjectStore) -> None:
    clock = ManualClock()
    table = TopicTable(store, "factory/x-0", clock, Random(1))
    table.open(create=True)
    for first in (0, 50):
        messages = [
            stored(at, queue, at, b"%d/%d" % (queue, at)) for queue in (3, 4) for at in range(first, first + 50)
        ]
        table.upload(rows_of(messages), {3: first or None, 4: first or None}, {3: first + 50, 4: first + 50})
    reader = DirectReader(store, ADDRESS, clock)
    assert reader.found("nothing/x-0", [(3, 0, 100)]) == []
    found = reader.found("factory/x-0", [(3, 10, 90), (4, 60, 200), (5, 0, 9)])
    assert [each.part for each in found] == [(3, 10, 50), (3, 50, 90), (4, 60, 100)]
    assert (reader.end("factory/x-0", 3), reader.end("factory/x-0", 5)) == (100, 0)
    bodies = []
    for part, segment in found:
        for read in reader.rows(segment, [part], ["body"]):
            bodies += read.rows.column("body").to_pylist()
    assert bodies == [*(b"3/%d" % at for at in range(10, 90)), *(b"4/%d" % at for at in range(60, 100))]


def test_corrupted_rows_are_told_and_left_out() -> None:
    """Of a row with the flag only the place is known.  Segments without the column have none."""
    objects = MemoryObjects(ManualClock())
    messages = [StoredMessage("factory", b"%d" % at, "factory/a", 3, queue_offset=at) for at in range(10)]
    rows = rows_of(messages)
    if "flags" in rows.column_names:
        rows = rows.drop_columns(["flags"])
    reader = DirectReader(objects, ADDRESS, ManualClock())
    tag = FilterExpression(FilterKind.SUB_TOPIC, "factory/+")
    for flags, left, corrupted in ((None, 10, None), ([0] * 10, 10, None), ([0, 0, 1, 0, 3, 2, 0, 0, 0, 1], 7, (3, 2))):
        with_flags = rows if flags is None else rows.append_column("flags", pa.array(flags, pa.int32()))
        segment = put(objects, with_flags, f"{left}-{flags is None}.parquet")
        for filter in (None, tag):
            [found] = reader.rows(segment, [(3, 0, 10)], ["body"], filter)
            assert (found.rows.num_rows, found.behind, found.corrupted) == (left, (3, 10), corrupted)
            assert found.rows.column_names == ["body"]
