"""Runs: a part of a queue as the bytes of its records, for readers that decode many at once.

Nothing is decoded here; the reader checks that records are whole (`protocols.wire.records`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.protocols.wire.records import ENTRY

QUEUE_ENTRY: Final = np.dtype([("commit_log_offset", ">i8"), ("size", ">u4"), ("filter_hash", ">u8")])
MAX_RUN_ENTRIES: Final = 131_072
"""Most messages in one run."""
GAP_BYTES: Final = 16_384
SPAN_BYTES: Final = 1 << 20
"""Most bytes read with one call for neighbouring records."""


def entries_between(queue: ConsumeQueue, start: int, end: int, max_bytes: int) -> NDArray[Any]:
    """Return the entries of a part of a queue, as many as have `max_bytes`, at least one."""
    count = min(end - start, MAX_RUN_ENTRIES)
    raw = np.frombuffer(queue.raw(start, count) if count > 0 else b"", QUEUE_ENTRY)
    ends = np.cumsum(raw["size"], dtype=np.int64)
    fitting = max(int(np.searchsorted(ends, max_bytes, "right")), min(len(raw), 1))
    entries = np.empty(fitting, ENTRY)
    entries["queue_offset"] = np.arange(start, start + fitting)
    entries["commit_log_offset"] = raw["commit_log_offset"][:fitting]
    entries["size"] = raw["size"][:fitting]
    return entries


def entries_at(queue: ConsumeQueue, queue_offsets: list[int]) -> NDArray[Any]:
    """Return the entries at ascending offsets."""
    entries = np.empty(len(queue_offsets), ENTRY)
    found = queue.entries_at(queue_offsets)
    entries["queue_offset"] = queue_offsets
    entries["commit_log_offset"] = [entry[0] for entry in found]
    entries["size"] = [entry[1] for entry in found]
    return entries


def bytes_between(queue: ConsumeQueue, start: int, end: int) -> int:
    """Return the bytes of a part of a queue's records; estimated from its beginning for a long part."""
    raw = np.frombuffer(queue.raw(start, min(end - start, MAX_RUN_ENTRIES)), QUEUE_ENTRY)
    if not len(raw):
        return 0
    return int(raw["size"].sum(dtype=np.int64)) * (end - start) // len(raw)


def read_records(engine: StorageEngine, entries: NDArray[Any]) -> bytes:
    """Return the records of entries, one after the other. Raises MESSAGE_CORRUPTED where the log is too short."""
    if not len(entries):
        return b""
    begins = entries["commit_log_offset"].astype(np.int64)
    ends = begins + entries["size"]
    parts: list[bytes] = []
    for first, last in _spans(begins, ends, engine.commit_log.layout.segment_size_bytes):
        start = int(begins[first])
        data = engine.commit_log.read_span(start, int(ends[last]))
        if len(data) != ends[last] - start:
            parts += _alone(engine, begins[first : last + 1].tolist(), ends[first : last + 1].tolist())
            continue
        if bool((begins[first + 1 : last + 1] == ends[first:last]).all()):
            parts.append(data)
            continue
        within = zip(
            (begins[first : last + 1] - start).tolist(), (ends[first : last + 1] - start).tolist(), strict=True
        )
        parts += [data[begin:end] for begin, end in within]
    return b"".join(parts)


def _alone(engine: StorageEngine, begins: list[int], ends: list[int]) -> list[bytes]:
    """Read each record by itself: a neighbour may be the unreadable one. Raises MESSAGE_CORRUPTED at that one."""
    parts = []
    for begin, end in zip(begins, ends, strict=True):
        parts.append(engine.commit_log.read_span(begin, end))
        if len(parts[-1]) != end - begin:
            raise engine.commit_log.corrupted(begin, "the log is cut short")
    return parts


def _spans(begins: NDArray[np.int64], ends: NDArray[np.int64], segment_size: int) -> list[tuple[int, int]]:
    """Return runs of entries close together in one segment, as (first, last)."""
    far = (begins[1:] < ends[:-1]) | (begins[1:] - ends[:-1] > GAP_BYTES)
    far |= begins[1:] // segment_size != begins[:-1] // segment_size
    found: list[tuple[int, int]] = []
    first = 0
    for last in [*np.flatnonzero(far).tolist(), len(begins) - 1]:
        while int(ends[last] - begins[first]) > SPAN_BYTES and first < last:
            inside = first + int(np.searchsorted(ends[first : last + 1], begins[first] + SPAN_BYTES, "right"))
            inside = max(inside - 1, first)
            found.append((first, inside))
            first = inside + 1
        found.append((first, last))
        first = last + 1
    return found
