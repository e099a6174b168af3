"""JsonColumns: typed columns of JSON bodies beside the bodies.

Bodies go through pyarrow's reader many at once, by the known fields. A part with another field, or a value that does
not fit, is read body by body. Nothing here fails: a row is flagged if a field has no column for its value. A body with
a fault (`protocols/wire/json_rules.py`) has no fields.

That reader makes a column of each name that it meets, as long as the part: names that are data, such as one for each
device, took twelve gigabytes. So known fields are read alone first, then others in parts of bounded size, and many
names one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isqrt
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entrepot.broker.tiered.json_fields import (
    KINDS,
    MAX_FIELDS,
    MAX_NAME,
    Field,
    Path,
    as_kind,
    beside,
    fields_of,
    is_beside,
    kind_of,
    name_of,
    with_fields,
)
from entrepot.protocols.wire.json_blocks import faults_of, has_wide, names_in, read_block, trimmed
from entrepot.protocols.wire.json_rules import decoded

MISFIT: Final = 2
"""Flag of a row with a field that its columns do not have, or that was stored without them."""
MAX_SPELLINGS: Final = 4 * MAX_FIELDS
"""Most spellings of the known fields; others are read body by body."""
PART_ROWS: Final = 8_192
_EXACT: Final = float(1 << 53)
"""Whole numbers from here on may not be exact as doubles."""
_NO_NUMBER: Final = pa.scalar(None, pa.float64())
MAX_DEPTH: Final = 8
"""Greatest depth of objects; deeper ones are JSON text."""
MAX_NAMES: Final = 10 * MAX_FIELDS
"""Most names in a body that is read with others: each of them could become a column of the whole part."""
SAMPLE_ROWS: Final = 64
"""Bodies of a part that show whether names are fields or data."""
MAX_CELLS: Final = 16 << 20
"""Values, names by bodies, of the columns that a reader may make of some bodies, nulls included; at most twice this."""


class JsonColumns:
    """The columns of one table. It learns the spellings of fields, so that they are read many at once."""

    def __init__(self) -> None:
        self._spellings: dict[Path, str] = {}

    def typed(self, rows: Any, schema: str) -> tuple[Any, str]:
        """Return rows with their typed columns; and the table's Delta schema, with the new ones."""
        known = fields_of(schema)
        count = len(known)
        self._spellings = {path: name for path, name in self._spellings.items() if name in known}
        for field in known.values():
            if not is_beside(field):
                self._spellings.setdefault(field.path, field.name.lower())
        slices = [rows.slice(at, PART_ROWS) for at in range(0, len(rows), PART_ROWS)]
        typed = [part for some in slices for part in _typed(some, known, self._spellings)]
        new = list(known.values())[count:]
        found = pa.concat_tables(typed, promote_options="default")
        return found, with_fields(schema, new) if new else schema


def plain(rows: Any) -> Any:
    """Return rows without columns for their bodies, flagged as such."""
    return _flagged(rows, np.ones(len(rows), bool))


def _flagged(rows: Any, is_misfit: NDArray[np.bool_]) -> Any:
    flags = rows.column("flags").to_numpy() | np.where(is_misfit, MISFIT, 0)
    return rows.set_column(rows.schema.get_field_index("flags"), "flags", pa.array(flags.astype(np.int32)))


def _typed(rows: Any, known: dict[str, Field], spellings: dict[Path, str]) -> list[Any]:
    """Return rows with their columns, in pieces whose columns are of bounded size."""
    whole = _Part(rows, known, spellings)
    if (found := whole.by_known_fields()) is not None:
        return [found]
    if len(rows) > SAMPLE_ROWS and not _Part(rows[:SAMPLE_ROWS], known, spellings).is_of_few_names():
        return [whole.one_by_one()]
    step = whole.rows_at_once
    pieces = [_Part(rows[at : at + step], known, spellings) for at in range(0, len(rows), step)]
    return [_or_one_by_one(piece) for piece in pieces]


def _or_one_by_one(part: _Part) -> Any:
    found = part.by_all_fields()
    return part.one_by_one() if found is None else found


