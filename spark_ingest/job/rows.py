"""A batch's rows in the form of the tables: flat, with their time and kind."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)
from pyspark.sql.window import Window

from entrepot.spark_ingest.job.settings import DeviceColumns
from entrepot.spark_ingest.source.batches import ERROR_COLUMNS
from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.spark_ingest.tables.staging import KIND

EVENT_TIME: Final = "event_time"
TIME_UNITS: Final = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6))
"""Units of numbers since 1970: (upper limit, units per second) of seconds, milliseconds, microseconds."""
NANOSECONDS: Final = 1e9
"""Units per second of larger numbers."""
EARLIEST_MICROS: Final = -62_135_596_800_000_000
LATEST_MICROS: Final = 253_402_300_799_999_999
"""Bounds of believed times: the years 1 to 9999, in microseconds since 1970.  Most programs can say no others."""
DEAD_COLUMNS: Final = ("_error", "_raw")
DEVICE_NAMES: Final = ("device", "device_id", "deviceid", "client_id", "clientid", "sensor", "sensor_id")
SEQUENCE_NAMES: Final = ("seq", "sequence", "sequence_number", "seqno", "msg_id", "n")
TIME_NAMES: Final = ("event_time", "ts", "timestamp", "time", "t", "created_at", "at")

GOOD, DEAD, LATE, DUPLICATE = "good", "dead", "late", "duplicate"


def flattened(rows: DataFrame) -> DataFrame:
    """Turn structs into columns: `position.lat` is `position_lat`."""
    taken = {name.lower() for name in rows.columns if not isinstance(rows.schema[name].dataType, StructType)}
    columns: list[Column] = []
    for field in rows.schema.fields:
        columns += _flat(F.col(f"`{field.name}`"), field.name, field.dataType, taken)
    return rows.select(*columns)


def _flat(column: Column, name: str, kind: DataType, taken: set[str]) -> list[Column]:
    if not isinstance(kind, StructType):
        return [column.alias(name)]
    found: list[Column] = []
    for field in kind.fields:
        flat = flat_name(name, field.name, taken, is_struct=isinstance(field.dataType, StructType))
        found += _flat(column.getField(field.name), flat, field.dataType, taken)
    return found


def flat_name(parent: str, name: str, taken: set[str], *, is_struct: bool) -> str:
    """Return the name of a field of a struct as a column, and add it to the `taken` ones, which are in lower case: to
    Spark and to tables names that differ in case are the same. A column that is there already keeps its name."""
    flat = f"{parent}_{name}"
    if not is_struct:
        while flat.lower() in taken:
            flat += "_"
        taken.add(flat.lower())
    return flat


def found_columns(schema: StructType, asked: DeviceColumns) -> DeviceColumns:
    """The device columns: those asked for, else those with the usual names; all other numbers are metrics. Raises
    ValueError for a name that the table does not have."""
    payload = [field for field in schema.fields if field.name not in ENVELOPE and field.name not in ERROR_COLUMNS]
    by_name = {field.name: field.dataType for field in payload}
    for name in (asked.device, asked.sequence, asked.time, *asked.metrics):
        if name and name not in by_name:
            raise ValueError(f"there is no column {name!r} in the messages; there are {', '.join(by_name)}")
    device = asked.device or _first(by_name, DEVICE_NAMES, (StringType, NumericType))
    sequence = asked.sequence or _first(by_name, SEQUENCE_NAMES, (NumericType,))
    time = asked.time or _first(by_name, TIME_NAMES, (NumericType, StringType, TimestampType))
    metrics = asked.metrics or tuple(
        name for name, kind in by_name.items() if isinstance(kind, NumericType) and name not in (device, sequence, time)
    )
    return DeviceColumns(device, sequence, time, metrics)


def _first(columns: dict[str, DataType], names: Iterable[str], kinds: tuple[type[DataType], ...]) -> str:
    by_lower = {name.lower(): name for name in reversed(list(columns))}
    for name in names:
        if name in by_lower and isinstance(columns[by_lower[name]], kinds):
            return by_lower[name]
    return ""


def with_event_time(rows: DataFrame, time: str) -> DataFrame:
    """Add the column `event_time`: the message's own, else the time of publishing, else that of storing: the first that
    is in the years 1 to 9999. Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, by their size;
    texts are ISO 8601."""
    born = F.coalesce(_believed(F.col("born_time")), F.col("store_time"))
    if not time:
        return rows.withColumn(EVENT_TIME, born)
    kind = rows.schema[time].dataType
    value = F.col(f"`{time}`")
    if isinstance(kind, (TimestampType, DateType)):
        said = value.cast("timestamp")
    elif isinstance(kind, NumericType) and not isinstance(kind, BooleanType):
        number = value.cast("double")
        unit = F.lit(NANOSECONDS)
        for limit, divisor in reversed(TIME_UNITS):
            unit = F.when(F.abs(number) < limit, divisor).otherwise(unit)
        said = F.timestamp_micros(F.round(number / unit * 1e6).try_cast("long"))
    else:
        said = F.try_to_timestamp(value)
    return rows.withColumn(EVENT_TIME, F.coalesce(_believed(said), born))


def _believed(moment: Column) -> Column:
    """A time, or null for one that is out of bounds."""
    first, last = (F.timestamp_micros(F.lit(micros)) for micros in (EARLIEST_MICROS, LATEST_MICROS))
    return F.when(moment.between(first, last), moment)


def device_column(columns: DeviceColumns) -> Column:
    """The sender of a row, as text."""
    if not columns.device:
        return F.col("sub_topic")
    return F.coalesce(F.col(f"`{columns.device}`").cast("string"), F.col("sub_topic"))


def with_kind(rows: DataFrame, watermark: datetime | None) -> DataFrame:
    """Add the kind of each row: bad bodies are dead, those from before the watermark late, the others good."""
    kind: Column = F.lit(GOOD)
    if watermark is not None:
        kind = F.when(F.col(EVENT_TIME) < F.lit(watermark), F.lit(LATE)).otherwise(kind)
    if "_error" in rows.columns:
        kind = F.when(F.col("_error").isNotNull(), F.lit(DEAD)).otherwise(kind)
    return rows.withColumn(KIND, kind)


def with_duplicates(rows: DataFrame, columns: DeviceColumns, earlier: DataFrame | None) -> DataFrame:
    """Mark good rows with a repeated sequence number of their device, in this batch or in `earlier`, as duplicates.

    `earlier` has the columns `_device`, `_sequence`. The first row in the order of the log stays good.
    """
    marked = rows.withColumn("_device", device_column(columns)).withColumn("_sequence", F.col(f"`{columns.sequence}`"))
    is_asked = (F.col(KIND) == GOOD) & F.col("_sequence").isNotNull()
    order = Window.partitionBy("_device", "_sequence", F.col(KIND)).orderBy("topic", "queue_id", "queue_offset")
    marked = marked.withColumn("_place", F.when(is_asked, F.row_number().over(order)).otherwise(1))
    again = F.col("_place") > 1
    if earlier is not None:
        known = earlier.select("_device", "_sequence").distinct().withColumn("_known", F.lit(True))
        marked = marked.join(known, ["_device", "_sequence"], "left")
        again = again | F.coalesce(F.col("_known"), F.lit(False))
    return marked.withColumn(KIND, F.when(is_asked & again, F.lit(DUPLICATE)).otherwise(F.col(KIND))).select(
        *rows.columns
    )
