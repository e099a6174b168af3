"""Flattening of a batch's rows by the tasks themselves, in Arrow: the counterpart of `rows.py` in Spark.

Only steps on single rows are done here: columns of structs, the time of the event, and good or bad bodies. Duplicates
and late rows depend on other rows, and are found by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from entrepot.protocols.wire.arrow_columns import TIMESTAMP
from entrepot.spark_ingest.job.rows import (
    DEAD,
    DEAD_COLUMNS,
    EARLIEST_MICROS,
    EVENT_TIME,
    GOOD,
    LATEST_MICROS,
    NANOSECONDS,
    TIME_UNITS,
    flat_name,
)
from entrepot.spark_ingest.source.columns import ENVELOPE


@dataclass(frozen=True)
class FlatRows:
    """A flattener of rows of a source's schema; `time` is the column of the event time, or empty. Picklable: it goes to
    the tasks."""

    schema: pa.Schema
    time: str = ""
    has_event_time: bool = True

    @staticmethod
    def can(schema: pa.Schema, time: str) -> bool:
        """True if it can be done here: only Spark reads texts as times."""
        if not time:
            return True
        kind = schema.field(time).type if time in schema.names else None  # a field of a struct is Spark's, too
        return kind is not None and (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
        )

    @property
    def good(self) -> pa.Schema:
        """The columns of good rows."""
        fields = [field for field in self._fields() if field.name not in DEAD_COLUMNS]
        return pa.schema([*fields, pa.field(EVENT_TIME, TIMESTAMP)] if self.has_event_time else fields)

    @property
    def dead(self) -> pa.Schema:
        """The columns of rows with bad bodies."""
        by_name = {field.name: field for field in self.schema}
        return pa.schema([by_name[name] for name in by_name if name in ENVELOPE or name in DEAD_COLUMNS])

    def by_kind(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """The rows by kind, without empty kinds."""
        errors = batch.column("_error") if "_error" in batch.schema.names else None
        if errors is None or errors.null_count == len(errors):
            return {GOOD: self._good(batch)}
        is_dead = pc.is_valid(errors)
        dead = batch.filter(is_dead).select(self.dead.names)
        good = batch.filter(pc.invert(is_dead))
        return {DEAD: dead, GOOD: self._good(good)} if good.num_rows else {DEAD: dead}

    def _good(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns: list[pa.Array] = []
        for field, column in zip(self.schema, batch.columns, strict=True):
            if field.name not in DEAD_COLUMNS:
                columns += _parts(column)
        if self.has_event_time:
            columns.append(self._event_time(batch))
        return pa.RecordBatch.from_arrays(columns, schema=self.good)

    def _event_time(self, batch: pa.RecordBatch) -> pa.Array:
        born = pc.coalesce(_believed(batch.column("born_time")), batch.column("store_time"))
        if not self.time:
            return born
        said = batch.column(self.time)
        if not pa.types.is_timestamp(said.type):
            said = _moment(said)
        return pc.coalesce(_believed(said.cast(TIMESTAMP)), born)

    def _fields(self) -> list[pa.Field]:
        taken = {field.name.lower() for field in self.schema if not pa.types.is_struct(field.type)}
        found: list[pa.Field] = []
        for field in self.schema:
            found += _flat_fields(field.name, field, taken)
        return found


def _flat_fields(name: str, field: pa.Field, taken: set[str]) -> list[pa.Field]:
    """The fields, named as by `rows.flattened`."""
    if not pa.types.is_struct(field.type):
        return [pa.field(name, field.type)]
    found: list[pa.Field] = []
    for part in field.type:
        flat = flat_name(name, part.name, taken, is_struct=pa.types.is_struct(part.type))
        found += _flat_fields(flat, part, taken)
    return found


def _parts(column: pa.Array) -> Iterable[pa.Array]:
    """A column, or the columns of a struct, null where the struct is."""
    if not isinstance(column, pa.StructArray):
        return (column,)
    return [leaf for part in column.flatten() for leaf in _parts(part)]


def _moment(numbers: pa.Array) -> pa.Array:
    """Numbers since 1970 as times, with the unit by their size."""
    value = numbers.cast(pa.float64(), safe=False)
    size = pc.abs(value)
    unit: pa.Array | pa.Scalar = pa.scalar(NANOSECONDS)
    for limit, divisor in reversed(TIME_UNITS):
        unit = pc.if_else(pc.less(size, limit), divisor, unit)
    micros = pc.round(pc.multiply(pc.divide(value, unit), 1e6), round_mode="half_towards_infinity")
    is_one = pc.less_equal(pc.abs(micros), float(LATEST_MICROS))
    return pc.if_else(is_one, micros, pa.scalar(None, pa.float64())).cast(pa.int64()).cast(TIMESTAMP)


def _believed(moments: pa.Array) -> pa.Array:
    """Times, with null for those that are out of bounds."""
    first, last = (pa.scalar(micros, TIMESTAMP) for micros in (EARLIEST_MICROS, LATEST_MICROS))
    is_one = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
    return pc.if_else(is_one, moments, pa.scalar(None, TIMESTAMP))
