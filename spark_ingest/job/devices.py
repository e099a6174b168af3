"""`<table>_devices`: the last message of each device, and its time."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from entrepot.spark_ingest.job.merging import merge_once
from entrepot.spark_ingest.job.rows import EVENT_TIME, device_column
from entrepot.spark_ingest.job.settings import DeviceColumns


def devices_of(good: DataFrame, columns: DeviceColumns) -> DataFrame:
    """One row for each device of a batch."""
    fields = [F.col(f"`{name}`").alias(f"last_{name}") for name in columns.metrics]
    number = F.col(f"`{columns.sequence}`").try_cast("long") if columns.sequence else F.lit(None).cast("long")
    order = F.struct(F.col(EVENT_TIME), number)
    return (
        good.withColumn("_device", device_column(columns))
        .where(F.col("_device").isNotNull())
        .groupBy(F.col("_device").alias("device"))
        .agg(
            F.max_by(
                F.struct(F.col(EVENT_TIME).alias("last_seen"), number.alias("last_sequence"), *fields), order
            ).alias("l"),
            F.count("*").alias("messages"),
            F.max("store_time").alias("last_stored"),
        )
        .select("device", "l.*", "messages", "last_stored")
    )


def merge_devices(path: str, rows: pa.Table, app: str, batch: int) -> None:
    """Merge into the known devices: the newer message is last."""
    count = {"messages": "t.messages + s.messages"}
    merge_once(
        path,
        rows,
        app,
        batch,
        match="t.device = s.device",
        when="s.last_seen >= t.last_seen",
        update={name: f"s.`{name}`" for name in rows.schema.names if name != "device"} | count,
        otherwise=count,
    )
