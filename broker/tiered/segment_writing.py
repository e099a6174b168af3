"""Writing segments: rows become one Parquet file, with the statistics by which readers of tables exclude it.

Uploaded rows are in order of queue and offset. Merged ones come in bands (`bands.py`), each in order of sub-topic.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entrepot.broker.tiered.json_fields import PREFIX
from entrepot.broker.tiered.segment import Run, Segment

GROUP_ROWS: Final = 16_384
"""Messages of a row group, the least that is read at once."""
FAST: Final = 1
"""Level of compression of an upload."""
_DICTIONARIES: Final = [
    "topic",
    "sub_topic",
    "message_group",
    "tag",
    "qos",
    "properties.list.element.name",
    "properties.list.element.text",
    "system.list.element.name",
    "system.list.element.text",
]
_DELTAS: Final = {
    **dict.fromkeys(("queue_offset", "store_time", "born_time", "log_offset"), "DELTA_BINARY_PACKED"),
    "message_id": "DELTA_BYTE_ARRAY",  # those of a gateway begin alike
}
_WITHOUT_BOUNDS: Final = ("body", "keys", "properties", "system", "further")
"""Columns whose least and greatest values exclude no row group: finding them takes a fifth of the time."""
_BOUNDED: Final = (
    "queue_id",
    "queue_offset",
    "store_time",
    "born_time",
    "message_id",
    "sub_topic",
    "tag",
    "log_offset",
)
"""Columns whose least and greatest values are in the table's log: readers exclude segments by them."""
MAX_BOUNDED: Final = 32
"""Most columns with bounds in the table's log, the first ones: as many as Delta's other writers have."""
MAX_BOUND_LENGTH: Final = 64
"""Characters of a text in the table's log; a longer one is cut to a text that is less, or greater."""
_GREATEST: Final = "\U0010ffff"


class SegmentWriter:
    """A segment in the making, in memory. `schema`: of all its rows; `level`: of compression (zstd)."""

    def __init__(self, schema: Any, level: int = FAST) -> None:
        self._sink = io.BytesIO()
        self._statistics = _Statistics(schema)
        names = schema.names
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            compression_level=level,
            use_dictionary=[*_DICTIONARIES, *(name for name in names if name.startswith(PREFIX))],
            column_encoding=_DELTAS,
            write_statistics=[name for name in names if name not in _WITHOUT_BOUNDS],
        )

    def add(self, rows: Any, group_rows: int = GROUP_ROWS) -> None:
        """Add rows, at least one, as row groups of their own."""
        self._writer.write_table(rows, row_group_size=group_rows)
        self._statistics.add(rows)

    def finished(self, runs: Sequence[Run], *, is_clustered: bool = False) -> Segment:
        """Return the segment. `runs`: of all its rows, with its holes."""
        self._writer.close()
        rows, stats = self._statistics.rows, self._statistics.told()
        return Segment(self._sink.getvalue(), tuple(runs), rows, stats, is_clustered)


def encode_segment(rows: Any, runs: Sequence[Run]) -> Segment:
    """Return one file of rows, which are in order of queue and offset, at least one."""
    writer = SegmentWriter(rows.schema)
    writer.add(rows)
    return writer.finished(runs)


class _Statistics:
    """Least and greatest values of columns, and numbers of nulls, over all rows added."""

    def __init__(self, schema: Any) -> None:
        fields = [name for name in schema.names if name.startswith(PREFIX) and _is_ordered(schema.field(name).type)]
        self._names = [*_BOUNDED, *fields][:MAX_BOUNDED]
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}
        self._nulls = dict.fromkeys(self._names, 0)
        self.rows = 0

    def add(self, rows: Any) -> None:
        self.rows += len(rows)
        for name in self._names:
            column = rows.column(name)
            self._nulls[name] += column.null_count
            if column.null_count == len(column):
                continue
            bounds = pc.min_max(column)
            least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
            self._least[name] = min(self._least.get(name, least), least)
            self._greatest[name] = max(self._greatest.get(name, greatest), greatest)

    def told(self) -> str:
        """Return them as in Delta's log."""
        least = {name: _least(value) for name, value in self._least.items() if _is_sayable(value)}
        greatest = {name: _greatest(value) for name, value in self._greatest.items() if _is_sayable(value)}
        told = {"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": self._nulls}
        return json.dumps(told)


def _is_ordered(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind))


def _is_sayable(value: Any) -> bool:
    """True unless JSON has no word for a number."""
    return not isinstance(value, float) or isfinite(value)


def _least(value: Any) -> Any:
    return value[:MAX_BOUND_LENGTH] if isinstance(value, str) else _told(value)


def _greatest(value: Any) -> Any:
    if not isinstance(value, str):
        return _told(value)
    cut = MAX_BOUND_LENGTH
    while value[cut : cut + 1] == _GREATEST:  # nothing that is put there is greater
        cut += 1
    return value if len(value) <= cut else value[:cut] + _GREATEST


def _told(value: Any) -> Any:
    """Return a value as in Delta's statistics."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z" if isinstance(value, datetime) else value
