"""Schemas of Iceberg, of those of Delta: each column has a number, which it keeps in later ones.

The Parquet files have no numbers of columns. So readers find columns by their names, by the name mapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code

_PLAIN: Final = {
    "integer": "int",
    "long": "long",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "binary": "binary",
    "timestamp": "timestamptz",
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


class _Numbers:
    """The numbers of a table's columns. `last`: the greatest one so far."""

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def schema_of(delta: str, before: Mapping[str, Any] | None, last: int) -> tuple[dict[str, Any], int]:
    """Return the fields of a table as a struct of Iceberg, and the greatest number of a column.

    `delta`: Spark's JSON schema. `before`: the struct that the table had, whose numbers stay; `last`: its greatest
    number ever. Raises UNSUPPORTED for a type that our tables do not have.
    """
    numbers = _Numbers(last)
    return _struct(json.loads(delta), before, numbers), numbers.last


def _struct(delta: Mapping[str, Any], before: Any, numbers: _Numbers) -> dict[str, Any]:
    known = {field["name"]: field for field in _fields_of(before)}
    fields = []
    for field in delta["fields"]:
        old = known.get(field["name"])
        number = numbers.next() if old is None else old["id"]
        fields.append((number, field, None if old is None else old["type"]))
    return {
        "type": "struct",
        "fields": [
            {
                "id": number,
                "name": field["name"],
                "required": False,
                "type": _type(field["type"], old, numbers),
            }
            for number, field, old in fields
        ],
    }


def _fields_of(struct: Any) -> list[dict[str, Any]]:
    return struct["fields"] if isinstance(struct, dict) and struct.get("type") == "struct" else []


def _type(delta: Any, before: Any, numbers: _Numbers) -> Any:
    if isinstance(delta, dict) and delta.get("type") == "struct":
        return _struct(delta, before, numbers)
    if isinstance(delta, dict) and delta.get("type") == "array":
        is_list = isinstance(before, dict) and before.get("type") == "list"
        number = before["element-id"] if is_list else numbers.next()
        element = _type(delta["elementType"], before["element"] if is_list else None, numbers)
        return {"type": "list", "element-id": number, "element-required": False, "element": element}
    if isinstance(delta, str):
        if match := _DECIMAL.fullmatch(delta):
            return f"decimal({match[1]}, {match[2]})"
        if delta in _PLAIN:
            return _PLAIN[delta]
    raise TierError(f"Iceberg's metadata cannot have a column of Delta's type {delta!r}", Code.UNSUPPORTED)


def name_mapping(struct: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the mapping of names to the numbers of columns, as of the property `schema.name-mapping.default`."""
    return [_mapped(field["id"], field["name"], field["type"]) for field in struct["fields"]]


def _mapped(number: int, name: str, kind: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"field-id": number, "names": [name]}
    if isinstance(kind, dict) and kind["type"] == "list":
        told["fields"] = [_mapped(kind["element-id"], "element", kind["element"])]
    elif isinstance(kind, dict):
        told["fields"] = name_mapping(kind)
    return told


def plain_columns(struct: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield number, name and type of the columns that are neither lists nor structs."""
    for field in struct["fields"]:
        if isinstance(field["type"], str):
            yield field["id"], field["name"], field["type"]
