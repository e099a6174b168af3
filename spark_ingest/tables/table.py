"""The job's interface to a table of any format.

ADR 25: tables know their batches. Invariant: files and the batch's number are in one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from entrepot.spark_ingest.tables.staging import StagedFile


class TableError(Exception):
    """A table that cannot be used so, with advice."""


class Table(Protocol):
    """One table at a path that all of Spark's processes see. One job writes; anyone may read."""

    @property
    def path(self) -> str: ...

    def exists(self) -> bool:
        """True after the first commit."""

    def schema(self) -> pa.Schema:
        """Its columns. Raises TableError where there is no table."""

    def committed(self, app: str) -> int:
        """The last batch of a job in the table; -1 for none."""

    def version(self) -> str:
        """The present version by the format's own count; empty for a format without, and before the first commit."""

    def commit(self, files: Sequence[StagedFile], schema: pa.Schema, app: str, batch: int) -> None:
        """Move the files into the table as one batch; nothing if that batch is there already. Columns that the table
        lacks are added. Raises TableError for a column of another type than the table's."""

    def files(self, newer_than: datetime | None = None) -> list[str]:
        """Paths of the Parquet files; only those that may have rows with an `event_time` from `newer_than` on."""

    def dataset(self) -> ds.Dataset:
        """All rows, for readers without Spark."""

    def optimise(self, vacuum_hours: int) -> dict[str, Any]:
        """Merge small files and remove those that no reader of the last hours needs. Return the figures by word."""


def check_types(path: str, have: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """The columns that a table lacks. Raises TableError for those that it has with another type."""
    missing = []
    for field in wanted:
        at = have.get_field_index(field.name)
        if at < 0:
            missing.append(field)
        elif not _same(have.field(at).type, field.type):
            raise TableError(
                f"{path}: column {field.name} is {have.field(at).type} in the table and {field.type} in the messages: "
                "give the schema that the table has (--schema), or another table"
            )
    return missing


def _same(one: pa.DataType, other: pa.DataType) -> bool:
    """True if two types are equal: formats have their own names for strings and binaries."""
    for kinds in ((pa.types.is_string, pa.types.is_large_string), (pa.types.is_binary, pa.types.is_large_binary)):
        if any(kind(one) for kind in kinds):
            return any(kind(other) for kind in kinds)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.tz is None) == (other.tz is None)
    if pa.types.is_nested(one) or pa.types.is_nested(other):
        return type(one) is type(other) or {type(one), type(other)} <= {pa.ListType, pa.LargeListType}
    return bool(one == other)
