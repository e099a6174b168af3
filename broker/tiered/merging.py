"""Merging: many small segments of a day become one, with the same messages, runs and digests.

Uploads are small where a topic has few messages. Readers of an older version have its segments until the grace of the
vacuum is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.columns import by_queue
from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.digest import digest_of
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.segment import Run, Segment, counted, encode_segment, whole
from entrepot.broker.tiered.segment_reader import open_segment
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.errors import Code

LEAST_SEGMENTS: Final = 8
SMALL_BYTES: Final = 4 << 20
"""Size in bytes below which a segment is merged with others."""
MOST_BYTES: Final = 8 << 20
"""Most bytes of the segments merged at a time."""
MOST_ROWS: Final = 65_536
"""Most messages of the segments merged at a time, which are in memory for it."""


def merge(table: TopicTable, objects: ObjectStore) -> int:
    """Merge some segments of one day, where there are enough; return their number. Raises TierError, ConflictError
    where another has changed the table meanwhile: nothing is merged then."""
    paths = _chosen(table)
    if not paths:
        return 0
    merged = _merged(table, objects, paths)
    table.replace(paths, merged)
    return len(paths)


def _chosen(table: TopicTable) -> list[str]:
    """Return small segments of one day that follow each other in each of their queues."""
    days: dict[str, list[AddFile]] = {}
    for file in table.snapshot.files.values():
        if file.size < SMALL_BYTES:
            days.setdefault(file.path.partition("/")[0], []).append(file)
    for _, files in sorted(days.items()):
        files.sort(key=lambda file: (file.modification_time, file.path))
        for start in range(0, len(files), LEAST_SEGMENTS):
            chosen = _following(table, files[start:])
            if len(chosen) >= LEAST_SEGMENTS:
                return chosen
    return []


def _following(table: TopicTable, files: Sequence[AddFile]) -> list[str]:
    """Return as many of the first as follow each other, within the limits."""
    chosen: list[str] = []
    ends: dict[int, int] = {}
    size = rows = 0
    for file in files:
        runs = table.runs(file.path)
        size += file.size
        rows += sum(run.rows for run in runs)
        if size > MOST_BYTES or rows > MOST_ROWS or not _is_next(ends, runs):
            break
        chosen.append(file.path)
    return chosen


def _is_next(ends: dict[int, int], runs: Sequence[Run]) -> bool:
    """True if runs follow the ends of their queues, which they then move."""
    for run in sorted(runs, key=lambda each: each.first):
        if ends.get(run.queue_id, run.first) != run.first:
            return False
        ends[run.queue_id] = run.next_offset
    return True


def _merged(table: TopicTable, objects: ObjectStore, paths: Sequence[str]) -> Segment:
    found = []
    runs: dict[int, list[Run]] = {}
    for path in paths:
        for run in table.runs(path):
            runs.setdefault(run.queue_id, []).append(run)
        stored = f"{table.root}/{path}"
        source = open_segment(objects, stored, table.snapshot.files[path].size)
        try:
            found.append(pq.read_table(source))
        except (pa.ArrowException, OSError) as error:
            raise TierError(f"{stored} cannot be read: {error}", Code.MESSAGE_CORRUPTED) from None
    rows = pa.concat_tables(found, promote_options="default").sort_by(
        [("queue_id", "ascending"), ("queue_offset", "ascending")]
    )
    merged = {queue_id: _joined(of_queue) for queue_id, of_queue in sorted(runs.items())}
    if _told(rows) != {queue_id: counted(of_queue) for queue_id, of_queue in merged.items() if counted(of_queue)[0]}:
        raise TierError(f"segments of {table.root} have other messages than the table says", Code.MESSAGE_CORRUPTED)
    return encode_segment(rows, [run for of_queue in merged.values() for run in of_queue])


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of a queue with those as one that follow each other; a hole stays by itself."""
    found: list[list[Run]] = []
    for run in sorted(runs, key=lambda each: each.first):
        if found and bool(found[-1][-1].rows) == bool(run.rows):
            found[-1].append(run)
        else:
            found.append([run])
    return [whole(each) for each in found]


def _told(rows: Any) -> dict[int, tuple[int, int]]:
    """Return by queue: rows, and their digest."""
    return {part.column("queue_id")[0].as_py(): (len(part), digest_of(part)) for part in by_queue(rows)}
