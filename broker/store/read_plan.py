"""A plan of the records to be read from the log with one call.

An entry is (commit-log offset, size, filter hash), as in a consume queue.
"""

from __future__ import annotations

from collections.abc import Iterator

SMALL_SPAN = 65_536
"""Most bytes read with one call for scattered records."""


def reads_of(
    entries: list[tuple[int, int, int]], segment_size: int
) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Yield groups of entries whose records lie close together in one segment: (start, end, entries)."""
    run: list[tuple[int, int, int]] = []
    start = end = 0
    if entries:
        start, end = entries[0][0], entries[-1][0] + entries[-1][1]
        is_one = 0 < end - start <= SMALL_SPAN and start // segment_size == (end - 1) // segment_size
        if is_one and entries == sorted(entries):
            yield start, end, entries
            return
    for entry in entries:
        offset, size, _ = entry
        if run and (
            offset < end
            or offset - end > 16_384
            or offset + size - start > 1 << 20
            or offset // segment_size != start // segment_size
        ):
            yield start, end, run
            run = []
        if not run:
            start = offset
        run.append(entry)
        end = offset + size
    if run:
        yield start, end, run
