"""ConsumeWindow: a group's progress on one message queue.

    base .. frontier    one status byte, one attempt count and one deadline per message, no objects
    before base         all done with (`base` is the committed offset)
    from frontier on    never looked at

Decisions (`claim`, `is_current`) read; `deliver`, `settle`, `change`, `skip`, `hold` and `admit` write, and are called
only with what a record of the log says, live and in recovery alike.  Time comes in.

The row (big-endian): as-of offset (8), since (8), last reset (8), base (8), count (4), deflated (1), then status bytes,
attempts (2 each) and deadlines (8 each), little-endian.

Invariants: attempts never fall; `base` never passes a message that is not settled; a reminder (`_by_deadline`) counts
only for the messages that still have the deadline it was made with.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

_ROW = struct.Struct(">QQQQI?")
PENDING, RELEASED, SETTLED, FILTERED = 0, 1, 2, 3
"""Delivered; waiting for its next delivery, or for its first (no attempts yet); consumed or moved elsewhere; not wanted
by the filter.  From SETTLED on a message is done with."""
DEFLATE_ABOVE = 16_384
MAX_SPREAD = 16
"""How many times its limit of unsettled messages a window may spread over: what a filter passed over lies between."""
COMPACT_AFTER = 4096
"""Settled messages at the head that are kept before the arrays are moved down."""


class ConsumeWindow:
    """See the module.

    `since`: the commit-log offset of the record that made it, and `reset_since` too if that was a reset: handles from
    before it are void.  `as_of`: records before it are in the row it came from.
    """

    __slots__ = (
        "_attempts",
        "_by_deadline",
        "_deadlines",
        "_due",
        "_head",
        "_origin",
        "_status",
        "_timers",
        "as_of",
        "is_changed",
        "reset_since",
        "since",
        "unsettled",
    )

    def __init__(self, base: int = 0, *, since: int = 0) -> None:
        self.since = since
        self.as_of = 0
        self.reset_since = 0
        self.is_changed = False
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

    def claim(self, now_ms: int, count: int, end: int, limit: int, visible_end: int) -> list[int]:
        """Offsets that may be delivered now: returned ones first, then new ones up to `end`.

        `limit` bounds how many may be unsettled.  What was admitted and cannot be read yet (`visible_end`) stays due.
        """
        self._collect_due(now_ms)
        offsets: list[int] = []
        due, status, deadlines, origin = self._due, self._status, self._deadlines, self._origin
        taken: set[int] = set()
        unread: list[int] = []
        while due and len(offsets) < count:
            offset = due.popleft()
            if offset >= visible_end:
                unread.append(offset)
                continue
            index = offset - origin
            if index >= self._head and status[index] < SETTLED and deadlines[index] <= now_ms and offset not in taken:
                offsets.append(offset)
                taken.add(offset)
        due.extend(unread)
        frontier = self.frontier
        last = min(end, frontier + min(count - len(offsets), limit - self.unsettled), self.base + limit * MAX_SPREAD)
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

    def deadline(self, offset: int) -> int:
        """When it becomes visible (again); 0 for one never delivered or long settled."""
        index = offset - self._origin
        return self._deadlines[index] if self._head <= index < len(self._deadlines) else 0

    def is_held_back(self, limit: int, now_ms: int) -> bool:
        """Whether the window spreads over `limit` messages, and its first one is with no consumer."""
        index = self._head
        return len(self._status) - index >= limit and (
            self._status[index] == RELEASED or self._deadlines[index] <= now_ms
        )

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
                and self._status[index] < SETTLED
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
        """One more attempt for each, invisible until the deadline.  What lies between new ones is not wanted."""
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
            elif index > len(status) + new:
                self._extend(new, PENDING, 1, deadline_ms)
                self._extend(index - len(status), FILTERED, 0, 0)
                new = 1
        if new:
            self._extend(new, PENDING, 1, deadline_ms)
        self.settle(())  # what was passed over may be the first
        self._remind(deadline_ms, offsets)

    def skip(self, end: int) -> None:
        """Nothing from the frontier up to an offset is wanted."""
        self._extend(end - self.frontier, FILTERED, 0, 0)
        self.settle(())

    def hold(self, end: int) -> None:
        """All from the frontier up to an offset waits for its first delivery."""
        self._extend(end - self.frontier, RELEASED, 0, 0)

    def admit(self, offset: int, attempts: int, deadline_ms: int) -> None:
        """A message that was delivered elsewhere before waits here from now on."""
        if offset >= self.frontier:
            self._extend(offset - self.frontier, FILTERED, 0, 0)
            self._extend(1, RELEASED, attempts, deadline_ms)
            self.settle(())
            self._remind(deadline_ms, (offset,))

    def _extend(self, count: int, status: int, attempts: int, deadline_ms: int) -> None:
        if count > 0:
            self._status.extend(bytes((status,)) * count)
            self._attempts.extend([attempts] * count)
            self._deadlines.extend([deadline_ms] * count)
            if status < SETTLED:
                self.unsettled += count

    def settle(self, offsets: Iterable[int]) -> None:
        """Consumed, or moved to the dead letters."""
        status, origin, head = self._status, self._origin, self._head
        for offset in offsets:
            index = offset - origin
            if head <= index < len(status) and status[index] < SETTLED:
                status[index] = SETTLED
                self.unsettled -= 1
        length = len(status)
        while head < length and status[head] >= SETTLED:
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
            if self._head <= index < len(self._status) and self._status[index] < SETTLED:
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
                    if index >= self._head and self._status[index] < SETTLED and self._deadlines[index] == deadline:
                        self._due.append(offset)

    # -- the row ---------------------------------------------------------------------------------------------------

    def row(self, as_of: int) -> bytes:
        """See the module."""
        head = self._head
        attempts, deadlines = self._attempts[head:], self._deadlines[head:]
        data = b"".join((self._status[head:], attempts.tobytes(), deadlines.tobytes()))
        deflated = len(data) > DEFLATE_ABOVE
        if deflated:
            data = zlib.compress(data, 1)
        return _ROW.pack(as_of, self.since, self.reset_since, self.base, len(attempts), deflated) + data

    @classmethod
    def restore(cls, row: bytes) -> ConsumeWindow:
        """The window of a row."""
        as_of, since, reset_since, base, count, deflated = _ROW.unpack_from(row)
        data = zlib.decompress(row[_ROW.size :]) if deflated else row[_ROW.size :]
        window = cls(base, since=since)
        window.as_of, window.reset_since = as_of, reset_since
        window._status[:] = data[:count]
        window._attempts.frombytes(data[count : 3 * count])
        window._deadlines.frombytes(data[3 * count :])
        by_deadline: dict[int, list[int]] = {}
        for index, value in enumerate(window._status):
            if value < SETTLED:
                window.unsettled += 1
                by_deadline.setdefault(window._deadlines[index], []).append(base + index)
        for deadline, offsets in by_deadline.items():
            window._remind(deadline, offsets)
        return window
