"""Rows of messages as an uploader makes them: by the records that a broker has of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.broker.store.record_trailer import Origin, encode_trailer
from entrepot.broker.tiered.columns import SCHEMA
from entrepot.broker.tiered.record_rows import rows_of_run
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import ENTRY, RecordColumns, decode_run, encode_run


def record_of(message: StoredMessage, origin: Origin | None = None) -> bytes:
    """The record of a message, as it lies in the commit log."""
    at = message.commit_log_offset
    trailer = encode_trailer(origin, message.further_places)
    return b"".join(
        encode_message(message, RecordKind.MESSAGE, at, 0, message.store_time_ms, message.queue_offset, *trailer)
    )


def run_of(records: Sequence[tuple[StoredMessage, bytes]]) -> bytes:
    """A run of messages' records, which may be corrupted."""
    places = [(message.queue_offset, message.commit_log_offset, len(record)) for message, record in records]
    return encode_run(np.array(places, ENTRY), b"".join(record for _, record in records), (0, 0, 0))


def rows_of(messages: Sequence[StoredMessage], origin: Origin | None = None) -> Any:
    """The rows of messages, queue by queue in their order."""
    parts = []
    for queue_id, group in groupby(messages, key=lambda message: message.queue_id):
        run = decode_run(run_of([(message, record_of(message, origin)) for message in group]))
        parts.append(rows_of_run(run, RecordColumns(run), 0, queue_id))
    return pa.concat_tables([SCHEMA.empty_table(), *parts])
