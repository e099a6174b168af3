"""What tasks make of rows by themselves is what Spark makes of them: columns, their types, times and kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from entrepot.spark_ingest.job import rows as row_kinds
from entrepot.spark_ingest.job.batch import rows_of_kind
from entrepot.spark_ingest.job.flat import FlatRows
from entrepot.spark_ingest.job.rows import DEAD, EVENT_TIME, GOOD
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from tests.tiers.marks import soak_only

BORN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
STORED = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
SAID = datetime(2025, 5, 6, 7, 8, 9, tzinfo=UTC)
NUMBERS = [
    None, 0, -1, 1, 1_700_000_000, 1_700_000_000_123, 1_700_000_000_123_456, 1_700_000_000_123_456_789,
    -1_700_000_000_123, 99_999_999_999, 100_000_000_000, 10**14 - 1, 10**14, 10**17, 2**63 - 1,
]  # fmt: skip
FIRST = -62_135_596_800_000_000
"""The first microsecond of the year 1."""
LATEST = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
FAR = [5e21, -1e21, 2.5e20, 9e18, 253_402_300_799e9, 253_402_300_801e9, -62_135_596_799e9, -62_135_596_801e9]
"""Nanoseconds about the ends of the years 1 and 9999, and beyond."""
SCHEMA = (
    "topic string, queue_id int, queue_offset bigint, born_time timestamp, store_time timestamp, "
    "position struct<lat: double, at: struct<name: string, n: int>>, position_lat string, list array<int>, "
    "ts {kind}, _rescued string, _error string, _raw binary"
)


def by_spark(rows: DataFrame, time: str) -> dict[str, pa.Table]:
    marked = row_kinds.with_kind(row_kinds.with_event_time(row_kinds.flattened(rows), time), None)
    found = {}
    for kind in (GOOD, DEAD):
        some = rows_of_kind(marked, kind)
        found[kind] = some.toArrow().cast(arrow_schema(some.schema))
    return found


def rows_with(values: list[Any]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for at, value in enumerate(values):
        position = [None, (1.5, None), (2.5, ("a", 3))][at % 3]
        rows.append(("t", 1, at, BORN, STORED, position, f"p{at}", [at, None], value, "{}", None, None))
    return [*rows, ("t", 1, len(rows), BORN, STORED, None, None, None, None, None, "not JSON", b"{")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", NUMBERS),
        soak_only("int", [None, 0, -5, 1_700_000_000]),
        soak_only("double", [None, 0.5, 1.7e9 + 0.125, 1.7e12 + 0.5, -1e12, 1e300, 5e-7, 1.5e-6, -1.5e-6, *FAR]),
        soak_only("timestamp", [None, SAID]),
    ],
)
@pytest.mark.parametrize("time", ["ts", soak_only("")])
def test_times(spark: SparkSession, kind: str, values: list[Any], time: str) -> None:
    rows = spark.createDataFrame(rows_with(values), SCHEMA.format(kind=kind))
    schema = arrow_schema(rows.schema)
    assert FlatRows.can(schema, "ts")
    flat, expected = FlatRows(schema, time), by_spark(rows, time)
    [batch] = rows.toArrow().cast(schema).combine_chunks().to_batches()
    found = flat.by_kind(batch)
    assert flat.good.names == expected[GOOD].schema.names and flat.dead.names == expected[DEAD].schema.names
    for each, fields in ((GOOD, flat.good), (DEAD, flat.dead)):
        assert [field.type for field in fields] == [field.type for field in expected[each].schema]
        order = [("queue_offset", "ascending")]
        assert found[each].sort_by(order).to_pylist() == expected[each].sort_by(order).to_pylist()


def test_times_out_of_every_calendar_are_not_believed(spark: SparkSession) -> None:
    """Neither those of a body nor those of a client: the time of storing is the broker's."""
    odd = "timestamp_micros({})"
    frame = spark.createDataFrame(rows_with([5e21, 1.7e9, None])[:3], SCHEMA.format(kind="double"))
    frame = frame.withColumn("born_time", F.expr(f"if(queue_offset = 1, born_time, {odd.format(2**63 - 1)})"))
    schema = arrow_schema(frame.schema)
    [good] = FlatRows(schema, "ts").by_kind(one_batch(frame)).values()
    expected = [STORED, datetime.fromtimestamp(1.7e9, UTC), STORED]
    assert good.column(EVENT_TIME).to_pylist() == expected
    by_name = row_kinds.with_event_time(row_kinds.flattened(frame), "ts").select(EVENT_TIME).toArrow()
    assert by_name.column(0).cast(pa.timestamp("us", "UTC")).to_pylist() == expected
    for time, believed in ((FIRST, True), (FIRST - 1, False), (LATEST, True), (LATEST + 1, False)):
        moved = frame.withColumn("born_time", F.expr(odd.format(time)))
        at = FlatRows(schema).by_kind(one_batch(moved))[GOOD].column(EVENT_TIME)[0].cast(pa.int64()).as_py()
        assert (at == time) is believed
        [row] = row_kinds.with_event_time(moved, "").selectExpr(f"unix_micros({EVENT_TIME}) AS at").limit(1).collect()
        assert row["at"] == at


def one_batch(frame: DataFrame) -> pa.RecordBatch:
    [batch] = frame.coalesce(1).toArrow().cast(arrow_schema(frame.schema)).combine_chunks().to_batches()
    return batch


def test_a_batch_without_bad_bodies_is_one_kind(spark: SparkSession) -> None:
    rows = spark.createDataFrame(rows_with([1, 2])[:2], SCHEMA.format(kind="bigint"))
    schema = arrow_schema(rows.schema)
    [batch] = rows.toArrow().cast(schema).combine_chunks().to_batches()
    found = FlatRows(schema, "ts").by_kind(batch)
    assert list(found) == [GOOD]
    assert found[GOOD].schema.names[-1] == EVENT_TIME
    assert list(FlatRows(schema, "ts").by_kind(batch.slice(0, 0))) == [GOOD]


def test_texts_are_read_as_times_by_spark_alone(spark: SparkSession) -> None:
    schema = arrow_schema(spark.createDataFrame([], "a string, s struct<t: bigint>").schema)
    assert not FlatRows.can(schema, "a") and not FlatRows.can(schema, "s_t")
    assert FlatRows.can(schema, "")
