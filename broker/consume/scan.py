"""Scan: reads new messages of a queue through a filter.

The filter hash of the queue's entries rejects most unwanted messages, so only the rest is read.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

import structlog

from entrepot.broker.consume.thawed import Page
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import FilterKind, MessageFilter
from entrepot.domain.message import StoredMessage

CHUNK_ENTRIES: Final = 4096
MAX_SCANNED: Final = 131_072
"""Entries looked at in one go at most, before others get their turn."""
READ_BATCH: Final = 64

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Scanned:
    """The result: messages, the offsets to be delivered (also corrupted ones, which no filter can read), and its
    end."""

    next_offset: int
    offsets: list[int] = field(default_factory=list)
    messages: list[StoredMessage] = field(default_factory=list)
    corrupted: list[int] = field(default_factory=list)
    room_bytes: int = sys.maxsize
    """Room left for bodies, in bytes; the last one may take more."""


def scan_filtered(
    engine: StorageEngine,
    queue: ConsumeQueue,
    start: int,
    end: int,
    wanted: MessageFilter,
    count: int,
    room_bytes: int = sys.maxsize,
) -> Scanned:
    """Look at messages from `start` to `end` until `count` wanted ones or `room_bytes` are found."""
    found = Scanned(start, room_bytes=room_bytes)
    if wanted.expression.kind is FilterKind.SUB_TOPIC:
        return _scan_sub_topics(engine, queue, end, wanted, count, found)
    end = min(end, start + MAX_SCANNED)
    may_match = wanted.may_match
    while found.next_offset < end:
        first = found.next_offset
        entries = list(ENTRY.iter_unpack(queue.raw(first, min(end - first, CHUNK_ENTRIES))))
        candidates = [(first + at, entry) for at, entry in enumerate(entries) if may_match(entry[2])]
        found.next_offset = first + len(entries)
        if _take_enough(engine, queue, candidates, wanted, count, found):
            return found
        if not entries:
            break
    return found


def scan_page(page: Page, start: int, end: int, count: int, room_bytes: int) -> Scanned:
    """As `scan_filtered`, in a page of messages that the filter wants."""
    found = Scanned(min(page.end, end), room_bytes=room_bytes)
    for offset in sorted(each for each in page.items if start <= each < end):
        if len(found.offsets) >= count or found.room_bytes <= 0:
            found.next_offset = offset
            break
        item = page.items[offset]
        found.offsets.append(offset)
        if isinstance(item, CorruptedError):
            found.corrupted.append(offset)
        else:
            found.messages.append(item)
            found.room_bytes -= len(item.body)
    return found


def _scan_sub_topics(
    engine: StorageEngine, queue: ConsumeQueue, end: int, wanted: MessageFilter, count: int, found: Scanned
) -> Scanned:
    """As `scan_filtered`, by the index of sub-topics, which passes over millions at once."""
    while found.next_offset < end:
        wanting = count - len(found.offsets)
        limit = min(max(wanting + wanting // 8, READ_BATCH), CHUNK_ENTRIES)
        text = wanted.expression.text
        offsets, looked_to = engine.lookup.matching_offsets(queue, text, found.next_offset, limit)
        there = offsets[: bisect_left(offsets, end)]
        candidates = list(zip(there, queue.entries_at(there), strict=True))
        if _take_enough(engine, queue, candidates, wanted, count, found):
            return found
        found.next_offset = min(looked_to, end)
        if len(offsets) < limit:
            break  # the end, or enough for one turn
    return found


def _take_enough(
    engine: StorageEngine,
    queue: ConsumeQueue,
    candidates: list[tuple[int, tuple[int, int, int]]],
    wanted: MessageFilter,
    count: int,
    found: Scanned,
) -> bool:
    """Read candidates and keep the wanted ones; True if there are enough. No more are read than needed while all of
    them are wanted."""
    at, step = 0, count - len(found.offsets)
    while at < len(candidates):
        batch = candidates[at : at + min(max(step, 1), READ_BATCH)]
        before = len(found.offsets)
        for (queue_offset, _), item in zip(batch, engine.read_places(queue, batch), strict=True):
            if isinstance(item, CorruptedError):
                log.error("message is corrupted and held back", topic=queue.topic, error=item.message)
                found.corrupted.append(queue_offset)
                found.offsets.append(queue_offset)
            elif wanted.matches(item):
                found.messages.append(item)
                found.offsets.append(queue_offset)
                found.room_bytes -= len(item.body)
            if len(found.offsets) >= count or found.room_bytes <= 0:
                found.next_offset = queue_offset + 1
                return True
        at += len(batch)
        is_sure = len(found.offsets) - before == len(batch)
        step = count - len(found.offsets) if is_sure else READ_BATCH
    return False
