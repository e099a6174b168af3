"""Merging: segments of a day become one, with the same messages, runs and digests, until they have some 64 MB.

A few tiny ones become a small one at once, so that a table never has very many; small ones wait until they are worth a
final one. Each row is written about three times. Sources are read queue by queue and band by band, so that memory does
not grow with what is merged. Readers of an older version have its segments until the grace of the vacuum is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.digest import MASK, digest_of
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.packed_files import Sized
from entrepot.broker.tiered.segment import Run, Segment, counted, times_of, whole
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.segment_writing import FAST, SegmentWriter
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.errors import Code

LEAST_SEGMENTS: Final = 8
"""Segments that are merged, whatever their sizes."""
FINAL_BYTES: Final = 32 << 20
"""Bytes from which a segment is final, and merged with no other."""
MOST_BYTES: Final = 80 << 20
"""Most bytes of the segments merged at a time, which are in memory, encoded, for it."""
MOST_SEGMENTS: Final = 256
"""Most segments merged at a time."""
LATE_MS: Final = 2 * 3600 * 1000
"""Age of a day's end, and of its last segment, in milliseconds, after which what is left of the day is merged: nothing
is added any more."""
BAND_ROWS, BAND_BYTES = 32_768, 16 << 20
"""Most rows of a band of a clustered segment, and about the most bytes; a larger row is alone. A reader of offsets has
one of each queue in memory."""
GROUP_ROWS: Final = 4_096
"""Most rows of a row group in a band: an eighth of it has a device's rows."""
PARTS: Final = 8
"""Row groups of a band that is full by its bytes."""
CACHE_BYTES: Final = 128 << 20
"""Bytes of decoded bands kept while segments are merged: one may have rows of many queues."""
SMALL: Final = 6
"""Level of compression of a final segment, which stays (zstd)."""


def merge(table: TopicTable, objects: ObjectStore, now_ms: int, *, clusters: bool = True) -> int:
    """Merge some segments of one day, where it is worth it; return their number. `clusters`: final ones have a
    device's rows beside each other. Raises TierError, ConflictError where another has changed the table meanwhile:
    nothing is merged then."""
    paths, is_over = _chosen(table, now_ms)
    if not paths:
        return 0
    merged = _merged(table, objects, paths, is_over=is_over, clusters=clusters)
    table.replace(paths, merged)
    return len(paths)


# -- what is merged ----------------------------------------------------------------------------------------------------


