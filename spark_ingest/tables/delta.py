"""Delta tables through delta-rs: tasks write, the driver commits with the job's id and the batch's number."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction

from entrepot.spark_ingest.tables.staging import StagedFile, move_durably
from entrepot.spark_ingest.tables.table import TableError, check_types


class DeltaTableFiles:
    """An implementation of `Table` for Delta."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(self._path)

    def open(self) -> DeltaTable:
        """Open the present version. Raises TableError where there is no table."""
        if not self.exists():
            raise TableError(f"there is no Delta table at {self._path}")
        return DeltaTable(self._path)

    def schema(self) -> pa.Schema:
        return pa.schema(self.open().schema().to_arrow())

    def committed(self, app: str) -> int:
        return _last_batch(self.open(), app) if self.exists() else -1

    def version(self) -> str:
        return str(self.open().version()) if self.exists() else ""

    def _prepare(self, schema: pa.Schema) -> DeltaTable:
        """Return the table with these columns added; it is made if needed."""
        wanted = Schema.from_arrow(schema)
        if not self.exists():
            return DeltaTable.create(self._path, wanted, mode="ignore")
        table = self.open()
        missing = check_types(self._path, pa.schema(table.schema().to_arrow()), schema)
        if missing:
            names = {field.name for field in missing}
            table.alter.add_columns([field for field in wanted.fields if field.name in names])
            table = self.open()
        return table

    def at_batch(self, schema: pa.Schema, app: str, batch: int) -> tuple[DeltaTable, CommitProperties | None]:
        """Return the table with these columns, and what the commit of a job's batch says; None if it is there."""
        table = self._prepare(schema)
        is_new = _last_batch(table, app) < batch
        return table, CommitProperties(app_transactions=[Transaction(app, batch)]) if is_new else None

    def commit(self, files: Sequence[StagedFile], schema: pa.Schema, app: str, batch: int) -> None:
        table, properties = self.at_batch(schema, app, batch)
        if properties is None:
            return
        folder = Path(self._path) / "data" / f"{app[:8]}-{batch}-{uuid.uuid4().hex[:8]}"
        moved = move_durably(files, folder) if files else []
        now_ms = time.time_ns() // 1_000_000
        table.create_write_transaction(
            [
                AddAction(
                    str(each.path.relative_to(self._path)),
                    each.size,
                    {},
                    now_ms,
                    True,
                    each.delta_stats(schema.names),
                )
                for each in moved
            ],
            mode="append",
            schema=table.schema(),
            commit_properties=properties,
        )

    def files(self, newer_than: datetime | None = None) -> list[str]:
        if not self.exists():
            return []
        table = self.open()
        if newer_than is None:
            return sorted(table.file_uris())
        actions = pa.table(table.get_add_actions(flatten=True))
        if "max.event_time" not in actions.column_names:
            return sorted(table.file_uris())
        newest = actions.column("max.event_time").to_pylist()
        paths = actions.column("path").to_pylist()
        return sorted(
            str(Path(self._path) / path)
            for path, time_ in zip(paths, newest, strict=True)
            if time_ is None or _with_zone(time_) >= newer_than
        )

    def dataset(self) -> ds.Dataset:
        return self.open().to_pyarrow_dataset()

    def optimise(self, vacuum_hours: int) -> dict[str, Any]:
        table = self.open()
        done = table.optimize.compact()
        removed = table.vacuum(retention_hours=vacuum_hours, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        return {
            "files_merged": done["numFilesRemoved"],
            "files_made": done["numFilesAdded"],
            "files_removed": len(removed),
        }


def _last_batch(table: DeltaTable, app: str) -> int:
    """The last batch of a job in an open table; -1 for none."""
    version = table.transaction_version(app)
    return -1 if version is None else version


def _with_zone(time_: datetime) -> datetime:
    return time_ if time_.tzinfo else time_.replace(tzinfo=UTC)
