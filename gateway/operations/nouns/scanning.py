"""Scans of a queue or a topic, within limits: messages by offset in either direction, or the newest of a topic.

A scan ends with enough matching messages, after so many messages or bytes, or at the end, and says where to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.query import MessageQuery

READ_AT_ONCE: Final = 64
MAX_SCANNED_BYTES: Final = 32 << 20
"""Limit of the bodies that one scan reads; the last read comes on top."""

Wants = Callable[[StoredMessage], bool]


@dataclass(slots=True)
class Scan:
    """A scan and its outcome.  `wants`: None for every message.  `limit`: most messages found.  `budget`: most messages
    looked at.  `next`: where the next scan goes on; None at the end."""

    wants: Wants | None
    limit: int
    budget: int
    found: list[StoredMessage] = field(default_factory=list)
    looked_at: int = 0
    read_bytes: int = 0
    next: str | None = None

    def may_go_on(self) -> bool:
        """True while it may look at more."""
        has_room = len(self.found) < self.limit and self.looked_at < self.budget
        return has_room and self.read_bytes < MAX_SCANNED_BYTES

    @property
    def room(self) -> int:
        """Number of messages to read next."""
        room = min(READ_AT_ONCE, self.budget - self.looked_at)
        return min(room, self.limit - len(self.found)) if self.wants is None else room

    def look_at(self, message: StoredMessage) -> None:
        self.looked_at += 1
        self.read_bytes += len(message.body)
        if self.wants is None or self.wants(message):
            self.found.append(message)


async def scan_forward(store: Store, topic: str, queue_id: int, scan: Scan, start: int, end: int) -> None:
    """Look at the messages from `start` on, before `end`."""
    at = start
    while at < end and scan.may_go_on():
        batch = await store.messages.read(topic, queue_id, at, min(scan.room, end - at))
        inside = [message for message in batch if message.queue_offset < end]
        for message in inside:
            if not scan.may_go_on():
                break
            scan.look_at(message)
            at = message.queue_offset + 1
        if not inside:
            return  # what was there is compacted away
        await asyncio.sleep(0)
    scan.next = str(at) if at < end else None


async def scan_backward(store: Store, topic: str, queue_id: int, scan: Scan, start: int, end: int) -> None:
    """Look at the messages below `end`, the last one first, down to `start`.  `next` is the next scan's end."""
    at = end
    while at > start and scan.may_go_on():
        low = max(start, at - scan.room)
        for message in reversed(await _between(store, topic, queue_id, low, at)):
            if not scan.may_go_on():
                break
            scan.look_at(message)
            at = message.queue_offset
        else:
            at = low
        await asyncio.sleep(0)
    scan.next = str(at) if at > start else None


async def _between(store: Store, topic: str, queue_id: int, low: int, high: int) -> list[StoredMessage]:
    """All messages of a range; a read of long bodies ends early and is continued."""
    found: list[StoredMessage] = []
    at = low
    while at < high:
        batch = await store.messages.read(topic, queue_id, at, high - at)
        if not batch:
            break
        found += [message for message in batch if message.queue_offset < high]
        at = batch[-1].queue_offset + 1
    return found


async def scan_newest(store: Store, scan: Scan, query: MessageQuery) -> None:
    """Look at the messages of a query, the newest first."""
    cursor = query.cursor
    while scan.may_go_on():
        count = min(scan.room, scan.limit - len(scan.found))
        page = await store.finder.query(MessageQuery(query.topic, query.key, query.from_ms, query.to_ms, count, cursor))
        for message in page.messages:
            scan.look_at(message)
        cursor = page.next
        if cursor is None:
            return
        await asyncio.sleep(0)
    scan.next = cursor
