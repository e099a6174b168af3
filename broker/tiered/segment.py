"""Segments: rows of messages of one broker in one Parquet file, in bands (`bands.py`) by queue and offset.

A segment has whole runs of queues: all of a queue from `first` to before `next_offset` is in it. A run without rows
is a hole: its messages were lost before the upload. Runs of a queue follow each other without a gap, so they alone
reveal a missing one. In the table's log holes are apart, and a queue's run covers them, for readers that know of none.
The digest of a run (`digest.py`) is a sum over its messages: those of merged runs add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.columns import SCHEMA
from entrepot.broker.tiered.digest import MASK

RUNS_TAG: Final = "entrepot.runs"
HOLES_TAG: Final = "entrepot.holes"
CLUSTERED_TAG: Final = "entrepot.clustered"
"""Runs of a segment with bands of several row groups, instead of RUNS_TAG. A reader of an earlier version, which takes
offsets to be in order throughout, knows no runs then, and refuses the table."""


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
    """An encoded segment. `stats`: as in Delta's log, JSON. `is_clustered`: its bands are not in order of offsets."""

    data: bytes
    runs: tuple[Run, ...]
    rows: int
    stats: str
    is_clustered: bool = False


def counted(runs: Iterable[Run]) -> tuple[int, int]:
    """Return the rows of some runs, and their digest."""
    rows = digest = 0
    for run in runs:
        rows, digest = rows + run.rows, (digest + run.digest) & MASK
    return rows, digest


def times_of(runs: Sequence[Run]) -> tuple[int, int]:
    """Return the least and greatest store time of some runs, at least one, in epoch milliseconds."""
    return min(run.times[0] for run in runs), max(run.times[1] for run in runs)


def whole(runs: Sequence[Run]) -> Run:
    """Return the run that several runs of a queue are together."""
    rows, digest = counted(runs)
    return Run(
        runs[0].queue_id,
        min(run.first for run in runs),
        max(run.next_offset for run in runs),
        rows,
        times_of(runs),
        digest,
    )


def tags_of(runs: Sequence[Run], *, is_clustered: bool = False) -> dict[str, str | None]:
    """Return runs as tags of a segment in the table's log."""
    by_queue: dict[int, list[Run]] = {}
    for run in runs:
        by_queue.setdefault(run.queue_id, []).append(run)
    covering = [whole(of_queue) for of_queue in by_queue.values()]
    found: dict[str, str | None] = {CLUSTERED_TAG if is_clustered else RUNS_TAG: msgspec.json.encode(covering).decode()}
    holes = [(run.queue_id, run.first, run.next_offset) for run in runs if not run.rows]
    if holes:
        found[HOLES_TAG] = msgspec.json.encode(holes).decode()
    return found


def runs_of(tags: Mapping[str, str | None] | None) -> tuple[Run, ...]:
    """Reverse `tags_of`, but for digests: of several runs of a queue the first one has the sum. Raises
    msgspec.DecodeError."""
    known = tags or {}
    covering = msgspec.json.decode(known.get(RUNS_TAG) or known.get(CLUSTERED_TAG) or "", type=tuple[Run, ...])
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
