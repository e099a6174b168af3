"""One batch: rows in, tables out, each once.

Tasks write all rows in one go, separated by kind, beside the table. Then the driver commits: dead letters, late rows,
derived tables, the state, and the main table last. After a crash in between, all of it is repeated, and every table
knows its batches.
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
from pyspark.sql.types import StructType

from entrepot.spark_ingest.job import rows as row_kinds
from entrepot.spark_ingest.job.devices import devices_of, merge_devices
from entrepot.spark_ingest.job.gaps import append_gaps, fill_gaps, gaps_of, points_of
from entrepot.spark_ingest.job.minutes import merge_minutes, minutes_of
from entrepot.spark_ingest.job.native import append_native, read_native
from entrepot.spark_ingest.job.recording import tell_store
from entrepot.spark_ingest.job.rows import DEAD, DEAD_COLUMNS, DUPLICATE, EVENT_TIME, GOOD, LATE, device_column
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.state import BatchState, read_state, write_state
from entrepot.spark_ingest.job.task_files import TaskFiles, flat_rows
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from entrepot.spark_ingest.source.batches import RESCUED
from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.spark_ingest.tables import StagedFile, Staging, Table, TableFormat, open_table
from entrepot.spark_ingest.tables.delta import DeltaTableFiles
from entrepot.spark_ingest.tables.owner import check_owner
from entrepot.spark_ingest.tables.owner_at_url import owner_place
from entrepot.spark_ingest.tables.staging import KIND

FUTURE_SECONDS: Final = 3600
"""Largest believed lead of a device's clock over the store's, in seconds: beyond it the watermark does not move."""
KINDS: Final = (GOOD, DEAD, LATE, DUPLICATE)
Staged = tuple[dict[str, list[StagedFile]], pa.Schema, pa.Schema]
"""The files of a batch by kind, and the columns of good and of dead rows."""


@dataclass(frozen=True)
class BatchJob:
    """The function that Spark calls for each batch."""

    settings: JobSettings
    task_files: TaskFiles | None = None
    """Files in which the tasks have written the rows already; None where Spark gets the rows."""

    def __call__(self, rows: DataFrame, batch: int) -> None:
        settings = self.settings
        check_owner(owner_place(settings.table, rows.sparkSession), settings.folder)
        app = self._app()
        if settings.is_native:
            self._natively(rows, app, batch)
            return
        main = self._table(settings.table)
        staging = Staging(settings.table, app, batch)
        staging.clear()
        if main.committed(app) >= batch or read_state(settings.folder, batch).has_no_good_rows:
            return
        began_ms = _now_ms()
        before, watermark = self._before(batch)
        if self.task_files is not None:
            files, schema, dead = self._written_by_tasks(rows, self.task_files)
        else:
            files, schema, dead = self._staged(rows, main, watermark, staging)
        if files[DEAD]:
            self._table(settings.sibling("dead_letters")).commit(files[DEAD], dead, app, batch)
        spark = rows.sparkSession
        derived = self._derive(_read(spark, files[GOOD]), _read(spark, files[LATE]), app, batch)
        if files[LATE]:
            self._table(settings.sibling("late")).commit(files[LATE], schema, app, batch)
        counts = {kind: sum(each.rows for each in files[kind]) for kind in KINDS}
        size = sum(each.size for kind in KINDS for each in files[kind])
        newest = _newest_ms(files[GOOD], before.newest_ms)
        rescued = sum(each.values(RESCUED) for kind in (GOOD, LATE) for each in files[kind])
        write_state(settings.folder, BatchState(batch, newest, counts, size, began_ms, _now_ms(), derived, rescued))
        if files[GOOD]:
            main.commit(files[GOOD], schema, app, batch)
        tell_store(settings, app, batch, main.version(), _now_ms())
        if self.task_files is not None:
            self.task_files.clear()
        staging.clear()
        self._maintain(main, batch)

    def _staged(self, rows: DataFrame, main: Table, watermark: datetime | None, staging: Staging) -> Staged:
        flat = self._flat(rows)
        marked = self._marked(flat, self._earlier(flat, main, watermark), watermark)
        stage(marked, staging, one_write=self.settings.format is TableFormat.DELTA)
        good = arrow_schema(_without(marked.schema, (*DEAD_COLUMNS, KIND)))
        names = [name for name in marked.columns if name in ENVELOPE or name in DEAD_COLUMNS]
        dead = arrow_schema(StructType([marked.schema[name] for name in names]))
        return {kind: staging.files(kind) for kind in KINDS}, good, dead

    def _written_by_tasks(self, rows: DataFrame, task_files: TaskFiles) -> Staged:
        task_files.clear()
        written = task_files.written(rows)
        flat = flat_rows(self.settings)
        return {kind: written.get(kind, []) for kind in KINDS}, flat.good, flat.dead

    def _natively(self, rows: DataFrame, app: str, batch: int) -> None:
        """Process a batch with Spark's own Delta committing."""
        settings, began_ms = self.settings, _now_ms()
        before, watermark = self._before(batch)
        known = read_native(rows.sparkSession, settings.table) if settings.deduplicates else None
        marked = self._marked(self._flat(rows), known, watermark)
        marked.persist()
        try:
            counted = marked.groupBy(KIND).agg(
                F.count("*").alias("rows"),
                F.max(EVENT_TIME).alias("event"),
                F.max("store_time").alias("stored"),
                F.count(RESCUED if RESCUED in marked.columns else F.lit(None)).alias("rescued"),
            )
            found = {row[KIND]: row for row in counted.collect()}
            frames = {kind: rows_of_kind(marked, kind) for kind in found}
            if DEAD in frames:
                append_native(frames[DEAD], settings.sibling("dead_letters"), app, batch)
            derived = self._derive(frames.get(GOOD), frames.get(LATE), app, batch)
            if LATE in frames:
                append_native(frames[LATE], settings.sibling("late"), app, batch)
            newest = before.newest_ms
            if GOOD in found:
                newest = _believed_ms(found[GOOD]["event"], found[GOOD]["stored"], newest)
            counts = {kind: found[kind]["rows"] if kind in found else 0 for kind in KINDS}
            rescued = sum(found[kind]["rescued"] for kind in (GOOD, LATE) if kind in found)
            write_state(settings.folder, BatchState(batch, newest, counts, 0, began_ms, _now_ms(), derived, rescued))
            if GOOD in frames:
                append_native(frames[GOOD], settings.table, app, batch)
            tell_store(settings, app, batch, "", _now_ms())
        finally:
            marked.unpersist()

    def _before(self, batch: int) -> tuple[BatchState, datetime | None]:
        """The state before the batch, and the watermark that follows from it."""
        before = read_state(self.settings.folder, batch - 1)
        delay = self.settings.watermark_seconds
        return before, None if delay is None else before.watermark(delay)

    def _app(self) -> str:
        """The query's id: another checkpoint counts batches anew."""
        metadata = self.settings.checkpoint_path / "metadata"
        return str(json.loads(metadata.read_text())["id"])

    def _table(self, path: str) -> Table:
        return open_table(self.settings.format, path, dict(self.settings.catalog))

    def _flat(self, rows: DataFrame) -> DataFrame:
        return row_kinds.with_event_time(row_kinds.flattened(rows), self.settings.columns.time)

    def _marked(self, flat: DataFrame, earlier: DataFrame | None, watermark: datetime | None) -> DataFrame:
        """Rows with their kind; `earlier` has the rows of the table among which duplicates are found."""
        settings, columns = self.settings, self.settings.columns
        marked = row_kinds.with_kind(flat, watermark)
        if not settings.deduplicates:
            return marked
        if earlier is not None:
            if watermark is not None:
                earlier = earlier.where(F.col(EVENT_TIME) >= F.lit(watermark))
            earlier = earlier.select(
                device_column(columns).alias("_device"), F.col(f"`{columns.sequence}`").alias("_sequence")
            )
        return row_kinds.with_duplicates(marked, columns, earlier)

    def _earlier(self, flat: DataFrame, main: Table, watermark: datetime | None) -> DataFrame | None:
        """The files of the main table among which duplicates are looked for."""
        known = main.files(newer_than=watermark) if self.settings.deduplicates else []
        if not known:
            return None
        return flat.sparkSession.read.schema(_without(flat.schema, DEAD_COLUMNS)).parquet(*known)

    def _derive(self, good: DataFrame | None, late: DataFrame | None, app: str, batch: int) -> dict[str, int]:
        """Commit the derived tables, gaps first: they need the devices' earlier state."""
        settings, columns = self.settings, self.settings.columns
        if not settings.is_deriving:
            return {}
        found: dict[str, int] = {}
        gaps_path, devices_path = settings.sibling("gaps"), settings.sibling("devices")
        arrived: list[DataFrame] = []
        if late is not None:
            arrived.append(points_of(late, columns))
        if good is not None:
            last, points = _last_of(good.sparkSession, devices_path), points_of(good, columns)
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
    """Let the tasks write. In one write the files of all kinds have all columns, which readers of Delta ignore. Other
    formats get files with the columns of their kind."""
    if one_write:
        marked.write.partitionBy(KIND).parquet(str(staging.path))
        return
    marked.persist()
    try:
        for row in marked.groupBy(KIND).count().collect():
            rows_of_kind(marked, row[KIND]).write.parquet(str(staging.path / f"{KIND}={row[KIND]}"))
    finally:
        marked.unpersist()


def rows_of_kind(marked: DataFrame, kind: str) -> DataFrame:
    """The rows of a kind, with the columns of its table."""
    rows = marked.where(F.col(KIND) == kind)
    if kind == DEAD:
        return rows.select(*(name for name in marked.columns if name in ENVELOPE or name in DEAD_COLUMNS))
    return rows.drop(KIND, *DEAD_COLUMNS)


def _read(spark: SparkSession, files: list[StagedFile]) -> DataFrame | None:
    return spark.read.parquet(*(str(each.path) for each in files)) if files else None


def _last_of(spark: SparkSession, path: str) -> DataFrame | None:
    """The last known device, sequence and time of each device."""
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
        newest = _believed_ms(each.greatest.get(EVENT_TIME), each.greatest.get("store_time"), newest)
    return newest


def _believed_ms(event: datetime | None, stored: datetime | None, before: int | None) -> int | None:
    if event is None or stored is None:
        return before
    at = int(min(event.timestamp(), stored.timestamp() + FUTURE_SECONDS) * 1000)
    return at if before is None else max(before, at)


def _without(schema: StructType, names: tuple[str, ...]) -> StructType:
    return StructType([field for field in schema.fields if field.name not in names])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
