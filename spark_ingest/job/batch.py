"""One batch: rows in, tables out, each once.

Tasks write all rows in one go, parted by their kind, beside the table.  Then the driver commits: dead letters, late
rows, what is derived, the state, and the main table last.  Whoever dies in between does it all again, and every table
knows which batches it has.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_ingest.job import rows as row_kinds
from spark_ingest.job.devices import devices_of, merge_devices
from spark_ingest.job.gaps import append_gaps, fill_gaps, gaps_of, points_of
from spark_ingest.job.minutes import merge_minutes, minutes_of
from spark_ingest.job.rows import DEAD, DEAD_COLUMNS, DUPLICATE, EVENT_TIME, GOOD, LATE, device_column
from spark_ingest.job.settings import JobSettings
from spark_ingest.job.state import BatchState, read_state, write_state
from spark_ingest.source.columns import ENVELOPE
from spark_ingest.tables import StagedFile, Staging, Table, TableFormat, open_table
from spark_ingest.tables.delta import DeltaTableFiles
from spark_ingest.tables.staging import KIND

FUTURE_SECONDS: Final = 3600
"""A device whose clock is further ahead of the store's does not move the watermark."""
KINDS: Final = (GOOD, DEAD, LATE, DUPLICATE)


@dataclass(frozen=True)
class BatchJob:
    """What Spark calls for each batch."""

    settings: JobSettings

    def __call__(self, rows: DataFrame, batch: int) -> None:
        settings = self.settings
        app = self._app()
        main = self._table(settings.table)
        staging = Staging(settings.table, app, batch)
        staging.clear()
        if main.committed(app) >= batch or read_state(settings.folder, batch).has_no_good_rows:
            return
        began_ms = _now_ms()
        before = read_state(settings.folder, batch - 1)
        watermark = None
        if settings.watermark_seconds is not None:
            watermark = before.watermark(settings.watermark_seconds)
        marked = self._marked(rows, main, watermark)
        stage(marked, staging, one_write=settings.format is TableFormat.DELTA)
        files = {kind: staging.files(kind) for kind in KINDS}
        schema = to_arrow_schema(_without(marked.schema, (*DEAD_COLUMNS, KIND)), timezone="UTC")
        if files[DEAD]:
            names = [*(name for name in ENVELOPE if name in marked.columns), *DEAD_COLUMNS]
            dead = to_arrow_schema(StructType([marked.schema[name] for name in names]), timezone="UTC")
            self._table(settings.sibling("dead_letters")).commit(files[DEAD], dead, app, batch)
        derived = self._derive(rows.sparkSession, files, app, batch)
        if files[LATE]:
            self._table(settings.sibling("late")).commit(files[LATE], schema, app, batch)
        counts = {kind: sum(each.rows for each in files[kind]) for kind in KINDS}
        size = sum(each.size for kind in KINDS for each in files[kind])
        newest = _newest_ms(files[GOOD], before.newest_ms)
        write_state(settings.folder, BatchState(batch, newest, counts, size, began_ms, _now_ms(), derived))
        if files[GOOD]:
            main.commit(files[GOOD], schema, app, batch)
        staging.clear()
        self._maintain(main, batch)

    def _app(self) -> str:
        """The query's id: batches are counted anew with another checkpoint."""
        metadata = self.settings.checkpoint_path / "metadata"
        return str(json.loads(metadata.read_text())["id"])

    def _table(self, path: str) -> Table:
        return open_table(self.settings.format, path, dict(self.settings.catalog))

    def _marked(self, rows: DataFrame, main: Table, watermark: datetime | None) -> DataFrame:
        settings = self.settings
        flat = row_kinds.with_event_time(row_kinds.flattened(rows), settings.columns.time)
        marked = row_kinds.with_kind(flat, watermark)
        if not settings.deduplicates:
            return marked
        earlier = None
        known = main.files(newer_than=watermark)
        if known:
            columns = settings.columns
            table = rows.sparkSession.read.schema(_without(marked.schema, (*DEAD_COLUMNS, KIND))).parquet(*known)
            if watermark is not None:
                table = table.where(F.col(EVENT_TIME) >= F.lit(watermark))
            earlier = table.select(
                device_column(columns).alias("_device"), F.col(f"`{columns.sequence}`").alias("_sequence")
            )
        return row_kinds.with_duplicates(marked, settings.columns, earlier)

    def _derive(self, spark: SparkSession, files: dict[str, list[StagedFile]], app: str, batch: int) -> dict[str, int]:
        """Commit the tables that are made of the rows, gaps first: they want to know how devices stood before."""
        settings, columns = self.settings, self.settings.columns
        if not settings.is_deriving:
            return {}
        found: dict[str, int] = {}
        gaps_path, devices_path = settings.sibling("gaps"), settings.sibling("devices")
        arrived: list[DataFrame] = []
        if (late := _read(spark, files[LATE])) is not None:
            arrived.append(points_of(late, columns))
        if (good := _read(spark, files[GOOD])) is not None:
            last, points = _last_of(spark, devices_path), points_of(good, columns)
            gaps = gaps_of(points, last, settings.silence_seconds).toArrow()
            append_gaps(gaps_path, gaps, app, batch)
            found["gaps"] = gaps.num_rows
            if last is not None:
                known = last.select("device", F.col("time").alias("_last"))
                arrived.append(points.join(known, "device").where("time <= _last").drop("_last"))
        if columns.sequence and arrived:
            fill_gaps(gaps_path, reduce(DataFrame.unionByName, arrived).toArrow(), app, batch)
        if good is not None:
            if columns.metrics:
                minutes = minutes_of(good, columns).toArrow()
                merge_minutes(settings.sibling("minutes"), minutes, app, batch)
                found["minutes"] = minutes.num_rows
            seen = devices_of(good, columns).toArrow()
            merge_devices(devices_path, seen, app, batch)
            found["devices"] = seen.num_rows
        return found

    def _maintain(self, main: Table, batch: int) -> None:
        every = self.settings.optimise_every
        if every and (batch + 1) % every == 0:
            siblings = ("dead_letters", "late")
            derived = ("minutes", "devices", "gaps")
            tables = [main, *(self._table(self.settings.sibling(name)) for name in siblings)]
            tables += [DeltaTableFiles(self.settings.sibling(name)) for name in derived]
            for table in tables:
                if table.exists():
                    table.optimise(self.settings.vacuum_hours)


