"""Bands: row groups of a segment that are read together, because they share a range of offsets.

A merged segment has the rows of a band in order of their sub-topics, so that one device's are in few row groups. Bands
themselves are in order of queue and offset. An uploaded segment is in order throughout: each row group is a band.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

PLACE: Final = ("queue_id", "queue_offset")
"""Columns with the place of a row."""
MAX_QUEUE: Final = (1 << 31) - 1
MAX_OFFSET: Final = (1 << 63) - 1


class Band(NamedTuple):
    """Row groups by their numbers, with least and greatest queue; if that is one, with its first and last offset."""

    groups: range
    least_queue: int
    greatest_queue: int
    first: int
    last: int

    def may_have(self, queue_id: int, first: int, end: int = MAX_OFFSET) -> bool:
        """True if offsets of a queue from `first` to before `end` may be in it."""
        if not self.least_queue <= queue_id <= self.greatest_queue:
            return False
        return self.least_queue < self.greatest_queue or (self.first < end and self.last >= first)

    def overlaps(self, following: Band) -> bool:
        """True if a following one has offsets of the same queue that belong before the last one here."""
        is_one = self.least_queue == self.greatest_queue == following.least_queue == following.greatest_queue
        return is_one and following.first <= self.last


def bands_of(footer: Any) -> list[Band]:
    """Return the bands of a segment, by the statistics in its footer."""
    leaves = [footer.schema.column(at).path for at in range(footer.num_columns)]
    queue, offset = (leaves.index(name) for name in PLACE)
    found: list[Band] = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        bounds = _bounds(group.column(queue).statistics, group.column(offset).statistics)
        band = Band(range(number, number + 1), *bounds)
        while found and found[-1].overlaps(band):
            before = found.pop()
            band = Band(
                range(before.groups.start, band.groups.stop),
                band.least_queue,
                band.greatest_queue,
                min(before.first, band.first),
                max(before.last, band.last),
            )
        found.append(band)
    return found


def _bounds(queues: Any, offsets: Any) -> tuple[int, int, int, int]:
    if queues is None or offsets is None:
        return 0, MAX_QUEUE, 0, MAX_OFFSET
    return queues.min, queues.max, offsets.min, offsets.max


def in_order(rows: Any) -> Any:
    """Return rows in order of queue and offset. They have both columns."""
    queues, offsets = (rows.column(name).to_numpy() for name in PLACE)
    same = np.diff(queues)
    if ((same > 0) | ((same == 0) & (np.diff(offsets) > 0))).all():
        return rows
    return rows.take(pa.array(np.lexsort((offsets, queues))))
