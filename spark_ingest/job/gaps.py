"""`<table>_gaps`: holes in a device's sequence numbers, restarts of a device, and too long silences.

A row describes the moment when the message after the hole came. Later messages, late ones too, are counted in
`arrived_later`: `missing - arrived_later` are missing for good.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from entrepot.spark_ingest.job.merging import append_once, merge_once
from entrepot.spark_ingest.job.rows import EVENT_TIME, device_column
from entrepot.spark_ingest.job.settings import DeviceColumns
from entrepot.spark_ingest.tables.delta import DeltaTableFiles

SCHEMA: Final = pa.schema(
    [
        ("device", pa.string()),
        ("kind", pa.string()),
        ("after_sequence", pa.int64()),
        ("before_sequence", pa.int64()),
        ("missing", pa.int64()),
        ("from_time", pa.timestamp("us", "UTC")),
        ("to_time", pa.timestamp("us", "UTC")),
        ("arrived_later", pa.int64()),
    ]
)

MOST: Final = 2**63 - 1
"""Missing messages of a hole that is too large for a bigint."""


def points_of(rows: DataFrame, columns: DeviceColumns) -> DataFrame:
    """Device, sequence and time of each row."""
    number = F.col(f"`{columns.sequence}`").try_cast("long") if columns.sequence else F.lit(None).cast("long")
    return rows.select(
        device_column(columns).alias("device"), number.alias("sequence"), F.col(EVENT_TIME).alias("time")
    ).where("device IS NOT NULL")


def gaps_of(points: DataFrame, last: DataFrame | None, silence_seconds: float) -> DataFrame:
    """The gaps of a batch; `last` is each device's earlier state in the table (device, sequence, time)."""
    if last is not None:
        known = last.select("device", F.col("time").alias("_last"))
        newer = points.join(known, "device", "left").where("_last IS NULL OR time > _last").drop("_last")
        points = newer.unionByName(last.join(newer.select("device").distinct(), "device", "left_semi"))
    order = Window.partitionBy("device").orderBy("time", "sequence")
    seen = points.withColumn("_sequence", F.lag("sequence").over(order)).withColumn("_time", F.lag("time").over(order))
    number, before = F.col("sequence"), F.col("_sequence")
    hole = F.try_subtract(number, before)  # null for two that are too far from each other
    is_hole, is_restart = F.coalesce(hole > 1, number > before), F.coalesce(hole < 0, number < before)
    missing = F.coalesce(F.try_subtract(hole, F.lit(1)), F.lit(MOST))
    silent = (F.col("time").cast("double") - F.col("_time").cast("double")) > silence_seconds
    kind = F.when(is_hole, "sequence").when(is_restart, "restart").when(silent, "silence")
    return (
        seen.withColumn("kind", kind)
        .where("kind IS NOT NULL")
        .select(
            "device",
            "kind",
            F.col("_sequence").alias("after_sequence"),
            F.col("sequence").alias("before_sequence"),
            F.when(is_hole, missing).otherwise(0).cast("long").alias("missing"),
            F.col("_time").alias("from_time"),
            F.col("time").alias("to_time"),
            F.lit(0).cast("long").alias("arrived_later"),
        )
    )


def append_gaps(path: str, rows: pa.Table, app: str, batch: int) -> None:
    """Append the gaps of a batch."""
    append_once(path, rows.select(SCHEMA.names).cast(SCHEMA), app, batch)


def fill_gaps(path: str, arrived: pa.Table, app: str, batch: int) -> None:
    """Count messages (device, sequence) that came after all, under an id of its own, since it is one more commit."""
    files = DeltaTableFiles(path)
    app = f"{app}-filled"
    if not arrived.num_rows or files.committed(app) >= batch or not files.exists():
        return
    numbers: dict[str, set[int]] = defaultdict(set)
    for row in arrived.to_pylist():
        if row["sequence"] is not None:
            numbers[row["device"]].add(row["sequence"])
    found = files.dataset().to_table(
        filter=(pc.field("kind") == "sequence")
        & pc.field("device").isin(list(numbers))
        & (pc.field("arrived_later") < pc.field("missing"))
    )
    filled: list[dict[str, Any]] = []
    for gap in found.to_pylist():
        count = sum(gap["after_sequence"] < n < gap["before_sequence"] for n in numbers[gap["device"]])
        if count:
            filled.append({**gap, "arrived_later": min(gap["arrived_later"] + count, gap["missing"])})
    merge_once(
        path,
        pa.Table.from_pylist(filled, SCHEMA),
        app,
        batch,
        match=" AND ".join(f"t.{name} = s.{name}" for name in ("device", "kind", "after_sequence", "to_time")),
        update={"arrived_later": "s.arrived_later"},
    )
