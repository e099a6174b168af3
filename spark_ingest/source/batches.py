"""Rows as Arrow batches: the topic's own columns, and those of bodies.

A message that raises does not end the task, which Spark would only repeat: it is set aside, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from entrepot.domain.errors import EntrepotError
from entrepot.domain.printable import printable
from entrepot.protocols.wire.arrow_columns import variable_array
from entrepot.protocols.wire.json_rules import said
from entrepot.protocols.wire.records import RecordColumns
from entrepot.spark_ingest.source.cold_columns import cold_array, column_of, table_columns
from entrepot.spark_ingest.source.columns import ENVELOPE, PLACE, envelope_array
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payloads import MAX_ERROR_LENGTH, PayloadParser
from entrepot.spark_ingest.source.planning import Range
from entrepot.spark_ingest.source.telling import tell

T = TypeVar("T")
RESCUED: Final = "_rescued"
ERROR_COLUMNS: Final = (RESCUED, "_error", "_raw")
"""Columns about bodies: values that do not fit, the fault of a bad body, and its bytes."""
MAX_TOLD: Final = 500
"""Longest line of the log about a message that is set aside."""
_NO_MESSAGES: Final = (EntrepotError, MemoryError, AssertionError)
"""Faults that are not a single message's: another attempt may succeed, or the code is wrong."""


@dataclass(frozen=True)
class _Rows:
    """Rows whose columns are still to be made: those of bodies, and the topic's own by name."""

    count: int
    bodies: Callable[[], pa.Array]
    envelope: Callable[[str], pa.Array]


class BatchMaker:
    """A maker of batches of a plan's schema."""

    def __init__(self, schema: pa.Schema, parse: Parse, payload: Sequence[tuple[str, str]]) -> None:
        self._schema = schema
        self._parser: PayloadParser | None = None
        self._payload: dict[str, int] = {}
        if parse is not Parse.NONE:
            fields = [pa.field(name, schema.field(column).type) for column, name in payload]
            self._parser = PayloadParser(parse, fields)
            self._payload = {column: at for at, (column, _) in enumerate(payload)}

    @property
    def cold_columns(self) -> list[str]:
        """The columns of cold tables for the batches."""
        names = [name for name in self._schema.names if name in ENVELOPE]
        return table_columns(names, has_body=self._parser is not None)

    def batch(self, columns: RecordColumns, each: Range) -> pa.RecordBatch:
        """One run as a batch."""

        def rows(part: RecordColumns) -> _Rows:
            return _Rows(
                len(part),
                lambda: variable_array(part, "body", pa.binary()),
                lambda name: envelope_array(name, part, each.topic, each.queue_id),
            )

        return self._surviving(rows(columns), lambda at: rows(columns.row(at)))

    def cold_batch(self, rows: pa.Table, topic: str) -> pa.RecordBatch:
        """Rows of a topic's table as a batch."""

        def of(part: pa.Table) -> _Rows:
            return _Rows(part.num_rows, lambda: column_of(part, "body"), lambda name: cold_array(name, part, topic))

        return self._surviving(of(rows), lambda at: of(rows.slice(at, 1)))

    def _surviving(self, rows: _Rows, row: Callable[[int], _Rows]) -> pa.RecordBatch:
        """Rows as a batch. Where that fails, each is made alone; `row` gives one by its place. One that fails again
        lacks what cannot be read of it, and has the reason in `_error`; the others go on."""
        try:
            return self._batch(rows)
        except _NO_MESSAGES:
            raise
        except Exception:  # noqa: BLE001  # whatever one message raises: those beside it are fine
            alone = [self._alone(row(at)) for at in range(rows.count)]
            [batch] = pa.Table.from_batches(alone, self._schema).combine_chunks().to_batches()
            return batch

    def _batch(self, rows: _Rows) -> pa.RecordBatch:
        made = self._parsed(rows)
        arrays = [made[each.name] if each.name in made else _envelope(rows, each) for each in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _alone(self, rows: _Rows) -> pa.RecordBatch:
        """One row, with null for each column that cannot be made."""
        reasons: list[str] = []

        def tried(make: Callable[[], T], otherwise: T, about: str) -> T:
            try:
                return make()
            except _NO_MESSAGES:
                raise
            except Exception as error:  # noqa: BLE001  # it is told with the message
                reasons.append(f"{about}: {said(error)}")
                return otherwise

        nothing: dict[str, pa.Array] = {}
        made = tried(lambda: self._parsed(rows), nothing, "body")
        for column in self._schema:
            if column.name in ENVELOPE:
                made[column.name] = tried(partial(_envelope, rows, column), pa.nulls(1, column.type), column.name)
        if reasons:
            tell(f"message {_place_of(made)} is set aside: {'; '.join(reasons)}"[:MAX_TOLD])
            if self._parser is not None:
                known = made["_error"].to_pylist() if "_error" in made else []
                text = "; ".join([each for each in known if each] + reasons)
                made = {name: column for name, column in made.items() if name in ENVELOPE}
                made["_error"] = pa.array([printable(text)[:MAX_ERROR_LENGTH]])
                made["_raw"] = tried(rows.bodies, pa.nulls(1, pa.binary()), "body")
        arrays = [made.get(column.name, pa.nulls(1, column.type)) for column in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _parsed(self, rows: _Rows) -> dict[str, pa.Array]:
        """The columns of bodies, in their types."""
        if self._parser is None:
            return {}
        payload, rescued, errors, raw = self._parser.parse(rows.bodies())
        made = {"_rescued": rescued, "_error": errors, "_raw": raw}
        made |= {column: payload[at] for column, at in self._payload.items()}
        return {column.name: _typed(made[column.name], column) for column in self._schema if column.name in made}


def _envelope(rows: _Rows, column: pa.Field) -> pa.Array:
    assert column.name in ENVELOPE
    return _typed(rows.envelope(column.name), column)


def _typed(array: pa.Array, column: pa.Field) -> pa.Array:
    return array if array.type == column.type else array.cast(column.type)


def _place_of(made: Mapping[str, pa.Array]) -> str:
    """The place of a row as operators write it, as far as it has the columns."""
    topic, queue_id, offset = (made[name][0].as_py() if name in made else "?" for name in PLACE)
    return f"{topic}/{queue_id}@{offset}"