class _Part:
    """Some rows. `known`: the table's columns by name in lower case, to which new ones are added; `spellings`: the
    columns of paths."""

    def __init__(self, rows: Any, known: dict[str, Field], spellings: dict[Path, str]) -> None:
        self._rows, self._known, self._spellings = rows, known, spellings
        bodies = rows.column("body")
        self._bodies = trimmed(bodies.chunk(0) if bodies.num_chunks == 1 else pa.concat_arrays(bodies.chunks))
        self._is_misfit = np.zeros(len(rows), bool)
        self._is_object = np.ones(len(rows), bool)
        self._is_object[list(faults_of(self._bodies))] = False

    @property
    def rows_at_once(self) -> int:
        """Most rows of which columns of all names are small enough."""
        names = max(names_in(self._bodies), 1)
        return max(SAMPLE_ROWS, isqrt(MAX_CELLS * len(self._rows) // names))

    def is_of_few_names(self) -> bool:
        """True if its names are so few that each may be a field."""
        table = self._read("infer")
        return table is not None and sum(1 for _ in _leaves_of(table)) <= 2 * MAX_FIELDS

    def by_known_fields(self) -> Any:
        """Return the rows with their columns; None where a body has another field, or a value that does not fit."""
        return self._at_once("error")

    def by_all_fields(self) -> Any:
        """Return the rows with their columns; None where a body has to be looked at by itself."""
        return self._at_once("infer")

    def one_by_one(self) -> Any:
        """Return the rows with their columns."""
        return self._with(self._one_by_one(self._is_object))

    def _with(self, columns: Mapping[str, Any]) -> Any:
        rows = self._rows
        for name, values in columns.items():
            rows = rows.append_column(self._known[name].name, values)
        return _flagged(rows, self._is_misfit) if self._is_misfit.any() else rows

    # -- many at once ------------------------------------------------------------------------------------------------

    def _at_once(self, unexpected: str) -> Any:
        if not self._is_object.any():
            return self._with({})
        table = self._read(unexpected)
        columns = None if table is None else self._columns_of(table)
        if columns is None:
            self._is_misfit[:] = False
            return None
        return self._with(columns)

    def _read(self, unexpected: str) -> Any:
        """Return the columns of the bodies without a fault; None where the reader does not take them."""
        bodies = self._bodies if self._is_object.all() else self._bodies.filter(pa.array(self._is_object))
        if unexpected == "infer":
            is_large = len(bodies) > SAMPLE_ROWS and names_in(bodies) * len(bodies) > 2 * MAX_CELLS
            if is_large or has_wide(bodies, MAX_NAMES):
                return None
        return read_block(bodies, _schema_of(self._paths()), unexpected)

    def _columns_of(self, table: Any) -> dict[str, Any] | None:
        places = pa.array(np.cumsum(self._is_object) - 1, mask=~self._is_object)
        found: dict[str, Any] = {}
        for path, values in _leaves_of(table):
            name = self._spellings.get(path)
            if name is None:
                if len(self._known) < MAX_FIELDS or name_of(path).lower() in self._known:
                    return None  # it gets a column, or has one under another spelling
                self._is_misfit |= values.take(places).is_valid().to_numpy(zero_copy_only=False)
                continue
            if self._known[name].kind == "text":
                return None
            values = values.take(places)
            if name in found:
                if pc.any(pc.and_(values.is_valid(), found[name].is_valid())).as_py():
                    return None
                values = pc.coalesce(found[name], values)
            found[name] = values
        return self._by_kinds(found)

    def _by_kinds(self, columns: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return columns with numbers of both kinds as two; None where one may not be exact."""
        found: dict[str, Any] = {}
        for name, values in columns.items():
            if not self._has_doubles_beside(name):
                found[name] = values
                continue
            if pc.any(pc.greater_equal(pc.abs(values), _EXACT)).as_py():
                return None
            is_whole = pc.equal(values, pc.floor(values))
            found[name] = pc.if_else(is_whole, values, _NO_NUMBER).cast(pa.int64())
            others = pc.if_else(is_whole, _NO_NUMBER, values)
            if others.null_count < len(others):
                found[beside(self._known[name], "double").name.lower()] = others
        return found

    def _has_doubles_beside(self, name: str) -> bool:
        field = self._known[name]
        doubles = beside(field, "double")
        return field.kind == "long" and self._known.get(doubles.name.lower()) == doubles

    def _paths(self) -> dict[Path, Any]:
        found = {}
        for path, name in self._spellings.items():
            if (kind := self._known[name].kind) != "text":
                found[path] = KINDS["double" if self._has_doubles_beside(name) else kind]
        return found

    # -- one by one --------------------------------------------------------------------------------------------------

    def _one_by_one(self, is_object: NDArray[np.bool_]) -> dict[str, Any]:
        given: dict[str, list[tuple[int, Any]]] = {}
        paths: dict[Path, str] = {}
        for at in np.flatnonzero(is_object).tolist():
            try:
                body = decoded(self._bodies[at].as_py())
            except ValueError:
                continue
            for path, value in _flat((), body):
                name = paths.get(path)
                if name is None:
                    name = name_of(path).lower()
                    if not self._may_be_column(name, given):
                        self._is_misfit[at] = True
                        continue
                    paths[path] = name
                given.setdefault(name, []).append((at, value))
        for path, name in paths.items():
            if name not in self._known:
                self._known[name] = Field(name_of(path), kind_of([value for _, value in given[name]]), path)
            if len(self._spellings) < MAX_SPELLINGS:
                self._spellings[path] = name
        columns: dict[str, Any] = {}
        for name, values in given.items():
            columns |= self._columns(name, values)
        return columns

    def _may_be_column(self, name: str, given: Mapping[str, Any]) -> bool:
        """True for a name with a column, or that may get one beside the others of this part."""
        if name in self._known or name in given:
            return name in given or not is_beside(self._known[name])
        if len(self._known) >= MAX_FIELDS:
            return False
        new = sum(each not in self._known for each in given)
        return len(name) <= MAX_NAME and len(self._known) + new < MAX_FIELDS

    def _columns(self, name: str, given: Sequence[tuple[int, Any]]) -> dict[str, Any]:
        """Return the column of a field, and those beside it."""
        found: dict[str, list[Any]] = {name: [None] * len(self._rows)}
        taken: set[int] = set()
        for at, value in given:
            column, fitting = name, as_kind(value, self._known[name].kind)
            if fitting is None:
                column, fitting = self._beside(name, value)
            if fitting is None or at in taken:
                self._is_misfit[at] = True
                continue
            taken.add(at)
            found.setdefault(column, [None] * len(self._rows))[at] = fitting
        return {column: pa.array(values, KINDS[self._known[column].kind]) for column, values in found.items()}

    def _beside(self, name: str, value: Any) -> tuple[str, Any]:
        """Return the column for a value of another kind than its field's column has, and the value in it; None where
        there is no room, or another field has that name."""
        kind = kind_of([value])
        field = beside(self._known[name], kind)
        column, fitting = field.name.lower(), as_kind(value, kind)
        has_room = len(self._known) < MAX_FIELDS and len(column) <= MAX_NAME
        if fitting is not None and has_room:
            self._known.setdefault(column, field)
        return column, fitting if self._known.get(column) == field else None


def _flat(path: Path, value: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of an object and of those in it, except nulls."""
    for name, inner in value.items():
        if isinstance(inner, dict) and len(path) + 1 < MAX_DEPTH:
            yield from _flat((*path, name), inner)
        elif inner is not None:
            yield (*path, name), inner


def _leaves_of(table: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the same of a table that was read: fields with their values, except those that are all null."""
    waiting: list[tuple[Path, Any]] = [((name,), table.column(name)) for name in reversed(table.column_names)]
    while waiting:
        path, values = waiting.pop()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
        if pa.types.is_struct(values.type):
            names = [field.name for field in values.type]
            waiting += [((*path, name), part) for name, part in zip(names, values.flatten(), strict=True)]
        elif values.null_count < len(values):
            yield path, values


def _schema_of(paths: Mapping[Path, Any]) -> Any:
    """Return the schema for bodies with these fields; a path that is a field and an object counts as a field."""
    tree: dict[str, Any] = {}
    for path, kind in sorted(paths.items(), key=lambda each: len(each[0])):
        inner = tree
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                break
        else:
            inner[path[-1]] = kind
    return pa.schema(_struct_of(tree))


def _struct_of(tree: Mapping[str, Any]) -> list[Any]:
    return [
        pa.field(name, pa.struct(_struct_of(inner)) if isinstance(inner, dict) else inner)
        for name, inner in tree.items()
    ]
