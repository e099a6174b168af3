"""Searching: cold messages of one topic by key, id, place in the log and time, the newest first.

The table's statistics exclude segments without a wanted message. Of the others the deciding columns are read, and only
wanted rows become messages. Calls block: they belong in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.broker.cold.reads import ColdFound, ColdQuery
from entrepot.broker.tiered.columns import CORRUPTED, FLAGS, to_messages
from entrepot.broker.tiered.cutting import day_of
from entrepot.broker.tiered.segment import runs_of, times_of
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.domain.message import StoredMessage

MAX_SEARCHED_ROWS: Final = 2_000_000
"""Messages that one question looks at, before it answers with its results so far and the place to go on."""
_NEWEST: Final = (1 << 63) - 1


class StoredSegment(NamedTuple):
    """A segment of a table: its path in the object store, its bytes, its statistics, and its least and greatest store
    time in epoch milliseconds."""

    path: str
    size: int
    stats: str | None
    times: tuple[int, int]


class _Candidate(NamedTuple):
    """A segment by its path and bytes, and a place of the log that no row of it lies after."""

    path: str
    size: int
    newest: int


def stored_segments(root: str, snapshot: Snapshot, query: ColdQuery) -> Iterator[StoredSegment]:
    """Yield the segments of a table of the days that a query asks for."""
    first = "" if query.from_ms is None else day_of(query.from_ms)
    last = "~" if query.to_ms is None else day_of(query.to_ms)
    for path in snapshot.files:
        if first <= path.partition("/")[0] <= last:
            file = snapshot.files[path]
            yield StoredSegment(f"{root}/{path}", file.size, file.stats, times_of(runs_of(file.tags)))


def search(
    reader: SegmentReader, segments: Iterable[StoredSegment], query: ColdQuery, below: Mapping[int, int]
) -> ColdFound:
    """Return messages of the segments that a query wants. Raises TierError. `below`: by the table's queue ids, the
    offset from which on the disk has its messages."""
    candidates = [each for segment in segments if (each := _candidate(segment, query)) is not None]
    candidates.sort(key=lambda candidate: -candidate.newest)
    found: list[StoredMessage] = []
    looked_at = 0
    for path, size, newest in candidates:
        if len(found) > query.limit and found[query.limit].commit_log_offset > newest:
            break
        if looked_at >= MAX_SEARCHED_ROWS:
            return _cut([each for each in found if each.commit_log_offset > newest], query.limit, newest + 1)
        rows, messages = _of_segment(reader, path, size, query, below)
        looked_at += rows
        found = sorted([*found, *messages], key=lambda message: -message.commit_log_offset)[: query.limit + 1]
    return _cut(found, query.limit, None)


def _cut(found: Sequence[StoredMessage], limit: int, before: int | None) -> ColdFound:
    """Return as many as are asked for; `before`: the place to go on if all of these are taken."""
    if len(found) > limit:
        return ColdFound(list(found[:limit]), found[limit - 1].commit_log_offset if limit else None)
    return ColdFound(list(found), before)


def _candidate(segment: StoredSegment, query: ColdQuery) -> _Candidate | None:
    """Return a segment that may have wanted messages, or None."""
    least, greatest = segment.times
    if (query.from_ms is not None and greatest < query.from_ms) or (query.to_ms is not None and least >= query.to_ms):
        return None
    bounds = json.loads(segment.stats or "{}")
    low, high = bounds.get("minValues", {}), bounds.get("maxValues", {})
    if query.message_id is not None:
        wanted = query.message_id.hex()
        if not low.get("message_id", "") <= wanted <= high.get("message_id", wanted):
            return None
    oldest, newest = low.get("log_offset", 0), high.get("log_offset", _NEWEST)
    if (query.before is not None and oldest >= query.before) or newest <= query.above:
        return None
    if query.place is not None and not oldest <= query.place <= newest:
        return None
    return _Candidate(segment.path, segment.size, newest)


def _of_segment(
    reader: SegmentReader, path: str, size: int, query: ColdQuery, below: Mapping[int, int]
) -> tuple[int, list[StoredMessage]]:
    """Return the number of rows looked at, and the wanted messages."""
    names = ["queue_id", "queue_offset", "store_time", "log_offset", FLAGS, *_deciding(query)]
    footer = reader.footer(path, size)
    found: list[StoredMessage] = []
    for band in range(len(footer.bands)):
        columns = reader.columns(path, size, band, names)
        places = np.flatnonzero(_wanted(columns, query, below))
        if len(places) > query.limit + 1:  # more than can be returned: the newest of them
            offsets = columns.column("log_offset").to_numpy()[places]
            places = places[np.sort(np.argpartition(-offsets, query.limit)[: query.limit + 1])]
        if len(places):
            rows = reader.band(path, size, band)
            found += to_messages(rows.take(pa.array(places)))
    return footer.metadata.num_rows, found


def _deciding(query: ColdQuery) -> list[str]:
    asked = {"topic": query.topic or None, "keys": query.key, "message_id": query.message_id}
    return [name for name, value in asked.items() if value is not None]


def _wanted(columns: Any, query: ColdQuery, below: Mapping[int, int]) -> Any:
    """Return a mask of the wanted rows."""
    offsets, log_offsets = columns.column("queue_offset").to_numpy(), columns.column("log_offset").to_numpy()
    queues = columns.column("queue_id").to_numpy()
    mask = np.zeros(len(offsets), dtype=bool)
    for queue_id, end in below.items():
        mask |= (queues == queue_id) & (offsets < end)
    mask &= (log_offsets > query.above) & (columns.column(FLAGS).to_numpy() & CORRUPTED == 0)
    if query.before is not None:
        mask &= log_offsets < query.before
    if query.place is not None:
        mask &= log_offsets == query.place
    times = pc.fill_null(columns.column("store_time").cast(pa.int64()), 0).to_numpy() // 1000
    if query.from_ms is not None:
        mask &= times >= query.from_ms
    if query.to_ms is not None:
        mask &= times < query.to_ms
    if query.topic:  # a message in a further queue here is found by its own topic alone, as on the disk
        mask &= _is(columns, "topic", query.topic)
    if query.message_id is not None:
        mask &= _is(columns, "message_id", query.message_id.hex())
    if query.key is not None:
        mask &= _having_key(columns.column("keys").combine_chunks(), query.key)
    return mask


def _is(columns: Any, name: str, value: str) -> Any:
    return pc.fill_null(pc.equal(columns.column(name), value), False).to_numpy(zero_copy_only=False)


def _having_key(keys: Any, key: str) -> Any:
    mask = np.zeros(len(keys), dtype=bool)
    parents = pc.list_parent_indices(keys).to_numpy()
    same = pc.equal(pc.list_flatten(keys), key).to_numpy(zero_copy_only=False)
    mask[parents[same]] = True
    return mask
