"""`<table>_minutes`: each device's metrics by minute of event time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from entrepot.spark_ingest.job.merging import merge_once
from entrepot.spark_ingest.job.rows import EVENT_TIME, device_column
from entrepot.spark_ingest.job.settings import DeviceColumns


def minutes_of(good: DataFrame, columns: DeviceColumns) -> DataFrame:
    """One row for each minute, device and metric."""
    values = [F.col(f"`{name}`").cast("double").alias(name) for name in columns.metrics]
    return (
        good.select(device_column(columns).alias("device"), EVENT_TIME, *values)
        .unpivot(["device", EVENT_TIME], [F.col(f"`{name}`") for name in columns.metrics], "metric", "value")
        .where(F.col("value").isNotNull() & F.col("device").isNotNull())
        .groupBy(F.date_trunc("minute", EVENT_TIME).alias("window_start"), "device", "metric")
        .agg(
            F.count("*").alias("count"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
            F.sum("value").alias("sum"),
            F.max_by("value", EVENT_TIME).alias("last"),
            F.max(EVENT_TIME).alias("last_time"),
        )
        .withColumn("mean", F.col("sum") / F.col("count"))
    )


def merge_minutes(path: str, rows: pa.Table, app: str, batch: int) -> None:
    """Merge into the results of earlier batches for the same minutes."""
    if not rows.num_rows:
        return
    span = pc.min_max(rows.column("window_start")).as_py()
    pruning = f"t.window_start >= '{span['min'].isoformat()}' AND t.window_start <= '{span['max'].isoformat()}'"
    is_newer = "s.last_time >= t.last_time"
    merge_once(
        path,
        rows,
        app,
        batch,
        match=f"{pruning} AND t.window_start = s.window_start AND t.device = s.device AND t.metric = s.metric",
        update={
            "count": "t.count + s.count",
            "min": "CASE WHEN s.min < t.min THEN s.min ELSE t.min END",
            "max": "CASE WHEN s.max > t.max THEN s.max ELSE t.max END",
            "sum": "t.sum + s.sum",
            "mean": "(t.sum + s.sum) / (t.count + s.count)",
            "last": f"CASE WHEN {is_newer} THEN s.last ELSE t.last END",
            "last_time": f"CASE WHEN {is_newer} THEN s.last_time ELSE t.last_time END",
        },
    )
