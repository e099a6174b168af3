"""ColdTopic: the cold part of one topic, read by offset and by time. Calls block: they belong in a thread.

Offsets, queue ids and messages are the broker's; the table has the global queue ids (`domain.broker_of_queue`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from entrepot.broker.cold.reads import ColdFound, ColdPage, ColdQuery, CorruptedRowError
from entrepot.broker.tiered.columns import SCHEMA, to_messages
from entrepot.broker.tiered.marks import TableMark
from entrepot.broker.tiered.objects import MissingObjectError, TierError
from entrepot.broker.tiered.places import Place
from entrepot.broker.tiered.read_ahead import LoadedGroup, ReadAhead
from entrepot.broker.tiered.row_records import run_of_rows
from entrepot.broker.tiered.searching import search, stored_segments
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.broker.tiered.table import ColdBounds, TopicTable, bytes_of
from entrepot.domain.broker_of_queue import first_queue, local_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterKind, MessageFilter
from entrepot.domain.message import StoredMessage
from entrepot.domain.tiering import Hole
from entrepot.protocols.wire.records import decode_run

MAX_SCANNED: Final = 131_072
"""Messages that one question with a filter looks at, before others get their turn."""
_UNSIGNED: Final = (1 << 64) - 1


class ColdTopic:
    """A `GroupSource` of one topic. Several threads may ask at once. Every call raises TierError, with offsets for a
    file that is gone."""

    def __init__(
        self,
        table: TopicTable,
        reader: SegmentReader,
        number: int,
        begin: Callable[[Callable[[], None]], bool] = lambda _: False,
    ) -> None:
        """Make the reader. `begin`: of `ReadAhead`."""
        self._table, self._reader, self._base = table, reader, first_queue(number)
        self._lock, self._refreshing = threading.Lock(), threading.Lock()
        self._ahead = ReadAhead(self, begin)
        self._known: dict[int, ColdBounds] = {}
        self._holes: dict[int, tuple[Hole, ...]] = {}
        self._missing = 0

    def refresh(self, known: TableMark | None = None) -> TableMark:
        """Take over uploads and removals since, and return the table's mark. Others read meanwhile. Raises
        PRECONDITION_FAILED for a table that has less than is `known`."""
        with self._refreshing:
            newest = self._table.newest()
            if known is not None:
                known.check(self._table.root, self._table.url, newest)
            if newest is None:
                raise TierError(f"the table {self._table.root} is not open: it is not there")
            self._take(newest)
            return TableMark.of(newest)

    def _take(self, newest: Snapshot) -> None:
        with self._lock:
            self._table.take(newest)
            queues = self._table.progressing()
            self._known = {queue_id - self._base: self._table.bounds(queue_id) for queue_id in queues}
            self._missing = self._table.missing()
            self._holes = {queue_id - self._base: self._table.holes(queue_id) for queue_id in queues}

    def bounds(self, queue_id: int) -> ColdBounds | None:
        """Return the bounds as of the last refresh, without a request; None if no message of a queue is known."""
        return self._known.get(queue_id)

    @property
    def missing(self) -> int:
        """Lost messages within the table, as of the last refresh."""
        return self._missing

    def holes(self, queue_id: int) -> tuple[Hole, ...]:
        """Return the holes as of the last refresh, without a request."""
        return self._holes.get(queue_id, ())

    def read(self, queue_id: int, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        """Return up to `most` messages from an offset on that a filter wants; fewer where that is much work."""
        found: list[StoredMessage] = []
        offset, looked_at = first, 0
        while len(found) < most and looked_at < MAX_SCANNED:
            try:
                place, size = self._place(queue_id, offset)
                if place is None:
                    break
                if not place.rows:
                    offset = place.next_offset
                    continue
                start = max(offset, place.first)
                messages, following = self._read(place, size, queue_id, start, most - len(found), wanted)
            except EntrepotError:
                if offset > first:
                    break  # messages before it are good; the next read meets it first
                raise
            found += messages
            behind = place.next_offset if following is None else following
            looked_at += behind - start
            offset = behind
            if wanted is None and found:
                break
        self._ahead.was_read(queue_id, first, offset)
        return ColdPage(found, offset)

    def run(self, queue_id: int, first: int, to_offset: int, bounds: tuple[int, int], limits: tuple[int, int]) -> bytes:
        """Return records in a range of offsets; `bounds`: least and end of the queue, `limits`: of messages and of
        bytes."""
        place, size = self._place(queue_id, first)
        if place is None:
            return run_of_rows(SCHEMA.empty_table(), (first, *bounds), to_offset, 0)
        start = max(first, place.first)
        rows, following = self._rows(place, size, queue_id, start, limits[0])
        behind = place.next_offset if following is None else following
        run = run_of_rows(SCHEMA.empty_table() if rows is None else rows, (behind, *bounds), to_offset, limits[1])
        self._ahead.was_read(queue_id, first, decode_run(run).next_offset)
        return run

    # -- reading ahead -------------------------------------------------------------------------------------------

    @property
    def wasted(self) -> int:
        return self._reader.wasted

    def load(self, queue_id: int, offset: int) -> LoadedGroup | None:
        place, size = self._place(queue_id, offset)
        if place is None:
            return None
        path = f"{self._table.root}/{place.path}"
        found = self._reader.load(path, size, queue_id + self._base, offset)
        if found is None:
            return LoadedGroup(place.first, place.next_offset, (path, 0))  # none of its messages is left
        group, first, last = found
        return LoadedGroup(first, last + 1, (path, group))

    def passed(self, key: tuple[str, int]) -> None:
        self._reader.passed(key)

    def since(self, queue_id: int, time_ms: int) -> int:
        """Return the first offset stored at a time or later; the end where all cold ones are older."""
        with self._lock:
            offset = self._table.since(queue_id + self._base, time_ms)
            end = self._table.bounds(queue_id + self._base).next_offset
        while offset < end:
            try:
                found = self.read(queue_id, offset, 1024)
            except CorruptedRowError as error:
                found = ColdPage([], error.queue_offset + 1)
            for message in found.messages:
                if message.store_time_ms >= time_ms:
                    return message.queue_offset
            if found.next_offset <= offset:
                break
            offset = found.next_offset
        return end

    def bytes_between(self, queue_id: int, first: int, end: int) -> int:
        """Return about how many bytes in the object store the messages of a range have."""
        with self._lock:
            snapshot, places = self._table.snapshot, self._table.places(queue_id + self._base, first, end)
        return bytes_of(snapshot, places, first, end)

    def search(self, query: ColdQuery, below: Mapping[int, int]) -> ColdFound:
        """Return the messages of a query. `below`: by queue, the offset from which on the disk has them."""
        with self._lock:
            snapshot, root = self._table.snapshot, self._table.root
        segments = stored_segments(root, snapshot, query)
        found = search(self._reader, segments, query, {self._base + queue: end for queue, end in below.items()})
        _make_local(found.messages)
        return found

    def behind(self, queue_id: int, commit_log_offset: int) -> int:
        """Return the first offset recorded at or after a place of the log; the end where there is none."""
        with self._lock:
            bounds = self._table.bounds(queue_id + self._base)
        low, high = bounds.first, bounds.next_offset
        while low < high:
            middle = (low + high) // 2
            place, following = self._log_place(queue_id, middle)
            if place < commit_log_offset:
                low = following
            else:
                high = middle
        return low

    def _log_place(self, queue_id: int, offset: int) -> tuple[int, int]:
        """Return the log place of a queue's first record from an offset on, and the offset after it."""
        try:
            page = self.read(queue_id, offset, 1)
        except CorruptedRowError as corrupted:
            return corrupted.commit_log_offset or 0, corrupted.queue_offset + 1
        if not page.messages:  # from here on there is none
            return sys.maxsize, page.next_offset
        return page.messages[0].commit_log_offset, page.messages[0].queue_offset + 1

    def _place(self, queue_id: int, offset: int) -> tuple[Place | None, int]:
        """Return the place to read, and the size of its object; a refresh may take it from the table right after."""
        with self._lock:
            place = self._table.place(queue_id + self._base, offset)
            return place, 0 if place is None else self._table.snapshot.files.size(place.path)

    def _rows(
        self, place: Place, size: int, queue_id: int, offset: int, most: int, wants: Callable[[Any], Any] | None = None
    ) -> tuple[Any, int | None]:
        """Return rows of a run from an offset on, and the offset to go on from; None: the run is at its end."""
        path = f"{self._table.root}/{place.path}"
        try:
            rows, following = self._reader.rows(path, size, queue_id + self._base, offset, most, wants)
        except MissingObjectError:
            raise _gone(place, queue_id, path) from None
        except CorruptedRowError as corrupted:
            if corrupted.queue_offset < place.next_offset:
                raise
            return None, None  # it is of a further run
        if following is not None and following >= place.next_offset:
            following = None
        if rows is not None and len(rows):  # the segment may have a further run of the queue, after a hole
            rows = rows[: int(np.searchsorted(rows.column("queue_offset").to_numpy(), place.next_offset))]
        return rows, following

    def _read(
        self, place: Place, size: int, queue_id: int, offset: int, most: int, wanted: MessageFilter | None
    ) -> tuple[list[StoredMessage], int | None]:
        rows, following = self._rows(place, size, queue_id, offset, most, None if wanted is None else mask_of(wanted))
        messages = [] if rows is None else to_messages(rows)
        _make_local(messages)
        if wanted is not None:
            messages = [message for message in messages if wanted.matches(message)]
        return messages, following


