"""Gaps between two messages of a device: of one batch, and across two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from entrepot.spark_ingest.job.gaps import gaps_of, points_of
from entrepot.spark_ingest.job.settings import DeviceColumns

START = datetime(2026, 1, 2, tzinfo=UTC)
Point = tuple[str, int | None, int]
"""Device, sequence, second."""


def found(spark: SparkSession, points: list[Point], last: list[Point] | None = None) -> list[tuple[object, ...]]:
    """Device, kind, sequences around the gap, and how many are missing."""

    def frame(rows: list[Point]) -> object:
        timed = [(device, sequence, START + timedelta(seconds=second)) for device, sequence, second in rows]
        return spark.createDataFrame(timed, "device string, sequence bigint, time timestamp")

    gaps = gaps_of(frame(points), frame(last) if last is not None else None, 60.0).toArrow().to_pylist()  # type: ignore[arg-type]
    names = ("device", "kind", "after_sequence", "before_sequence", "missing")
    return [tuple(row[name] for name in names) for row in sorted(gaps, key=lambda row: row["to_time"])]


def test_holes_silences_and_new_beginnings(spark: SparkSession) -> None:
    points: list[Point] = [("d1", 1, 1), ("d1", 2, 2), ("d1", 5, 3), ("d1", 6, 500), ("d1", 0, 501), ("d2", 9, 502)]
    without_numbers: list[Point] = [("d3", None, 600), ("d3", None, 610), ("d3", None, 700)]
    assert found(spark, points + without_numbers) == [
        ("d1", "sequence", 2, 5, 2),
        ("d1", "silence", 5, 6, 0),
        ("d1", "restart", 6, 0, 0),
        ("d3", "silence", None, None, 0),
    ]


def test_numbers_that_are_too_far_from_each_other(spark: SparkSession) -> None:
    """Any device may send any number: the job goes on."""
    least, most = -(2**63), 2**63 - 1
    assert found(spark, [("d1", least, 1), ("d1", most, 2), ("d1", least, 3), ("d1", 0, 4)]) == [
        ("d1", "sequence", least, most, most),
        ("d1", "restart", most, least, 0),
        ("d1", "sequence", least, 0, most),
    ]
    rows = spark.createDataFrame(
        [("d1", 1e300, START), ("d1", 7.0, START)], "sub_topic string, n double, event_time timestamp"
    )
    points = points_of(rows, DeviceColumns("", "n"))
    assert [row["sequence"] for row in points.collect()] == [None, 7]


def test_what_was_known_before_is_the_other_end(spark: SparkSession) -> None:
    last: list[Point] = [("d1", 7, 100), ("d2", 7, 100)]
    assert found(spark, [("d1", 10, 101), ("d1", 6, 50)], last) == [("d1", "sequence", 7, 10, 2)]
