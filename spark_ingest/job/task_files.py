"""Tasks that write what they read: each into Parquet files of its own, of which Spark gets only the names.

So the rows of a batch do not pass through Spark. Files of a failed attempt are in nobody's list.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from entrepot.spark_ingest.job.flat import FlatRows
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.table_columns import struct_of
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from entrepot.spark_ingest.source.data_source import EntrepotDataSource, EntrepotStreamReader
from entrepot.spark_ingest.source.options import SourceOptions, read_options
from entrepot.spark_ingest.source.schemas import table_ddl
from entrepot.spark_ingest.source.spark_api import InputPartition
from entrepot.spark_ingest.tables import StagedFile
from entrepot.spark_ingest.tables.staging import KIND, staged_file

OPTION: Final = "taskfiles"
COMPRESSION: Final = "zstd"
_LISTED: Final = pa.schema([("kind", pa.string()), ("path", pa.string())])


@dataclass(frozen=True)
class TaskFiles:
    """The files of the tasks of one start of a job. `schema` is that of the source's rows, as Spark's JSON, since tasks
    cannot parse DDL; `time` is as in `FlatRows`."""

    folder: str
    schema: str
    time: str = ""
    has_event_time: bool = True

    @staticmethod
    def of(settings: JobSettings) -> TaskFiles | None:
        """Prepare one start of a job, and remove files of earlier ones; None where rows need each other, or Spark's
        reading of times."""
        if settings.is_native or settings.deduplicates or settings.watermark_seconds is not None:
            return None
        schema = rows_of(settings.source_options())
        if not FlatRows.can(arrow_schema(schema), settings.columns.time):
            return None
        root = Path(f"{settings.table}_staging").absolute()
        prefix = f"tasks-{crc32(str(settings.checkpoint_path).encode()):08x}-"
        for left in root.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        return TaskFiles(str(root / f"{prefix}{uuid.uuid4().hex[:8]}"), schema.json(), settings.columns.time)

    def stream(self, session: SparkSession, options: dict[str, str]) -> DataFrame:
        """The stream of the files; `options` are the source's."""
        session.dataSource.register(TaskFilesSource)
        said = {**options, OPTION: orjson.dumps(asdict(self)).decode()}
        return session.readStream.format(TaskFilesSource.name()).options(**said).load()

    def clear(self) -> None:
        """Remove the files of an earlier attempt at a batch."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def written(rows: DataFrame) -> dict[str, list[StagedFile]]:
        """Run the tasks of a batch; return their files by kind."""
        found: dict[str, list[StagedFile]] = {}
        for row in rows.collect():
            found.setdefault(row.kind, []).append(staged_file(Path(row.path)))
        return {kind: sorted(files, key=lambda each: each.path) for kind, files in found.items()}


def flat_rows(settings: JobSettings) -> FlatRows:
    """The flattening of a job's rows."""
    schema = rows_of(settings.source_options())
    return FlatRows(arrow_schema(schema), settings.columns.time)


def rows_of(given: dict[str, str]) -> StructType:
    """The schema of the source's rows, by its options. Needs a Spark session."""
    options = read_options(given)
    return struct_of(table_ddl(options, options.payload_schema))


class TaskFilesSource(EntrepotDataSource):
    """The source, seen as the files that its tasks write."""

    @classmethod
    def name(cls) -> str:
        return "entrepot_task_files"

    def schema(self) -> str:
        return "kind string, path string"

    def streamReader(self, schema: StructType) -> EntrepotStreamReader:
        given = dict(self.options)
        files = TaskFiles(**orjson.loads(given.pop(OPTION)))
        return TaskFilesReader(read_options(given), files)


class TaskFilesReader(EntrepotStreamReader):
    """A reader that writes rows into files, and returns their names."""

    def __init__(self, options: SourceOptions, files: TaskFiles) -> None:
        schema = StructType.fromJson(orjson.loads(files.schema))
        super().__init__(options, schema)
        self._files = files
        self._flat = FlatRows(arrow_schema(schema), files.time, files.has_event_time)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_files": self._files, "_flat": self._flat}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        written = write_files(self._flat, super().read(partition), Path(self._files.folder))
        yield pa.RecordBatch.from_pylist([{"kind": kind, "path": path} for kind, path in written.items()], _LISTED)


def write_files(flat: FlatRows, batches: Iterator[pa.RecordBatch], folder: Path) -> dict[str, str]:
    """Write each kind of rows into a file of its own, unless empty; return the path by kind."""
    writers: dict[str, tuple[str, pq.ParquetWriter]] = {}
    name = f"part-{os.getpid()}-{uuid.uuid4().hex}.parquet"
    try:
        for batch in batches:
            for kind, rows in flat.by_kind(batch).items():
                if kind not in writers:
                    path = folder / f"{KIND}={kind}" / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    writers[kind] = str(path), pq.ParquetWriter(path, rows.schema, compression=COMPRESSION)
                writers[kind][1].write_batch(rows)
    finally:
        for _, writer in writers.values():
            writer.close()
    return {kind: path for kind, (path, _) in writers.items()}
