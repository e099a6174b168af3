"""JsonColumns: typed columns of JSON bodies beside the bodies.

Bodies go through pyarrow's reader many at once, by the known fields. A part with another field, or a value that does
not fit, is read body by body. Nothing here fails: a row is flagged if a field has no column or does not fit it. A body
with a fault (`protocols/remoting/json_rules.py`) has no fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    fields_of,
    kind_of,
    name_of,
    with_fields,
)
from entrepot.protocols.remoting.json_blocks import faults_of, has_wide, read_block, trimmed
from entrepot.protocols.remoting.json_rules import decoded

MISFIT: Final = 2
"""Flag of a row with a field that its columns do not have."""
MAX_SPELLINGS: Final = 4 * MAX_FIELDS
"""Most spellings of the known fields; others are read body by body."""
PART_ROWS: Final = 8_192
MAX_DEPTH: Final = 8
"""Greatest depth of objects; deeper ones are JSON text."""
MAX_NAMES: Final = 10 * MAX_FIELDS
"""Most names in a body that is read with others: each of them could become a column of the whole part."""


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
            self._spellings.setdefault(field.path, field.name.lower())
        parts = [_Part(rows.slice(at, PART_ROWS), known, self._spellings) for at in range(0, len(rows), PART_ROWS)]
        typed = [part.typed() for part in parts]
        new = list(known.values())[count:]
        found = pa.concat_tables(typed, promote_options="default")
        return found, with_fields(schema, new) if new else schema


class _Part:
    """Some rows. `known`: the table's columns by name in lower case, to which new ones are added; `spellings`: the
    columns of paths."""

    def __init__(self, rows: Any, known: dict[str, Field], spellings: dict[Path, str]) -> None:
        self._rows, self._known, self._spellings = rows, known, spellings
        bodies = rows.column("body")
        self._bodies = trimmed(bodies.chunk(0) if bodies.num_chunks == 1 else pa.concat_arrays(bodies.chunks))
        self._is_misfit = np.zeros(len(rows), bool)

    def typed(self) -> Any:
        is_object = np.ones(len(self._rows), bool)
        is_object[list(faults_of(self._bodies))] = False
        columns = self._at_once(is_object) if is_object.any() else {}
        if columns is None:
            columns = self._one_by_one(is_object)
        rows = self._rows
        for name, values in columns.items():
            rows = rows.append_column(self._known[name].name, values)
        if self._is_misfit.any():
            flags = rows.column("flags").to_numpy() | np.where(self._is_misfit, MISFIT, 0)
            rows = rows.set_column(rows.schema.get_field_index("flags"), "flags", pa.array(flags.astype(np.int32)))
        return rows

    # -- many at once ------------------------------------------------------------------------------------------------

    def _at_once(self, is_object: NDArray[np.bool_]) -> dict[str, Any] | None:
        """Read many bodies at once; None where one has to be looked at by itself."""
        bodies = self._bodies if is_object.all() else self._bodies.filter(pa.array(is_object))
        if has_wide(bodies, MAX_NAMES):
            return None
        table = read_block(bodies, _schema_of(self._paths()), "infer")
        if table is None:
            return None
        places = pa.array(np.cumsum(is_object) - 1, mask=~is_object)
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
        return found

    def _paths(self) -> dict[Path, Any]:
        kinds = {path: self._known[name].kind for path, name in self._spellings.items()}
        return {path: KINDS[kind] for path, kind in kinds.items() if kind != "text"}

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
                name = paths.setdefault(path, name_of(path).lower())
                given.setdefault(name, []).append((at, value))
        for path, name in paths.items():
            if name not in self._known and len(self._known) < MAX_FIELDS and len(name) <= MAX_NAME:
                self._known[name] = Field(name_of(path), kind_of([value for _, value in given[name]]), path)
            if name in self._known and len(self._spellings) < MAX_SPELLINGS:
                self._spellings[path] = name
        found: dict[str, Any] = {}
        for name, values in given.items():
            if name in self._known:
                found[name] = self._column(self._known[name].kind, values)
            else:
                self._is_misfit[[at for at, _ in values]] = True
        return found

    def _column(self, kind: str, given: Sequence[tuple[int, Any]]) -> Any:
        column: list[Any] = [None] * len(self._rows)
        for at, value in given:
            fitting = as_kind(value, kind)
            if fitting is None or column[at] is not None:
                self._is_misfit[at] = True
            else:
                column[at] = fitting
        return pa.array(column, KINDS[kind])


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
