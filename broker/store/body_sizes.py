"""Body sizes: the bytes of the bodies of many messages, without a read of each.

An entry of a queue has the size of its record.  The rest of a record is its head and its properties, whose length is
much the same for all messages of one publisher.  So the rest of some stands for that of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.record_runs import QUEUE_ENTRY, entries_at
from entrepot.protocols.wire.stored_record import BODY_SIZE_AT, unpack_body_size

SIZE_BYTES: Final = 4
"""Bytes that tell the length of a body, in the head of its record."""
SAMPLES: Final = 32
"""Most records that are looked at.  As many messages, or fewer, are told exactly."""
SPANS: Final = 16
SPAN_ENTRIES: Final = 1024
"""Parts of a long range whose entries are read, and the length of each: so many are a millisecond."""


def body_bytes(engine: StorageEngine, queue: ConsumeQueue, offsets: Sequence[int]) -> int:
    """Return the bytes of the bodies at ascending offsets of a queue, which are there.

    Exact for SAMPLES messages.  For more, the lengths around the bodies of some stand for all; in a range that is
    longer than all spans, the sizes of some records, too.
    """
    count = len(offsets)
    if not count:
        return 0
    looked_at = offsets if count <= SAMPLES else [offsets[at * count // SAMPLES] for at in range(SAMPLES)]
    rests = []
    for place, size, _ in queue.entries_at(looked_at):
        told = engine.commit_log.read_span(place + BODY_SIZE_AT, place + BODY_SIZE_AT + SIZE_BYTES)
        if len(told) == SIZE_BYTES:  # else the disk cannot read it
            rests.append(size - unpack_body_size(told)[0])
    if isinstance(offsets, range):
        records = _record_bytes(queue, offsets)
    else:
        records = int(entries_at(queue, list(offsets))["size"].sum())
    return max(records - count * sum(rests) // len(rests), 0) if rests else records


def _record_bytes(queue: ConsumeQueue, offsets: range) -> int:
    """Return the bytes of the records in a range of offsets; of a long one estimated from spans all over it."""
    count = len(offsets)
    if count <= SPANS * SPAN_ENTRIES:
        return _sizes(queue, offsets.start, count)
    step = (count - SPAN_ENTRIES) / (SPANS - 1)
    found = sum(_sizes(queue, offsets.start + int(at * step), SPAN_ENTRIES) for at in range(SPANS))
    return found * count // (SPANS * SPAN_ENTRIES)


def _sizes(queue: ConsumeQueue, start: int, count: int) -> int:
    return int(np.frombuffer(queue.raw(start, count), QUEUE_ENTRY)["size"].sum(dtype=np.int64))
