"""Bounds of columns, by which readers leave out files: of Delta's statistics, in Iceberg's binary form."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
CUT_MICROSECONDS: Final = 999
"""The part that Delta's statistics may have cut off a time: they have milliseconds, the column microseconds."""


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int
    min_values: dict[str, Any] = {}
    max_values: dict[str, Any] = {}
    null_count: dict[str, Any] = {}


class Bounds(NamedTuple):
    """Statistics of a file: its rows, and by the numbers of columns: values, nulls, least and greatest values."""

    rows: int
    values: dict[int, int]
    nulls: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]


_decode = msgspec.json.Decoder(_Stats).decode


def bounds_of(file: AddFile, columns: Iterable[tuple[int, str, str]]) -> Bounds:
    """Return the statistics of a file of the table. `columns`: number, name and type. An untold column is not
    bounded. Raises MESSAGE_CORRUPTED for a file without the number of its rows."""
    try:
        stats = _decode(file.stats or "")
    except msgspec.DecodeError:
        raise TierError(f"the table's log does not say how many rows {file.path} has", Code.MESSAGE_CORRUPTED) from None
    found = Bounds(stats.num_records, {}, {}, {}, {})
    for number, name, kind in columns:
        nulls = stats.null_count.get(name)
        if isinstance(nulls, int):
            found.values[number], found.nulls[number] = stats.num_records, nulls
        least, greatest = stats.min_values.get(name), stats.max_values.get(name)
        if (lower := _encoded(kind, least, is_upper=False)) is not None:
            found.lower[number] = lower
        if (upper := _encoded(kind, greatest, is_upper=True)) is not None:
            found.upper[number] = upper
    return found


def _encoded(kind: str, value: Any, *, is_upper: bool) -> bytes | None:
    """Return a bound; None for one that is not told, or that the type does not have."""
    try:
        if kind == "string" and isinstance(value, str):
            return value.encode()
        if kind == "timestamptz" and isinstance(value, str):
            micros = (_time(value) - _EPOCH) // _MICROSECOND
            return struct.pack("<q", micros + CUT_MICROSECONDS if is_upper else micros)
        if isinstance(value, bool):
            return None
        if kind in ("int", "long") and isinstance(value, int):
            return struct.pack("<i" if kind == "int" else "<q", value)
        if kind == "double" and isinstance(value, int | float) and math.isfinite(value):
            return struct.pack("<d", _around_zero(float(value), is_upper=is_upper))
    except (ValueError, OverflowError, struct.error):
        return None
    return None


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _around_zero(value: float, *, is_upper: bool) -> float:
    """Return a bound by which neither zero is left out: readers may order -0.0 before 0.0."""
    return value if value else (0.0 if is_upper else -0.0)
