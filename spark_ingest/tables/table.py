"""What the job wants of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from spark_ingest.tables.staging import StagedFile


class TableError(Exception):
    """A table that cannot be used so, with what to do."""


class Table(Protocol):
    """One table at a path that all of Spark's processes see.  One job writes; anyone may read."""

    @property
    def path(self) -> str: ...

    def exists(self) -> bool:
        """Whether there was a commit."""
        ...

    def schema(self) -> pa.Schema:
        """Its columns.  Raises TableError where there is no table."""
        ...

    def committed(self, app: str) -> int:
        """The last batch of a job that is in the table; -1 for none."""
        ...

    def commit(self, files: Sequence[StagedFile], schema: pa.Schema, app: str, batch: int) -> None:
        """Take the files over (they are moved) as one batch; nothing if that batch is there already.

        Columns that the table lacks are added.  Raises TableError for a column of another type than the table's.
        """
        ...

    def files(self, newer_than: datetime | None = None) -> list[str]:
        """Paths of the Parquet files; those alone that may have rows with an `event_time` from then on."""
        ...

    def dataset(self) -> ds.Dataset:
        """All rows, for readers without Spark."""
        ...

    def optimise(self, vacuum_hours: int) -> dict[str, Any]:
        """Make few files of many and remove what no reader of the last hours needs.  What was done, by word."""
        ...


def check_types(path: str, have: pa.Schema, wanted: pa.Schema) -> list[pa.Field]:
    """The columns that a table lacks.  Raises TableError for those that it has with another type."""
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
    """Whether two types are one for a reader: formats have their own words for strings and binaries."""
    for kinds in ((pa.types.is_string, pa.types.is_large_string), (pa.types.is_binary, pa.types.is_large_binary)):
        if any(kind(one) for kind in kinds):
            return any(kind(other) for kind in kinds)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.tz is None) == (other.tz is None)
    if pa.types.is_nested(one) or pa.types.is_nested(other):
        return type(one) is type(other) or {type(one), type(other)} <= {pa.ListType, pa.LargeListType}
    return bool(one == other)
