"""Segments: rows of messages of one broker in one Parquet file, in order of queue and offset.

A segment has whole runs of queues: all of a queue from `first` to before `next_offset` is in it. A run without rows
is a hole: its messages were lost before the upload. Runs of a queue follow each other without a gap, so they alone
reveal a missing one. In the table's log holes are apart, and a queue's run covers them, for readers that know of none.
The digest of a run (`digest.py`) is a sum over its
messages: those of merged runs add up.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entrepot.broker.tiered.columns import SCHEMA
from entrepot.broker.tiered.digest import MASK
from entrepot.broker.tiered.json_fields import PREFIX

RUNS_TAG: Final = "entrepot.runs"
HOLES_TAG: Final = "entrepot.holes"
GROUP_ROWS: Final = 16_384
"""Messages of a row group, the least that is read at once."""
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
"""Columns whose least and greatest values exclude no row group: finding them takes a fifth of the time."""
_BOUNDED: Final = ("queue_id", "queue_offset", "store_time", "message_id", "log_offset")
"""Columns whose least and greatest values are in the table's log: readers exclude segments by them."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A queue's part of a segment: offsets from `first` to before `next_offset`, `rows` messages. `times`: least and
    greatest store time, in epoch milliseconds. Store time may step back over a failover."""

    queue_id: int
    first: int
    next_offset: int
    rows: int
    times: tuple[int, int]
    digest: int


@dataclass(frozen=True, slots=True)
class Segment:
    """An encoded segment. `stats`: as in Delta's log, JSON."""

    data: bytes
    runs: tuple[Run, ...]
    rows: int
    stats: str


def counted(runs: Iterable[Run]) -> tuple[int, int]:
    """Return the rows of some runs, and their digest."""
    rows = digest = 0
    for run in runs:
        rows, digest = rows + run.rows, (digest + run.digest) & MASK
    return rows, digest


def encode_segment(rows: Any, runs: Sequence[Run]) -> Segment:
    """Return one file of rows, which are in order of queue and offset, at least one."""
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
    """Return a value as in Delta's statistics."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z" if isinstance(value, datetime) else value


def whole(runs: Sequence[Run]) -> Run:
    """Return the run that several runs of a queue are together."""
    rows, digest = counted(runs)
    return Run(
        runs[0].queue_id,
        min(run.first for run in runs),
        max(run.next_offset for run in runs),
        rows,
        (min(run.times[0] for run in runs), max(run.times[1] for run in runs)),
        digest,
    )


def tags_of(runs: Sequence[Run]) -> dict[str, str | None]:
    """Return runs as tags of a segment in the table's log."""
    by_queue: dict[int, list[Run]] = {}
    for run in runs:
        by_queue.setdefault(run.queue_id, []).append(run)
    covering = [whole(of_queue) for of_queue in by_queue.values()]
    found: dict[str, str | None] = {RUNS_TAG: msgspec.json.encode(covering).decode()}
    holes = [(run.queue_id, run.first, run.next_offset) for run in runs if not run.rows]
    if holes:
        found[HOLES_TAG] = msgspec.json.encode(holes).decode()
    return found


def runs_of(tags: Mapping[str, str | None] | None) -> tuple[Run, ...]:
    """Reverse `tags_of`, but for digests: of several runs of a queue the first one has the sum. Raises
    msgspec.DecodeError."""
    known = tags or {}
    covering = msgspec.json.decode(known.get(RUNS_TAG) or "", type=tuple[Run, ...])
    if (text := known.get(HOLES_TAG)) is None:
        return covering
    holes: dict[int, list[tuple[int, int]]] = {}
    for queue_id, first, end in msgspec.json.decode(text, type=list[tuple[int, int, int]]):
        holes.setdefault(queue_id, []).append((first, end))
    return tuple(part for run in covering for part in _split(run, holes.get(run.queue_id, ())))


def _split(run: Run, holes: Sequence[tuple[int, int]]) -> Iterator[Run]:
    """Yield the runs between holes, and these."""
    at, rows, digest = run.first, run.rows, run.digest
    for first, end in sorted(holes):
        if at < first:
            yield Run(run.queue_id, at, first, first - at, run.times, digest)
            rows, digest = rows - (first - at), 0
        yield Run(run.queue_id, first, end, 0, run.times, 0)
        at = end
    if at < run.next_offset:  # the last one may have holes from before there were holes
        yield Run(run.queue_id, at, run.next_offset, rows, run.times, digest)


def read_footer(source: Any) -> Any:
    """Return the footer of a segment, from a file object. Raises ValueError for anything else."""
    try:
        metadata = pq.read_metadata(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    missing = set(SCHEMA.names) - set(metadata.schema.to_arrow_schema().names)
    if missing:
        raise ValueError(f"columns are missing: {', '.join(sorted(missing))}")
    return metadata
