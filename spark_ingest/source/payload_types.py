"""The types of bodies for msgspec, which names the fault of a bad one."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa

_INTEGERS: Final = {
    pa.int8(): Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)],
    pa.int16(): Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)],
    pa.int32(): Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    pa.int64(): Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
}


_FLOAT_END: Final = 3.4028235677973366e38
"""Least number that is infinite as a float."""
_FLOAT: Final = Annotated[float, msgspec.Meta(gt=-_FLOAT_END, lt=_FLOAT_END)]


def payload_type(fields: Sequence[pa.Field], name: str = "body", *, is_json: bool = False) -> type[msgspec.Struct]:
    """A msgspec struct with values that Arrow accepts for these fields; every field may be missing or null. Its
    attributes are `f0`, `f1` and so on: names in bodies need not be Python's.  JSON has no number that is
    infinite, in any of its types."""
    rename = {f"f{at}": field.name for at, field in enumerate(fields)}
    attributes = [(f"f{at}", _type_of(field.type, field.name, is_json) | None, None) for at, field in enumerate(fields)]
    return msgspec.defstruct(name, attributes, rename=rename)


def value_type(field: pa.Field, *, is_json: bool = False) -> Any:
    """The type of one field's values, which may be null."""
    return _type_of(field.type, field.name, is_json) | None


def _type_of(kind: pa.DataType, name: str, is_json: bool) -> Any:
    if kind in _INTEGERS:
        return _INTEGERS[kind]
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_float32(kind) and is_json:
        return _FLOAT
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_string(kind):
        return str
    if pa.types.is_binary(kind):
        return bytes
    if pa.types.is_timestamp(kind):
        return datetime.datetime
    if pa.types.is_date(kind):
        return datetime.date
    if pa.types.is_decimal(kind):
        return decimal.Decimal
    if pa.types.is_list(kind):
        return list[_type_of(kind.value_type, name, is_json) | None]  # type: ignore[misc]
    if pa.types.is_map(kind):
        return dict[str, _type_of(kind.item_type, name, is_json) | None]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return payload_type(list(kind), name, is_json=is_json)
    raise ValueError(f"column {name}: bodies are not read as {kind}")
