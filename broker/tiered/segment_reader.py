"""SegmentReader: messages of segments, by offset, with one cache for all readers.

The cache has whole row groups as columns, least recently used first to go, within a bound in bytes. Calls block: they
belong in a thread. Several threads may read at once.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entrepot.broker.ports.cold_reads import CorruptedRowError
from entrepot.broker.tiered.columns import SCHEMA, is_corrupted, rows_at
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.segment import read_footer
from entrepot.domain.errors import Code
from entrepot.domain.shard import local_queue

MAX_CACHE_BYTES: Final = 128 << 20
"""Most bytes of all row groups kept."""
MAX_FOOTERS: Final = 1024
"""Most segments with footers kept."""
MAX_READ_BYTES: Final = 16 << 20
"""Most bytes of bodies in one read; a single larger one comes alone."""
_PLACE: Final = ("queue_id", "queue_offset", "log_offset")
TAIL_BYTES: Final = 64 << 10
"""Bytes read at once from the end of a segment: the footer is in it, nearly always."""


class ObjectFile(io.RawIOBase):
    """An object as a file that Arrow reads. Its end is read once, for the footer."""

    def __init__(self, objects: ObjectStore, path: str, size: int) -> None:
        self._objects, self._path, self._size = objects, path, size
        self._at = 0
        self._tail_from = max(0, size - TAIL_BYTES)
        self._tail = b""

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        start, self._at = self._at, max(end, self._at)
        if end <= start:
            return b""
        if start >= self._tail_from:
            if not self._tail:
                [self._tail] = self._objects.get_ranges(self._path, [(self._tail_from, self._size)])
            return self._tail[start - self._tail_from : end - self._tail_from]
        [data] = self._objects.get_ranges(self._path, [(start, end)])
        return data


def open_segment(objects: ObjectStore, path: str, size: int) -> Any:
    """Return an object as a file that Arrow reads."""
    return pa.PythonFile(ObjectFile(objects, path, size), "r")


class _Rows:
    """A row group: its columns, and the places of its messages."""

    __slots__ = ("bytes", "corrupted", "is_used", "offsets", "queues", "sizes", "table")

    def __init__(self, table: Any) -> None:
        self.table = table
        self.is_used = False
        self.queues = table.column("queue_id").to_numpy()
        self.offsets = table.column("queue_offset").to_numpy()
        self.corrupted = is_corrupted(table)
        self.sizes = pc.fill_null(pc.binary_length(table.column("body")), 0).to_numpy()
        self.bytes: int = table.nbytes


class SegmentReader:
    """The reader. `max_bytes`: of the row groups kept."""

    def __init__(self, objects: ObjectStore, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._objects, self._max_bytes = objects, max_bytes
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, Any] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], _Rows] = OrderedDict()
        self._kept = 0
        self.wasted = 0
        """Row groups dropped before anybody used them, so far."""

    def rows(
        self,
        path: str,
        size: int,
        queue_id: int,
        first: int,
        most: int,
        wants: Callable[[Any], Any] | None = None,
    ) -> tuple[Any, int | None]:
        """Return up to `most` rows of a queue, of one row group, from an offset on, and the offset after the last one
        looked at. That is None at the end of the segment's run. The rows end before a corrupted one.

        `wants`: a mask of the rows (`table`) that are to become messages. Raises TierError, MissingObjectError;
        CorruptedRowError for a corrupted first row, which every filter wants.
        """
        found = self._group_with(path, size, queue_id, first)
        if found is None:
            return None, None
        group, rows, places = found
        rows.is_used = True
        is_last = group == self.footer(path, size).num_row_groups - 1
        return self._of_group(rows, places, most, wants, is_last=is_last)

    def load(self, path: str, size: int, queue_id: int, first: int) -> tuple[int, int, int] | None:
        """Load the row group that `rows` would read: return its number, the queue's first offset in it and the last.
        Raises TierError, MissingObjectError."""
        found = self._group_with(path, size, queue_id, first)
        if found is None:
            return None
        group, rows, places = found
        offsets = rows.offsets[rows.queues == queue_id]
        return group, int(offsets[0]), int(rows.offsets[places[-1]])

    def _group_with(self, path: str, size: int, queue_id: int, first: int) -> tuple[int, _Rows, Any] | None:
        """Return the row group with the first message of a queue from an offset on, and the messages' places in it."""
        footer = self.footer(path, size)
        for group in range(footer.num_row_groups):
            if _may_have(footer.row_group(group), queue_id, first):
                rows = self._group(path, size, group)
                places = np.flatnonzero((rows.queues == queue_id) & (rows.offsets >= first))
                if len(places):
                    return group, rows, places
        return None

    def passed(self, key: tuple[str, int]) -> None:
        """Note that a reader has passed a row group of one queue, without others in it: it is the first to go."""
        with self._lock:
            rows = self._groups.get(key)
            if rows is not None and rows.queues[0] == rows.queues[-1]:
                self._groups.move_to_end(key, last=False)

    def _of_group(
        self, rows: _Rows, places: Any, most: int, wants: Callable[[Any], Any] | None, *, is_last: bool
    ) -> tuple[Any, int | None]:
        found = places
        if wants is not None:
            found = places[(np.asarray(wants(rows.table)) | rows.corrupted)[places]]
        taken = found[:most]
        taken = taken[: max(int(np.searchsorted(np.cumsum(rows.sizes[taken]), MAX_READ_BYTES, "right")), 1)]
        if len(corrupted := np.flatnonzero(rows.corrupted[taken])):
            taken = taken[: corrupted[0]]
            if not len(taken):
                raise _corrupted(rows.table, int(found[0]))
        some = rows_at(rows.table, taken)
        if len(taken) < len(found):
            return some, int(rows.offsets[taken[-1]]) + 1
        ends_here = is_last or places[-1] < len(rows.queues) - 1
        return some, None if ends_here else int(rows.offsets[places[-1]]) + 1

    def footer(self, path: str, size: int) -> Any:
        """Return a segment's footer. Raises TierError."""
        with self._lock:
            found = self._footers.get(path)
            if found is not None:
                self._footers.move_to_end(path)
                return found
        try:
            found = read_footer(open_segment(self._objects, path, size))
        except ValueError as error:
            raise TierError(f"{path} is corrupted: {error}", Code.COLD_CORRUPTED) from None
        with self._lock:
            self._footers[path] = found
            while len(self._footers) > MAX_FOOTERS:
                self._footers.popitem(last=False)
        return found

    def group(self, path: str, size: int, number: int) -> Any:
        """Return all columns of a row group. Raises TierError."""
        rows = self._group(path, size, number)
        rows.is_used = True
        return rows.table

    def columns(self, path: str, size: int, number: int, names: list[str]) -> Any:
        """Return some columns of a row group, read by themselves if it is not kept. Raises TierError."""
        kept = self._kept_group((path, number))
        return self._read(path, size, number, names) if kept is None else kept.table.select(names)

    def _kept_group(self, key: tuple[str, int]) -> _Rows | None:
        with self._lock:
            found = self._groups.get(key)
            if found is not None:
                self._groups.move_to_end(key)
            return found

    def _read(self, path: str, size: int, number: int, names: list[str] | None = None) -> Any:
        source = open_segment(self._objects, path, size)
        try:
            with pq.ParquetFile(source, metadata=self.footer(path, size), pre_buffer=True) as file:
                return file.read_row_group(number, names or SCHEMA.names).combine_chunks()
        except TierError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise TierError(f"{path} cannot be read: {error}", Code.COLD_CORRUPTED) from None

    def _group(self, path: str, size: int, number: int) -> _Rows:
        key = path, number
        found = self._kept_group(key)
        if found is not None:
            return found
        rows = _Rows(self._read(path, size, number))
        with self._lock:
            if key not in self._groups:
                self._groups[key] = rows
                self._kept += rows.bytes
            while self._kept > self._max_bytes and len(self._groups) > 1:
                _, gone = self._groups.popitem(last=False)
                self._kept -= gone.bytes
                self.wasted += not gone.is_used
        return rows


def _corrupted(rows: Any, at: int) -> CorruptedRowError:
    """Return the refusal of a corrupted row."""
    queue_id, offset, place = (rows.column(name)[at].as_py() for name in _PLACE)
    return CorruptedRowError(local_queue(queue_id), offset, place)


def _may_have(group: Any, queue_id: int, first: int) -> bool:
    """True if messages of a queue from an offset on may be in a row group, by its statistics."""
    bounds = {}
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema in ("queue_id", "queue_offset") and column.statistics is not None:
            bounds[column.path_in_schema] = column.statistics.min, column.statistics.max
        if len(bounds) == 2:
            break
    if "queue_id" in bounds and not bounds["queue_id"][0] <= queue_id <= bounds["queue_id"][1]:
        return False
    is_alone = bounds.get("queue_id", (0, 1)) == (queue_id, queue_id)
    return not is_alone or "queue_offset" not in bounds or bounds["queue_offset"][1] >= first
