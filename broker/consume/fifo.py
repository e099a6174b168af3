"""FIFO: delivery in the order of message groups; it holds back a message group and never a queue.

A window of a FIFO group may have messages that were looked at and not delivered. They wait for an earlier message of
their message group. An offset's message group is read from the record once, and forgotten on restart.

Invariants: while a consumer has a message of a message group, no other pop gets one of that group. The delivered
messages of a group are a run of its unsettled messages from the first on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from entrepot.broker.consume.thawed import GoneError
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage, ordering_key

LOOK_AHEAD: Final = 4096
"""New messages looked at in one pop at most, before others get their turn."""
READ_BATCH: Final = 64

Read = Callable[[list[int]], "list[tuple[int, StoredMessage | CorruptedError]]"]
"""A reader of the messages at ascending offsets; it leaves out the last ones if not durable or thawed yet."""


@dataclass(slots=True)
class FifoClaim:
    """A pop's decision: messages to deliver, in order; offsets that the filter does not want; corrupted ones; spent
    ones; and the end of the new messages looked at."""

    messages: list[StoredMessage] = field(default_factory=list)
    unwanted: list[int] = field(default_factory=list)
    corrupted: list[int] = field(default_factory=list)
    spent: list[StoredMessage] = field(default_factory=list)
    looked_to: int = 0


class MessageGroups:
    """The message groups of one window's unsettled messages: offsets by message group, ascending. Messages without a
    message group are independent of each other, under `""`."""

    def __init__(self) -> None:
        self._offsets: dict[str, list[int]] = {}
        self.known_to = 0

    def add(self, message_group: str, offset: int) -> None:
        self._offsets.setdefault(message_group, []).append(offset)

    def claim(
        self,
        window: ConsumeWindow,
        read: Read,
        is_wanted: Callable[[StoredMessage], bool],
        *,
        count: int,
        end: int,
        max_attempts: int,
        now_ms: int,
        room: int,
    ) -> FifoClaim:
        """Decide a pop: first known messages, then new ones up to `end`, `room` of them at most."""
        claim = FifoClaim(looked_to=window.frontier)
        if not self._learn(window, read):
            return claim
        taken: set[int] = set()
        while len(claim.messages) < count:
            candidates = self._ready(window, taken, now_ms)[: count - len(claim.messages)]
            if not candidates:
                break
            taken.update(candidates)
            found = read(candidates)
            for offset, item in found:
                if isinstance(item, GoneError):
                    claim.unwanted.append(offset)
                elif isinstance(item, CorruptedError):
                    claim.corrupted.append(offset)
                elif not is_wanted(item):
                    claim.unwanted.append(offset)
                elif window.attempt(offset) >= max_attempts:
                    claim.spent.append(item)
                else:
                    claim.messages.append(item)
            if len(found) < len(candidates):
                return claim  # the others precede new ones, once they are thawed
        last = min(end, window.frontier + min(room, LOOK_AHEAD))
        self._look_ahead(window, read, is_wanted, claim, taken, count, last)
        claim.messages.sort(key=lambda message: message.queue_offset)
        return claim

    def _learn(self, window: ConsumeWindow, read: Read) -> bool:
        """Read the window's unsettled messages that are unknown here (after a restart); True if all could be read."""
        start = max(self.known_to, window.base)
        unknown = [offset for offset in range(start, window.frontier) if not window.is_settled(offset)]
        for at in range(0, len(unknown), READ_BATCH):
            batch = unknown[at : at + READ_BATCH]
            found = read(batch)
            for offset, item in found:
                self.add("" if isinstance(item, CorruptedError) else ordering_key(item), offset)
                self.known_to = offset + 1
            if len(found) < len(batch):
                return False
        self.known_to = max(self.known_to, window.frontier)
        return True

    def _ready(self, window: ConsumeWindow, taken: set[int], now_ms: int) -> list[int]:
        """Return offsets that may be delivered now, ascending."""
        ready: list[int] = []
        for message_group in list(self._offsets):
            live = [offset for offset in self._offsets[message_group] if not window.is_settled(offset)]
            if not live:
                del self._offsets[message_group]
                continue
            self._offsets[message_group] = live
            if message_group and any(window.is_in_flight(offset, now_ms) for offset in live):
                continue
            for offset in live:
                if offset in taken:
                    continue
                if window.deadline(offset) <= now_ms:
                    ready.append(offset)
                elif message_group:
                    break  # the others of its message group wait with it
        return sorted(ready)

    def _look_ahead(
        self,
        window: ConsumeWindow,
        read: Read,
        is_wanted: Callable[[StoredMessage], bool],
        claim: FifoClaim,
        taken: set[int],
        count: int,
        end: int,
    ) -> None:
        """Deliver new messages, or hold those with an earlier message of their message group outside this pop."""
        held = self._held(window, claim, taken)
        for offset, item in _in_batches(read, window.frontier, end):
            if len(claim.messages) >= count:
                break
            claim.looked_to = self.known_to = offset + 1
            if isinstance(item, GoneError):
                claim.unwanted.append(offset)
                continue
            if isinstance(item, CorruptedError):
                claim.corrupted.append(offset)
                self.add("", offset)
                continue
            self.add(ordering_key(item), offset)
            if ordering_key(item) in held:
                continue
            if is_wanted(item):
                claim.messages.append(item)
            else:
                claim.unwanted.append(offset)

    def _held(self, window: ConsumeWindow, claim: FifoClaim, taken: set[int]) -> set[str]:
        """Return message groups with a message that is neither settled nor taken by this pop."""
        corrupted = set(claim.corrupted)
        return {
            message_group
            for message_group, offsets in self._offsets.items()
            if message_group and any((o not in taken or o in corrupted) and not window.is_settled(o) for o in offsets)
        }


def _in_batches(read: Read, start: int, end: int) -> Iterator[tuple[int, StoredMessage | CorruptedError]]:
    while start < end:
        batch = read(list(range(start, min(start + READ_BATCH, end))))
        yield from batch
        if not batch:
            return
        start = batch[-1][0] + 1
