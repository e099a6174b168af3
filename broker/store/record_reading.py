"""Reads the messages of consume-queue entries, or their records as they lie in the log.

Neighbouring records are read with one call. A corrupted one is returned as an error in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.read_plan import reads_of
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.stored_record import InvalidRecordError, cut_records, decode_message

Entry = tuple[int, int, int]
"""Entry of a consume queue: commit-log offset, size, filter hash."""


def read_places(
    log: CommitLog, queue: ConsumeQueue, queue_offsets: Sequence[int], entries: list[Entry]
) -> list[StoredMessage | CorruptedError]:
    """Return the messages of a queue's entries, in order, each checked against its place."""
    found = _read_messages(log, entries)
    topic, queue_id = queue.topic, queue.queue_id
    for at, (queue_offset, item) in enumerate(zip(queue_offsets, found, strict=True)):
        if isinstance(item, StoredMessage) and (
            item.queue_offset != queue_offset or item.queue_id != queue_id or item.topic != topic
        ):
            found[at] = _at_further_place(item, queue, queue_offset)
    return found


def _at_further_place(item: StoredMessage, queue: ConsumeQueue, queue_offset: int) -> StoredMessage | CorruptedError:
    """Return the message as read in one of its further queues."""
    if (queue.topic, queue.queue_id, queue_offset) not in item.further_places:
        return CorruptedError(f"entry {queue_offset} of {queue.topic}/{queue.queue_id} names another message")
    item.queue_id, item.queue_offset = queue.queue_id, queue_offset
    return item


def _read_messages(log: CommitLog, entries: list[Entry]) -> list[StoredMessage | CorruptedError]:
    found: list[StoredMessage | CorruptedError] = []
    for start, end, run in reads_of(entries, log.layout.segment_size_bytes):
        data = log.read_span(start, end)
        for offset, size, _ in run:
            try:
                found.append(decode_message(data, offset - start, offset))
            except (InvalidRecordError, UnicodeDecodeError) as error:
                found.append(_alone(log, offset, size, error))
    return found


def read_records(
    log: CommitLog, entries: list[Entry], topic: str, queue_id: int, queue_offset: int
) -> list[bytes | CorruptedError]:
    """Return the records of neighbours in a queue, from an offset on."""
    found: list[bytes | CorruptedError] = []
    of_topic = topic.encode()
    for start, end, run in reads_of(entries, log.layout.segment_size_bytes):
        first = queue_offset + len(found)
        cut = cut_records(log.read_span(start, end), start, run, of_topic, queue_id, first)
        for at, (item, entry) in enumerate(zip(cut, run, strict=True), first):
            if not isinstance(item, bytes):  # a neighbour may be the unreadable one
                data = log.read_span(entry[0], entry[0] + entry[1])
                [item] = cut_records(data, entry[0], [entry], of_topic, queue_id, at)
            found.append(item if isinstance(item, bytes) else log.corrupted(entry[0], item))
    return found


def _alone(log: CommitLog, offset: int, size: int, error: Exception) -> StoredMessage | CorruptedError:
    """Read a message by itself: a neighbour may be the unreadable one."""
    try:
        return decode_message(log.read_span(offset, offset + size), 0, offset)
    except (InvalidRecordError, UnicodeDecodeError):
        return log.corrupted(offset, error)
