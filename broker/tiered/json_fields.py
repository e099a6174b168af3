"""JSON fields: a table's columns for fields of bodies, and the addition of new ones.

A column is `json_` and the names on the way to the field, joined by `_`; characters other than letters and digits
become `_`, too. Names that differ in case alone are one column, as in Spark. A column's kind is that of most of the
first values: `long`, `double`, `boolean`, `string`, or `text`, which is JSON of anything else, such as a list. It never
changes, as every reader of Delta is to open the table: values of another kind have a column beside, such as
`json_n__double`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

PREFIX: Final = "json_"
MAX_FIELDS: Final = 100
"""Most columns of a table for fields."""
MAX_NAME: Final = 128
"""Longest name of a column; fields with longer ones have none."""
KINDS: Final[Mapping[str, Any]] = {
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "text": pa.string(),
}
Path: TypeAlias = tuple[str, ...]
"""Names on the way to a field."""
_KIND: Final = "entrepot.kind"
_PATH: Final = "entrepot.path"
_ODD: Final = re.compile(r"\W")
_MAX_LONG: Final = 1 << 63


class Field(NamedTuple):
    """A column of a table."""

    name: str
    kind: str
    path: Path


def name_of(path: Path) -> str:
    """Return the column of a field."""
    return PREFIX + _ODD.sub("_", "_".join(path))


def beside(field: Field, kind: str) -> Field:
    """Return the column for values of another kind than their field's column has."""
    return Field(f"{field.name}__{kind}", kind, field.path)


def is_beside(field: Field) -> bool:
    """True for a column beside another one of its field."""
    return field.name.lower() == f"{name_of(field.path)}__{field.kind}".lower()


def fields_of(schema: str) -> dict[str, Field]:
    """Return the columns for fields in a Delta schema, by their names in lower case."""
    found = {}
    for field in json.loads(schema)["fields"]:
        said = field["metadata"]
        if field["name"].startswith(PREFIX) and said.get(_KIND) in KINDS:
            known = Field(field["name"], said[_KIND], tuple(json.loads(said.get(_PATH, "[]"))))
            found[known.name.lower()] = known
    return found


def with_fields(schema: str, fields: Iterable[Field]) -> str:
    """Return a Delta schema with more columns."""
    decoded = json.loads(schema)
    for field in fields:
        said = {_KIND: field.kind, _PATH: json.dumps(field.path)}
        kind = "string" if field.kind == "text" else field.kind
        decoded["fields"].append({"name": field.name, "type": kind, "nullable": True, "metadata": said})
    return json.dumps(decoded)


def kind_of(values: Iterable[Any]) -> str:
    """Return the kind of most of these values, without nulls, of several the first one's; numbers of both kinds are
    doubles."""
    kinds = Counter(_kind(value) for value in values)
    if "double" in kinds:
        kinds["double"] += kinds.pop("long", 0)
    return kinds.most_common(1)[0][0]


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if -_MAX_LONG <= value < _MAX_LONG else "double"
    if isinstance(value, float):
        return "double"
    return "string" if isinstance(value, str) else "text"


def as_kind(value: Any, kind: str) -> Any:
    """Return a value in its column's kind; None where it does not fit.  Infinite ones were too large for doubles."""
    if kind == "text":
        try:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except ValueError:
            return None
    found = _kind(value)
    if kind == "double" and found in ("long", "double"):
        try:
            return float(value) if isfinite(value) else None
        except OverflowError:
            return None
    if found == kind:
        return value
    if kind == "long" and found == "double" and abs(value) < _MAX_LONG and value == int(value):
        return int(value)
    return None
