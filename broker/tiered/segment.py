"""Segments: rows of messages of one broker in one Parquet file, in order of queue and offset.

A segment has whole runs of queues: all that there was of a queue from `first` on to before `next_offset` is in it.
Runs of a queue follow each other without a gap, so a reader sees by them alone that one is missing.

The digest of a run (`digest.py`) is a sum over its messages: those of runs that are merged add up.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from broker.tiered.columns import SCHEMA
from broker.tiered.json_fields import PREFIX

GROUP_ROWS: Final = 16_384
"""Messages of a row group, which is the least that is read at once."""
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
_DELTAS: Final = dict.fromkeys(("queue_offset", "store_time", "born_time", "log_offset"), "DELTA_BINARY_PACKED")
_WITHOUT_BOUNDS: Final = ("body", "keys", "properties", "system", "further")
"""Columns by whose least and greatest values nobody leaves a row group out: finding them takes a fifth of the time."""
_BOUNDED: Final = ("queue_id", "queue_offset", "store_time", "message_id", "log_offset")
"""Columns whose least and greatest values stand in the table's log: by them readers leave segments out."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A queue's part of a segment: offsets from `first` to before `next_offset`, `rows` messages.

    `times`: least and greatest store time, in epoch milliseconds.  Store time may step back over a failover.
    """

    queue_id: int
    first: int
    next_offset: int
    rows: int
    times: tuple[int, int]
    digest: int


@dataclass(frozen=True, slots=True)
class Segment:
    """An encoded segment.  `stats`: as Delta's log has them, JSON."""

    data: bytes
    runs: tuple[Run, ...]
    rows: int
    stats: str


def encode_segment(rows: Any, runs: Sequence[Run]) -> Segment:
    """One file of rows, which are in order of queue and offset; there is one at least."""
    sink = io.BytesIO()
    pq.write_table(
        rows,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=[*_DICTIONARIES, *(name for name in rows.column_names if name.startswith(PREFIX))],
        column_encoding=_DELTAS,
        write_statistics=[name for name in rows.column_names if name not in _WITHOUT_BOUNDS],
    )
    return Segment(sink.getvalue(), tuple(runs), len(rows), _stats(rows))


def _stats(rows: Any) -> str:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in _BOUNDED:
        column = rows.column(name)
        bounds = pc.min_max(column)
        nulls[name] = column.null_count
        if column.null_count < len(column):
            least[name], greatest[name] = (_told(bounds[end].as_py()) for end in ("min", "max"))
    told = {"numRecords": len(rows), "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(told)


def _told(value: Any) -> Any:
    """A value as Delta's statistics have it."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z" if isinstance(value, datetime) else value


def encode_runs(runs: Sequence[Run]) -> str:
    """Runs as text, for the tags of a segment in the table's log."""
    return msgspec.json.encode(runs).decode()


def decode_runs(text: str) -> tuple[Run, ...]:
    """The reverse.  Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=tuple[Run, ...])


def read_footer(source: Any) -> Any:
    """The footer of a segment, from a file object.  Raises ValueError for what is no segment of ours."""
    try:
        metadata = pq.read_metadata(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    missing = set(SCHEMA.names) - set(metadata.schema.to_arrow_schema().names)
    if missing:
        raise ValueError(f"columns are missing: {', '.join(sorted(missing))}")
    return metadata