def stage(marked: DataFrame, staging: Staging, *, one_write: bool) -> None:
    """Let the tasks write.  In one write the files of all kinds have all columns, which readers of Delta pass over;
    other formats get files with the columns of their kind."""
    if one_write:
        marked.write.partitionBy(KIND).parquet(str(staging.path))
        return
    marked.persist()
    try:
        for row in marked.groupBy(KIND).count().collect():
            kind = row[KIND]
            dropped = [name for name in marked.columns if kind == DEAD and name not in (*ENVELOPE, *DEAD_COLUMNS)]
            dropped = dropped if kind == DEAD else [KIND, *DEAD_COLUMNS]
            marked.where(F.col(KIND) == kind).drop(*dropped).write.parquet(str(staging.path / f"{KIND}={kind}"))
    finally:
        marked.unpersist()


def _read(spark: SparkSession, files: list[StagedFile]) -> DataFrame | None:
    return spark.read.parquet(*(str(each.path) for each in files)) if files else None


def _last_of(spark: SparkSession, path: str) -> DataFrame | None:
    """What is known of devices: device, sequence, time."""
    table = DeltaTableFiles(path)
    if not table.exists():
        return None
    known = table.dataset().to_table(columns=["device", "last_sequence", "last_seen"])
    known = known.rename_columns(["device", "sequence", "time"])
    wanted = pa.schema([("device", pa.string()), ("sequence", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
    return spark.createDataFrame(known.cast(wanted))


def _newest_ms(files: list[StagedFile], before: int | None) -> int | None:
    """The newest event time that is believed."""
    newest = before
    for each in files:
        event, stored = each.greatest.get(EVENT_TIME), each.greatest.get("store_time")
        if event is None or stored is None:
            continue
        at = int(min(event.timestamp(), stored.timestamp() + FUTURE_SECONDS) * 1000)
        newest = at if newest is None else max(newest, at)
    return newest


def _without(schema: StructType, names: tuple[str, ...]) -> StructType:
    return StructType([field for field in schema.fields if field.name not in names])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
