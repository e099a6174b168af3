"""SegmentReader: messages of segments, by offset, with one cache for all readers.

The cache has whole bands (`bands.py`) as columns, in order of offsets, least recently used first to go, within a bound
in bytes. Calls block: they belong in a thread. Several threads may read at once.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entrepot.broker.cold.reads import CorruptedRowError
from entrepot.broker.tiered.bands import PLACE, Band, bands_of, in_order
from entrepot.broker.tiered.columns import SCHEMA, is_corrupted, rows_at
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.segment import read_footer
from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.errors import Code

MAX_CACHE_BYTES: Final = 128 << 20
"""Most bytes of all bands kept."""
MAX_FOOTER_BYTES: Final = 16 << 20
"""Most bytes of all footers kept, as they are in the segments; in memory they are some times as large."""
MAX_READ_BYTES: Final = 16 << 20
"""Most bytes of bodies in one read; a single larger one comes alone."""
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


class Footer(NamedTuple):
    """The footer of a segment, and the bands that it tells of."""

    metadata: Any
    bands: list[Band]


class _Rows:
    """A band: its columns, and the places of its messages."""

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
    """The reader. `max_bytes`: of the bands kept. `names`: of the columns in these, by default those of messages."""

    def __init__(
        self, objects: ObjectStore, max_bytes: int = MAX_CACHE_BYTES, names: Sequence[str] | None = SCHEMA.names
    ) -> None:
        self._objects, self._max_bytes, self._names = objects, max_bytes, names
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._footer_bytes = 0
        self._bands: OrderedDict[tuple[str, int], _Rows] = OrderedDict()
        self._kept = 0
        self.wasted = 0
        """Bands dropped before anybody used them, so far."""

    def rows(
        self,
        path: str,
        size: int,
        queue_id: int,
        first: int,
        most: int,
        wants: Callable[[Any], Any] | None = None,
    ) -> tuple[Any, int | None]:
        """Return up to `most` rows of a queue, of one band, from an offset on, and the offset after the last one
        looked at. That is None at the end of the segment's run. The rows end before a corrupted one.

        `wants`: a mask of the rows (`table`) that are to become messages. Raises TierError, MissingObjectError;
        CorruptedRowError for a corrupted first row, which every filter wants.
        """
        found = self._band_with(path, size, queue_id, first)
        if found is None:
            return None, None
        number, rows, places = found
        rows.is_used = True
        is_last = number == len(self.footer(path, size).bands) - 1
        return self._of_band(rows, places, most, wants, is_last=is_last)

    def load(self, path: str, size: int, queue_id: int, first: int) -> tuple[int, int, int] | None:
        """Load the band that `rows` would read: return its number, the queue's first offset in it and the last.
        Raises TierError, MissingObjectError."""
        found = self._band_with(path, size, queue_id, first)
        if found is None:
            return None
        number, rows, places = found
        offsets = rows.offsets[rows.queues == queue_id]
        return number, int(offsets[0]), int(rows.offsets[places[-1]])

    def _band_with(self, path: str, size: int, queue_id: int, first: int) -> tuple[int, _Rows, Any] | None:
        """Return the band with the first message of a queue from an offset on, and the messages' places in it."""
        for number, band in enumerate(self.footer(path, size).bands):
            if band.may_have(queue_id, first):
                rows = self._band(path, size, number)
                places = np.flatnonzero((rows.queues == queue_id) & (rows.offsets >= first))
                if len(places):
                    return number, rows, places
        return None

    def passed(self, key: tuple[str, int]) -> None:
        """Note that a reader has passed a band of one queue, without others in it: it is the first to go."""
        with self._lock:
            rows = self._bands.get(key)
            if rows is not None and rows.queues[0] == rows.queues[-1]:
                self._bands.move_to_end(key, last=False)

    def _of_band(
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

    def footer(self, path: str, size: int) -> Footer:
        """Return a segment's footer. Raises TierError."""
        with self._lock:
            found = self._footers.get(path)
            if found is not None:
                self._footers.move_to_end(path)
                return found
        try:
            metadata = read_footer(open_segment(self._objects, path, size))
        except ValueError as error:
            raise TierError(f"{path} is corrupted: {error}", Code.COLD_CORRUPTED) from None
        found = Footer(metadata, bands_of(metadata))
        with self._lock:
            if path not in self._footers:
                self._footers[path] = found
                self._footer_bytes += metadata.serialized_size
            while self._footer_bytes > MAX_FOOTER_BYTES and len(self._footers) > 1:
                _, gone = self._footers.popitem(last=False)
                self._footer_bytes -= gone.metadata.serialized_size
        return found

    def band(self, path: str, size: int, number: int) -> Any:
        """Return a band, in order, with the columns that are kept. Raises TierError."""
        rows = self._band(path, size, number)
        rows.is_used = True
        return rows.table

    def columns(self, path: str, size: int, number: int, names: list[str]) -> Any:
        """Return some columns of a band, in order, read by themselves if it is not kept. Raises TierError."""
        kept = self._kept_band((path, number))
        if kept is not None:
            return kept.table.select(names)
        return self._read(path, size, number, list(dict.fromkeys((*PLACE, *names)))).select(names)

    def _kept_band(self, key: tuple[str, int]) -> _Rows | None:
        with self._lock:
            found = self._bands.get(key)
            if found is not None:
                self._bands.move_to_end(key)
            return found

    def _read(self, path: str, size: int, number: int, names: Sequence[str] | None) -> Any:
        """Return columns of a band, those with the place of a row among them."""
        footer = self.footer(path, size)
        groups = list(footer.bands[number].groups)
        source = open_segment(self._objects, path, size)
        try:
            with pq.ParquetFile(source, metadata=footer.metadata, pre_buffer=True) as file:
                return in_order(file.read_row_groups(groups, names).combine_chunks())
        except TierError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise TierError(f"{path} cannot be read: {error}", Code.COLD_CORRUPTED) from None

    def _band(self, path: str, size: int, number: int) -> _Rows:
        key = path, number
        found = self._kept_band(key)
        if found is not None:
            return found
        rows = _Rows(self._read(path, size, number, self._names))
        with self._lock:
            if key not in self._bands:
                self._bands[key] = rows
                self._kept += rows.bytes
            while self._kept > self._max_bytes and len(self._bands) > 1:
                _, gone = self._bands.popitem(last=False)
                self._kept -= gone.bytes
                self.wasted += not gone.is_used
        return rows


def _corrupted(rows: Any, at: int) -> CorruptedRowError:
    """Return the refusal of a corrupted row."""
    queue_id, offset, place = (rows.column(name)[at].as_py() for name in (*PLACE, "log_offset"))
    return CorruptedRowError(local_queue(queue_id), offset, place)
