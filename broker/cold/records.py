"""Records of cold messages, made anew for readers of runs: as they lay in the log, except for their trailers."""

from __future__ import annotations

from typing import Final

import numpy as np

from entrepot.broker.cold.reads import ColdPage, CorruptedRowError
from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.broker.store.record_trailer import encode_further
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import ENTRY, RECORD, encode_run
from entrepot.protocols.wire.stored_record import FURTHER_FLAG

MAX_COLD_RUN: Final = 4096
"""Most messages in one run of cold records."""


def encode_cold(page: ColdPage, least: int, end: int, to_offset: int, max_bytes: int) -> bytes:
    """Return a run of a page's messages below an offset: as many as have `max_bytes`, at least one. `least`, `end`:
    bounds of the queue."""
    records: list[bytes] = []
    entries: list[tuple[int, int, int]] = []
    size, next_offset = 0, min(page.next_offset, to_offset)
    for message in page.messages:
        if message.queue_offset >= to_offset:
            break
        record = record_of(message)
        if records and size + len(record) > max_bytes:
            next_offset = message.queue_offset
            break
        size += len(record)
        records.append(record)
        entries.append((message.queue_offset, message.commit_log_offset, len(record)))
    return encode_run(np.array(entries, ENTRY), b"".join(records), (next_offset, least, end))


def encode_corrupted(error: CorruptedRowError, least: int, end: int) -> bytes:
    """Return the run of a corrupted message: its place, with bytes that fail their check."""
    entry = (error.queue_offset, error.commit_log_offset, RECORD.itemsize)
    return encode_run(np.array([entry], ENTRY), bytes(RECORD.itemsize), (error.queue_offset + 1, least, end))


def record_of(message: StoredMessage) -> bytes:
    """Return the record of a cold message, as it lay in the log."""
    further = message.further_places
    return b"".join(
        encode_message(
            message,
            RecordKind.MESSAGE,
            message.commit_log_offset,
            message.commit_log_offset,
            message.store_time_ms,
            message.queue_offset,
            encode_further(further) if further else b"",
            FURTHER_FLAG if further else 0,
        )
    )