def _make_local(messages: Iterable[StoredMessage]) -> None:
    """Make messages of a table name the queues as their broker does."""
    for message in messages:
        message.queue_id = local_queue(message.queue_id)
        if message.further_queues:
            message.further_queues = tuple((t, local_queue(q)) for t, q in message.further_queues)
            message.further_places = tuple((t, local_queue(q), at) for t, q, at in message.further_places)


def _gone(place: Place, queue_id: int, path: str) -> TierError:
    text = f"messages {place.first} to {place.next_offset} of queue {queue_id} were in {path}, which is gone"
    return TierError(text, Code.COLD_CORRUPTED)


def mask_of(wanted: MessageFilter) -> Callable[[Any], Any]:
    """Return a mask of the rows that may match, by a column with few values: only they become messages."""
    if mask_column(wanted) == "sub_topic":
        return lambda table: _mask(table, "sub_topic", lambda name: not name or wanted.matches(_Named(name)))
    return lambda table: _mask(table, "filter_hash", lambda value: wanted.may_match(value & _UNSIGNED))


def mask_column(wanted: MessageFilter) -> str:
    """Return the column by which `mask_of` decides."""
    has_wildcards = wanted.expression.kind is FilterKind.SUB_TOPIC and wanted.exact_sub_topic is None
    return "sub_topic" if has_wildcards else "filter_hash"


class _Named(StoredMessage):
    """The part of a message that filters of sub-topics look at."""

    def __init__(self, name: str) -> None:
        super().__init__("", b"", name)


def _mask(table: Any, name: str, may_match: Callable[[Any], bool]) -> Any:
    encoded = table.column(name).combine_chunks().dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    matches = np.array([may_match(value) for value in encoded.dictionary.to_pylist()], dtype=bool)
    return matches[encoded.indices.to_numpy()] if len(matches) else np.zeros(len(table), dtype=bool)
