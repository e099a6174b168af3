"""Reading runs of records, through a filter if there is one."""

from __future__ import annotations

from broker.consume.scan import scan_filtered
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from broker.store.record_runs import entries_at, entries_between, read_records
from domain.errors import Code, CorruptedError, EntrepotError
from domain.expression.filter import FilterExpression, compile_filter
from protocols.remoting.records import MAX_RUN_BYTES, encode_run

MAX_FOUND: int = 4096
"""Named limit: of the messages that one run through a filter has."""


def read_run(
    engine: StorageEngine,
    queue: ConsumeQueue,
    from_offset: int,
    to_offset: int,
    max_bytes: int,
    filter: FilterExpression | None,
) -> bytes:
    """The records from an offset up to another that the filter wants, as many as have `max_bytes`."""
    check_inside(queue, from_offset)
    end = min(to_offset, queue.visible_offset)
    compiled = None if filter is None else compile_filter(filter)
    max_bytes = min(max(max_bytes, 1), MAX_RUN_BYTES)
    if compiled is None or compiled.accepts_all:
        entries = entries_between(queue, from_offset, end, max_bytes)
        next_offset = from_offset + len(entries)
    else:
        found = scan_filtered(engine, queue, from_offset, end, compiled, MAX_FOUND)
        if found.corrupted:
            raise CorruptedError(f"message {found.corrupted[0]} of {queue.topic}/{queue.queue_id} is harmed")
        entries, next_offset = entries_at(queue, found.offsets), found.next_offset
        fitting = int((entries["size"].cumsum() <= max_bytes).sum())
        if max(fitting, 1) < len(entries):
            entries = entries[: max(fitting, 1)]
            next_offset = int(entries["queue_offset"][-1]) + 1
    return encode_run(entries, read_records(engine, entries), (next_offset, queue.min_offset, queue.visible_offset))


def check_inside(queue: ConsumeQueue, offset: int) -> None:
    """Raise ILLEGAL_OFFSET unless the offset is one that can be read, or the end."""
    if not queue.min_offset <= offset <= queue.visible_offset:
        raise EntrepotError(
            Code.ILLEGAL_OFFSET, f"offset {offset} is outside of {queue.min_offset} to {queue.visible_offset}"
        )
