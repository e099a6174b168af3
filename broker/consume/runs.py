"""Reads runs of records, through a filter if there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrepot.broker.consume.places import check_inside
from entrepot.broker.consume.scan import scan_filtered
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.record_runs import entries_at, entries_between, read_records
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.protocols.wire.records import ENTRY, MAX_RUN_BYTES, encode_run

MAX_FOUND: int = 4096
"""Most messages in one run through a filter."""


def read_run(
    engine: StorageEngine,
    queue: ConsumeQueue,
    from_offset: int,
    to_offset: int,
    max_bytes: int,
    filter: FilterExpression | None,
    least: int | None = None,
) -> bytes:
    """Return the records in a range of offsets that the filter wants, as many as have `max_bytes`. `least`: the first
    readable offset, if it is not the disk's."""
    max_bytes = min(max(max_bytes, 1), MAX_RUN_BYTES)
    first = queue.min_offset if least is None else least
    entries, next_offset = find_entries(engine, queue, from_offset, to_offset, max_bytes, filter)
    return encode_run(entries, read_records(engine, entries), (next_offset, first, queue.visible_offset))


def read_whole_or_corrupted(
    engine: StorageEngine, queue: ConsumeQueue, from_offset: int, to_offset: int, max_bytes: int
) -> bytes:
    """As `read_run` for all records; one that the disk cannot read is there with bytes that fail their check."""
    try:
        return read_run(engine, queue, from_offset, to_offset, max_bytes, None)
    except CorruptedError:
        entries, next_offset = find_entries(engine, queue, from_offset, to_offset, min(max_bytes, MAX_RUN_BYTES), None)
    records = []
    for at in range(len(entries)):
        try:
            records.append(read_records(engine, entries[at : at + 1]))
        except CorruptedError:
            records.append(bytes(int(entries["size"][at])))
    return encode_run(entries, b"".join(records), (next_offset, queue.min_offset, queue.visible_offset))


def read_nothing(queue: ConsumeQueue, offset: int) -> bytes:
    """Return the run of a queue that has not reached an offset: the next run starts there."""
    return encode_run(np.empty(0, ENTRY), b"", (offset, queue.min_offset, offset))


def find_entries(
    engine: StorageEngine,
    queue: ConsumeQueue,
    from_offset: int,
    to_offset: int,
    max_bytes: int,
    filter: FilterExpression | None,
) -> tuple[NDArray[Any], int]:
    """Return a run's entries (`protocols.wire.records.ENTRY`), and the offset of the next run. Raises
    ILLEGAL_OFFSET, ILLEGAL_FILTER_EXPRESSION, MESSAGE_CORRUPTED."""
    check_inside(queue, from_offset)
    end = min(to_offset, queue.visible_offset)
    compiled = None if filter is None else compile_filter(filter)
    if compiled is None or compiled.accepts_all:
        entries = entries_between(queue, from_offset, end, max_bytes)
        return entries, from_offset + len(entries)
    found = scan_filtered(engine, queue, from_offset, end, compiled, MAX_FOUND)
    if found.corrupted:
        raise CorruptedError(f"message {found.corrupted[0]} of {queue.topic}/{queue.queue_id} is corrupted")
    entries = entries_at(queue, found.offsets)
    fitting = max(int((entries["size"].cumsum() <= max_bytes).sum()), 1)
    if fitting < len(entries):
        return entries[:fitting], int(entries["queue_offset"][fitting - 1]) + 1
    return entries, found.next_offset
