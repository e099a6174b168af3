"""ConsumeWindow: a group's progress on one message queue.

    base .. frontier    one status byte, one attempt count and one deadline per message, no objects
    before base         all settled (`base` is the committed offset)
    from frontier on    never delivered

Decisions (`claim`, `is_current`) read; `deliver`, `settle`, `change` write, and are called only with what a record of
the log says, live and in recovery alike.  Time comes in.

Invariants: attempts never fall; `base` never passes a message that is not settled; a reminder (`_by_deadline`) counts
only for the messages that still have the deadline it was made with.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

PENDING, RELEASED, SETTLED = 0, 1, 2
COMPACT_AFTER = 4096
"""Settled messages at the head that are kept before the arrays are moved down."""


class ConsumeWindow:
    """See the module."""

    __slots__ = (
        "_attempts",
        "_by_deadline",
        "_deadlines",
        "_due",
        "_head",
        "_origin",
        "_status",
        "_timers",
        "unsettled",
    )

    def __init__(self, base: int = 0) -> None:
        self._origin = base
        self._head = 0
        self._status = bytearray()
        self._attempts = array("H")
        self._deadlines = array("q")
        self._timers: list[int] = []
        self._by_deadline: dict[int, list[Sequence[int]]] = {}
        self._due: deque[int] = deque()
        self.unsettled = 0

    @property
    def base(self) -> int:
        """The committed offset: everything before it is settled."""
        return self._origin + self._head

    @property
    def frontier(self) -> int:
        """The first offset that was never delivered."""
        return self._origin + len(self._status)

    def claim(self, now_ms: int, count: int, end: int, limit: int) -> list[int]:
        """Offsets that may be delivered now: returned ones first, then new ones up to `end`.

        `limit` bounds how far the frontier may run ahead of the base.
        """
        self._collect_due(now_ms)
        offsets: list[int] = []
        due, status, deadlines, origin = self._due, self._status, self._deadlines, self._origin
        taken: set[int] = set()
        while due and len(offsets) < count:
            offset = due.popleft()
            index = offset - origin
            if index >= self._head and status[index] != SETTLED and deadlines[index] <= now_ms and offset not in taken:
                offsets.append(offset)
                taken.add(offset)
        frontier = self.frontier
        last = min(end, frontier + count - len(offsets), self.base + limit)
        if last > frontier:
            offsets.extend(range(frontier, last))
        return offsets

    def unclaim(self, offsets: Iterable[int]) -> None:
        """Claimed ones that were not delivered after all: they are due again."""
        frontier = self.frontier
        self._due.extendleft(reversed([offset for offset in offsets if offset < frontier]))

    def attempt(self, offset: int) -> int:
        """Deliveries so far; 0 for one never delivered or long settled."""
        index = offset - self._origin
        return self._attempts[index] if self._head <= index < len(self._attempts) else 0

    def is_current(self, offset: int, attempt: int) -> bool:
        """Whether a handle with this attempt may settle the message."""
        index = offset - self._origin
        return (
            self._head <= index < len(self._status)
            and self._status[index] == PENDING
            and self._attempts[index] == attempt
        )

    def next_due(self) -> int | None:
        """When something in flight may come back (0: now); None if nothing is in flight."""
        if self._due:
            return 0
        return self._timers[0] if self._timers else None

    def exhausted(self, now_ms: int, max_attempts: int) -> list[int]:
        """Offsets whose last attempt has ended without being settled: dead letters to be."""
        self._collect_due(now_ms)
        found = []
        for offset in self._due:
            index = offset - self._origin
            if (
                index >= self._head
                and self._status[index] != SETTLED
                and self._deadlines[index] <= now_ms
                and self._attempts[index] >= max_attempts
            ):
                found.append(offset)
        return sorted(set(found))

    def in_flight(self, now_ms: int) -> int:
        """Delivered, not settled, and not visible again yet."""
        return sum(
            1
            for index in range(self._head, len(self._status))
            if self._status[index] == PENDING and self._deadlines[index] > now_ms
        )

    # -- changes, as the log says them ---------------------------------------------------------------------------

    def deliver(self, offsets: Sequence[int], deadline_ms: int) -> None:
        """One more attempt for each, invisible until the deadline."""
        status, attempts, deadlines, origin = self._status, self._attempts, self._deadlines, self._origin
        new = 0
        for offset in offsets:
            index = offset - origin
            if index == len(status) + new:
                new += 1
            elif self._head <= index < len(status):
                status[index] = PENDING
                attempts[index] = min(attempts[index] + 1, 65_535)
                deadlines[index] = deadline_ms
        if new:
            status.extend(bytes(new))
            attempts.extend([1] * new)
            deadlines.extend([deadline_ms] * new)
            self.unsettled += new
        self._remind(deadline_ms, offsets)

    def settle(self, offsets: Iterable[int]) -> None:
        """Consumed, or moved to the dead letters."""
        status, origin, head = self._status, self._origin, self._head
        for offset in offsets:
            index = offset - origin
            if head <= index < len(status) and status[index] != SETTLED:
                status[index] = SETTLED
                self.unsettled -= 1
        length = len(status)
        while head < length and status[head] == SETTLED:
            head += 1
        self._head = head
        if head > COMPACT_AFTER or head == length:
            del status[:head], self._attempts[:head], self._deadlines[:head]
            self._origin += head
            self._head = 0
        if not self.unsettled:
            self._timers.clear()
            self._by_deadline.clear()
            self._due.clear()

    def change(self, offsets: Sequence[int], deadline_ms: int, *, release: bool) -> None:
        """A new deadline; a released one's handle is void."""
        for offset in offsets:
            index = offset - self._origin
            if self._head <= index < len(self._status) and self._status[index] != SETTLED:
                self._deadlines[index] = deadline_ms
                if release:
                    self._status[index] = RELEASED
        self._remind(deadline_ms, offsets)

    def _remind(self, deadline_ms: int, offsets: Sequence[int]) -> None:
        batches = self._by_deadline.get(deadline_ms)
        if batches is None:
            self._by_deadline[deadline_ms] = [offsets]
            heappush(self._timers, deadline_ms)
        else:
            batches.append(offsets)

    def _collect_due(self, now_ms: int) -> None:
        timers = self._timers
        while timers and timers[0] <= now_ms:
            deadline = heappop(timers)
            for offsets in self._by_deadline.pop(deadline):
                for offset in offsets:
                    index = offset - self._origin
                    if index >= self._head and self._status[index] != SETTLED and self._deadlines[index] == deadline:
                        self._due.append(offset)

    # -- checkpoint ----------------------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        head = self._head
        return (
            self.base,
            bytes(self._status[head:]),
            self._attempts[head:].tobytes(),
            self._deadlines[head:].tobytes(),
        )

    @classmethod
    def restore(cls, state: Any) -> ConsumeWindow:
        base, status, attempts, deadlines = state
        window = cls(base)
        window._status[:] = status
        window._attempts.frombytes(attempts)
        window._deadlines.frombytes(deadlines)
        by_deadline: dict[int, list[int]] = {}
        for index, value in enumerate(window._status):
            if value != SETTLED:
                window.unsettled += 1
                by_deadline.setdefault(window._deadlines[index], []).append(base + index)
        for deadline, offsets in by_deadline.items():
            window._remind(deadline, offsets)
        return window
