"""Iceberg tables through pyiceberg: the driver adds the files that tasks wrote, in one transaction with the batch.

The catalog is a SQLite file beside the table (`iceberg.db`) unless another is named.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import Table as OpenTable

from entrepot.spark_ingest.tables.staging import StagedFile, move_durably
from entrepot.spark_ingest.tables.table import TableError, check_types

NAMESPACE: Final = "entrepot"
PROPERTY: Final = "entrepot.batch."
"""Prefix of table properties with the last batch of each job."""


class IcebergFiles:
    """An implementation of `Table` for Iceberg; `catalog` has pyiceberg's properties, or none for the default."""

    def __init__(self, path: str, catalog: Mapping[str, str] | None = None) -> None:
        self._root = Path(path).absolute()
        self._properties = dict(catalog or {})
        self._opened: Catalog | None = None

    @property
    def path(self) -> str:
        return str(self._root)

    @property
    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._root.parent.mkdir(parents=True, exist_ok=True)
            properties = self._properties or {
                "type": "sql",
                "uri": f"sqlite:///{self._root.parent / 'iceberg.db'}",
                "warehouse": f"file://{self._root.parent}",
            }
            self._opened = load_catalog("entrepot", **properties)
        return self._opened

    def _open(self) -> OpenTable:
        try:
            return self._catalog.load_table((NAMESPACE, self._root.name))
        except NoSuchTableError as error:
            raise TableError(f"there is no Iceberg table {NAMESPACE}.{self._root.name} at {self._root}") from error

    def exists(self) -> bool:
        return self._catalog.table_exists((NAMESPACE, self._root.name))

    def schema(self) -> pa.Schema:
        return self._open().schema().as_arrow()

    def committed(self, app: str) -> int:
        return int(self._open().properties.get(PROPERTY + app, -1)) if self.exists() else -1

    def version(self) -> str:
        snapshot = self._open().current_snapshot() if self.exists() else None
        return "" if snapshot is None else str(snapshot.snapshot_id)

    def commit(self, files: Sequence[StagedFile], schema: pa.Schema, app: str, batch: int) -> None:
        table = self._prepare(schema)
        if int(table.properties.get(PROPERTY + app, -1)) >= batch:
            return
        moved = move_durably(files, self._root / "data" / f"{app[:8]}-{batch}-{uuid.uuid4().hex[:8]}") if files else []
        with table.transaction() as transaction:
            if moved:
                transaction.add_files([f"file://{each.path}" for each in moved], check_duplicate_files=False)
            transaction.set_properties({PROPERTY + app: str(batch)})

    def _prepare(self, schema: pa.Schema) -> OpenTable:
        if not self.exists():
            try:
                self._catalog.create_namespace(NAMESPACE)
            except NamespaceAlreadyExistsError:
                pass  # by another table of the same lake
            location = f"file://{self._root}"
            return self._catalog.create_table((NAMESPACE, self._root.name), schema=schema, location=location)
        table = self._open()
        if check_types(self.path, table.schema().as_arrow(), schema):
            with table.update_schema() as update:
                update.union_by_name(schema)
            table = self._open()
        return table

    def files(self, newer_than: datetime | None = None) -> list[str]:
        if not self.exists():
            return []
        table = self._open()
        scan = table.scan()
        if newer_than is not None and "event_time" in table.schema().column_names:
            scan = table.scan(row_filter=f"event_time >= '{newer_than.isoformat()}'")
        return sorted(task.file.file_path.removeprefix("file://") for task in scan.plan_files())

    def dataset(self) -> ds.Dataset:
        return ds.dataset(self._open().scan().to_arrow())

    def optimise(self, vacuum_hours: int) -> dict[str, Any]:
        """Expire snapshots older than `vacuum_hours`. The catalog's engines merge files, which pyiceberg cannot."""
        table = self._open()
        until = datetime.now() - timedelta(hours=vacuum_hours)  # noqa: DTZ005 (pyiceberg takes local time)
        before = len(table.snapshots())
        table.maintenance.expire_snapshots().older_than(until).commit()
        return {"files_merged": 0, "files_made": 0, "snapshots_removed": before - len(self._open().snapshots())}