def _chosen(table: TopicTable, now_ms: int) -> tuple[list[str], bool]:
    """Return segments of one day that follow each other in each of their queues, and are worth merging; and whether
    the day is over."""
    days: dict[str, list[Sized]] = {}
    for file in table.snapshot.files.sizes():
        if file.size < FINAL_BYTES * 3 // 4:  # a final one may be smaller than its sources were
            days.setdefault(file.path.partition("/")[0], []).append(file)
    for files in (days[day] for day in sorted(days) if len(days[day]) > 1):
        files.sort(key=lambda file: (file.modification_time, file.path))
        runs = {file.path: table.runs(file.path) for file in files}
        ends_ms = (max(times_of(of_file)[1] for of_file in runs.values()) // DAY_MS + 1) * DAY_MS
        is_over = now_ms > max(ends_ms, files[-1].modification_time) + LATE_MS
        for start in range(len(files)):
            chosen = _following(files[start : start + MOST_SEGMENTS], runs)
            if len(chosen) > 1 and _is_worth_it(chosen, is_over=is_over):
                return [file.path for file in chosen], is_over
    return [], False


def _is_worth_it(files: Sequence[Sized], *, is_over: bool) -> bool:
    """True if no file in a merge is much larger than the others together: each would be written again and again."""
    total, largest = sum(file.size for file in files), max(file.size for file in files)
    if total >= FINAL_BYTES or is_over:
        return largest <= total * 3 // 4
    return len(files) >= LEAST_SEGMENTS and largest <= total // 4


def _following(files: Sequence[Sized], runs: Mapping[str, Sequence[Run]]) -> list[Sized]:
    """Return as many of the first as follow each other, within the limits."""
    chosen: list[Sized] = []
    ends: dict[int, int] = {}
    size = 0
    kinds: set[bool] = set()
    for file in files:
        size += file.size
        kinds |= {bool(run.rows) for run in runs[file.path] if run.rows < run.next_offset - run.first}
        # a run from before there were holes has some of which only the number is known: it is told from others by that
        if size > MOST_BYTES or len(kinds) > 1 or not _is_next(ends, runs[file.path]):
            break
        chosen.append(file)
    return chosen


def _is_next(ends: dict[int, int], runs: Sequence[Run]) -> bool:
    """True if runs follow the ends of their queues, which they then move."""
    for run in sorted(runs, key=lambda each: each.first):
        if ends.get(run.queue_id, run.first) != run.first:
            return False
        ends[run.queue_id] = run.next_offset
    return True


# -- the merged segment ------------------------------------------------------------------------------------------------


def _merged(table: TopicTable, objects: ObjectStore, paths: Sequence[str], *, is_over: bool, clusters: bool) -> Segment:
    sources = _Sources(objects, [(f"{table.root}/{path}", table.snapshot.files.size(path)) for path in paths])
    is_final = is_over or sources.size >= FINAL_BYTES
    layout = _Layout(SegmentWriter(sources.schema, SMALL if is_final else FAST), clusters=clusters and is_final)
    runs: dict[int, list[Run]] = {}
    for run in (run for path in paths for run in table.runs(path)):
        runs.setdefault(run.queue_id, []).append(run)
    rows = 0
    for queue_id, of_queue in sorted(runs.items()):
        count = digest = 0
        for band in _banded(sources.of_queue(queue_id)):
            count, digest = count + len(band), (digest + digest_of(band)) & MASK
            layout.add(band)
        if (count, digest) != counted(of_queue):
            raise _others(table)
        rows += count
    if rows != sources.rows:
        raise _others(table)
    return layout.finished([run for _, of_queue in sorted(runs.items()) for run in _joined(of_queue)])


def _others(table: TopicTable) -> TierError:
    text = f"segments of {table.root} have other messages than the table says"
    return TierError(text, Code.MESSAGE_CORRUPTED)


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of a queue with those as one that follow each other; a hole stays by itself."""
    found: list[list[Run]] = []
    for run in sorted(runs, key=lambda each: each.first):
        if found and bool(found[-1][-1].rows) == bool(run.rows):
            found[-1].append(run)
        else:
            found.append([run])
    return [whole(each) for each in found]


class _Sources:
    """Segments that are merged, in the order of their offsets. `files`: paths of objects, and their bytes."""

    def __init__(self, objects: ObjectStore, files: Sequence[tuple[str, int]]) -> None:
        self._reader = SegmentReader(objects, CACHE_BYTES, names=None)
        self._files = files
        self.size = sum(size for _, size in files)
        footers = [self._reader.footer(path, size).metadata for path, size in files]
        self.rows = sum(footer.num_rows for footer in footers)
        self.schema = pa.unify_schemas([footer.schema.to_arrow_schema().remove_metadata() for footer in footers])

    def of_queue(self, queue_id: int) -> Iterator[Any]:
        """Yield the rows of a queue, in order, with all columns of the merged segment."""
        for path, size in self._files:
            for number, band in enumerate(self._reader.footer(path, size).bands):
                if not band.may_have(queue_id, 0):
                    continue
                rows = self._reader.band(path, size, number)
                queues = rows.column("queue_id").to_numpy()
                start, stop = np.searchsorted(queues, (queue_id, queue_id + 1)).tolist()
                if start < stop:
                    yield self._widened(rows.slice(start, stop - start))

    def _widened(self, rows: Any) -> Any:
        """Return rows with nulls in the columns that only later segments have."""
        names = set(rows.column_names)
        columns = [
            rows.column(field.name) if field.name in names else pa.nulls(len(rows), field.type) for field in self.schema
        ]
        return pa.table(columns, schema=self.schema)


def _banded(parts: Iterator[Any]) -> Iterator[Any]:
    """Yield rows of a queue again, cut into bands."""
    taken: list[Any] = []
    rows = size = 0
    for part in parts:
        bodies = pc.fill_null(pc.binary_length(part.column("body")), 0).to_numpy().astype(np.int64)
        ends = np.cumsum(bodies + max(part.nbytes - int(bodies.sum()), 0) // len(part))
        at = 0
        while at < len(part):
            before = int(ends[at - 1]) if at else 0
            fitting = int(np.searchsorted(ends, before + BAND_BYTES - size, "right")) - at
            count = min(fitting, BAND_ROWS - rows, len(part) - at)
            if count <= 0 and taken:
                yield pa.concat_tables(taken).combine_chunks()
                taken, rows, size = [], 0, 0
                continue
            count = max(count, 1)
            taken.append(part.slice(at, count))
            at += count
            rows, size = rows + count, size + int(ends[at - 1]) - before
    if taken:
        yield pa.concat_tables(taken).combine_chunks()


class _Layout:
    """The order of rows in a segment: that of offsets, or by sub-topic in large bands of one queue."""

    def __init__(self, writer: SegmentWriter, *, clusters: bool) -> None:
        self._writer, self._clusters = writer, clusters
        self._is_clustered = False
        self._few: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, band: Any) -> None:
        """Add a band of the queue at hand, or of the next one."""
        is_full = band.nbytes > BAND_BYTES // 2 and len(band) > PARTS
        if not self._clusters or (len(band) < GROUP_ROWS and not is_full):
            self._few.append(band)
            self._rows, self._bytes = self._rows + len(band), self._bytes + band.nbytes
            if self._rows >= BAND_ROWS or self._bytes >= BAND_BYTES:
                self._write_few()
            return
        self._write_few()
        order = pc.sort_indices(band, [("sub_topic", "ascending"), ("queue_offset", "ascending")])
        if (np.diff(order.to_numpy().astype(np.int64)) < 0).any():
            self._is_clustered = True
            band = band.take(order)
        self._writer.add(band, min(GROUP_ROWS, max(len(band) // PARTS, 1)) if is_full else GROUP_ROWS)

    def _write_few(self) -> None:
        if self._few:
            self._writer.add(pa.concat_tables(self._few))
            self._few, self._rows, self._bytes = [], 0, 0

    def finished(self, runs: Sequence[Run]) -> Segment:
        self._write_few()
        return self._writer.finished(runs, is_clustered=self._is_clustered)
