"""Plain Parquet: a folder for each batch, which is there whole or not at all.

`<table>/ingest_batch=<job>-<batch>/part-….parquet`: every reader of partitioned Parquet takes it, with one column more.
The folder appears by one rename, so nobody sees half a batch, and a repeated batch finds it there.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.ipc

from entrepot.spark_ingest.tables.staging import StagedFile, move_durably, replace_file, staged_file, sync
from entrepot.spark_ingest.tables.table import TableError, check_types

PARTITION: Final = "ingest_batch="
SCHEMA_FILE: Final = "_schema"
"""File of the table's columns. Readers ignore names that begin with an underscore."""


class ParquetFolders:
    """An implementation of `Table` for Parquet."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)

    @property
    def path(self) -> str:
        return str(self._root)

    def exists(self) -> bool:
        return bool(self._folders())

    def schema(self) -> pa.Schema:
        """The columns of all batches: a batch has those of its time."""
        if not self.exists():
            raise TableError(f"there is no Parquet table at {self._root}")
        return pa.ipc.read_schema(pa.py_buffer((self._root / SCHEMA_FILE).read_bytes()))

    def committed(self, app: str) -> int:
        prefix = f"{PARTITION}{app[:8]}-"
        numbers = (
            int(folder.name.removeprefix(prefix)) for folder in self._folders() if folder.name.startswith(prefix)
        )
        return max(numbers, default=-1)

    def version(self) -> str:
        return ""

    def commit(self, files: Sequence[StagedFile], schema: pa.Schema, app: str, batch: int) -> None:
        target = self._root / f"{PARTITION}{app[:8]}-{batch:09d}"
        if target.exists() or self.committed(app) >= batch:
            return
        self._prepare(schema)
        hidden = self._root / f"_{target.name}-{uuid.uuid4().hex[:8]}"
        hidden.mkdir(parents=True)
        move_durably(files, hidden)
        hidden.rename(target)
        sync(self._root)

    def _prepare(self, schema: pa.Schema) -> None:
        """Record new columns before there is a batch with them."""
        if self.exists():
            known = self.schema()
            if not check_types(self.path, known, schema):
                return
            schema = pa.unify_schemas([known, schema])
        self._root.mkdir(parents=True, exist_ok=True)
        replace_file(self._root / SCHEMA_FILE, schema.serialize().to_pybytes())

    def _folders(self) -> list[Path]:
        return sorted(self._root.glob(f"{PARTITION}*")) if self._root.is_dir() else []

    def files(self, newer_than: datetime | None = None) -> list[str]:
        paths = [path for folder in self._folders() for path in sorted(folder.glob("*.parquet"))]
        if newer_than is None:
            return [str(path) for path in paths]
        newest = ((path, staged_file(path).greatest.get("event_time")) for path in paths)
        return [str(path) for path, time in newest if time is None or time >= newer_than]

    def dataset(self) -> ds.Dataset:
        return ds.dataset(self.files(), format="parquet", schema=self.schema())

    def optimise(self, vacuum_hours: int) -> dict[str, Any]:
        """Remove only leftovers of dead attempts: files of plain Parquet cannot be changed under readers."""
        left = list(self._root.glob(f"_{PARTITION}*")) if self._root.is_dir() else []
        for path in left:
            shutil.rmtree(path, ignore_errors=True)
        return {"files_merged": 0, "files_made": 0, "files_removed": len(left)}
