"""Cutting: uploaded rows become segments of one day each, with their runs and holes.

Whole segments go by age, so none is of two days. Offsets without a row left the disk before their upload: they are runs
without rows, of the day beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from entrepot.broker.tiered.columns import MAX_BORN_MS
from entrepot.broker.tiered.digest import digest_of
from entrepot.broker.tiered.segment import Run, Segment
from entrepot.broker.tiered.segment_writing import encode_segment

DAY_MS: Final = 86_400_000


def segments_of(
    rows: Any, starts: Mapping[int, int], ends: Mapping[int, int], otherwise_ms: int
) -> Iterable[tuple[str, Segment]]:
    """Yield segments of rows, which are in order of queue and offset, with their days. `starts`, `ends`: offsets by
    queue that the rows go on at, if known, and then end at. `otherwise_ms`: store time where no row has one."""
    return _segments(rows, _parts(rows, starts, ends, _store_times(rows, otherwise_ms)))


class _Part(NamedTuple):
    """A run in the making: rows `start` to before `stop`, of one day (since 1970). A hole has none."""

    start: int
    stop: int
    day: int
    run: Run


def _parts(rows: Any, starts: Mapping[int, int], ends: Mapping[int, int], times: NDArray[np.int64]) -> list[_Part]:
    """Return runs by the days of their messages (UTC), each without a gap. Offsets without a row are holes, runs of
    their own of the day beside them. `times`: store times of rows, in epoch milliseconds."""
    queues, offsets = rows.column("queue_id").to_numpy(), rows.column("queue_offset").to_numpy()
    days = times // DAY_MS
    is_cut = (np.diff(queues) != 0) | (np.diff(days) != 0) | (np.diff(offsets) != 1)
    cuts = [0, *(np.flatnonzero(is_cut) + 1).tolist(), len(queues)]
    found: list[_Part] = []
    for start, stop in pairwise(cuts):
        queue_id, first, end = int(queues[start]), int(offsets[start]), int(offsets[stop - 1]) + 1
        day, bounds = int(days[start]), (int(times[start:stop].min()), int(times[start:stop].max()))
        is_first = start == 0 or queues[start - 1] != queue_id
        before = starts.get(queue_id, first) if is_first else int(offsets[start - 1]) + 1
        if before < first:
            found.append(_Part(start, start, day, Run(queue_id, before, first, 0, bounds, 0)))
        digest = digest_of(rows.slice(start, stop - start))
        found.append(_Part(start, stop, day, Run(queue_id, first, end, stop - start, bounds, digest)))
        is_last = stop == len(queues) or queues[stop] != queue_id
        if is_last and end < ends[queue_id]:
            found.append(_Part(stop, stop, day, Run(queue_id, end, ends[queue_id], 0, bounds, 0)))
    return found


def _segments(rows: Any, parts: Sequence[_Part]) -> Iterable[tuple[str, Segment]]:
    """Yield segments of one day each: so whole ones go by age. Where store time stepped back over midnight a queue has
    two parts of a day that do not follow each other, in two segments."""
    for day in sorted({part.day for part in parts}):
        left = [part for part in parts if part.day == day]
        while left:
            taken: list[_Part] = []
            ends: dict[int, int] = {}
            others: list[_Part] = []
            for part in left:
                if ends.get(part.run.queue_id, part.run.first) == part.run.first:
                    taken.append(part)
                    ends[part.run.queue_id] = part.run.next_offset
                else:
                    others.append(part)
            left = others
            some = pa.concat_tables([rows.slice(part.start, part.stop - part.start) for part in taken])
            yield day_of(day * DAY_MS), encode_segment(some, [part.run for part in taken])


def _store_times(rows: Any, otherwise: int) -> NDArray[np.int64]:
    """Return store times in epoch milliseconds; a corrupted row has that of the row before it, or else after it."""
    column = rows.column("store_time").cast(pa.int64())
    if column.null_count:
        column = pc.fill_null_backward(pc.fill_null_forward(column)).fill_null(1000 * otherwise)
    times: NDArray[np.int64] = column.to_numpy() // 1000
    return times


def day_of(time_ms: int) -> str:
    """Return the day (UTC) of a time in epoch milliseconds, between 1970 and 9999, as the folder of its segments."""
    time_ms = min(max(time_ms, 0), MAX_BORN_MS)
    return datetime.fromtimestamp(time_ms // DAY_MS * 86_400, UTC).strftime("%Y-%m-%d")
