"""ConsumeWindow: a group's progress on one message queue.

    base .. frontier    one status byte, one attempt count and one deadline per message, no objects
    before base         all done with (`base` is the committed offset)
    from frontier on    never looked at

Decisions (`claim`, `is_current`) read; `deliver`, `settle`, `change`, `skip`, `hold` and `admit` write, and are called
only with what a record of the log says, live and in recovery alike.  Time comes in.

A delivery that its consumer suspended does not count as an attempt: the next one has its number again.  What handles
are stamped with is the number of deliveries, which tells the two apart.

Invariants: deliveries never fall; `base` never passes a message that is not settled; a reminder (`_by_deadline`) counts
only for the messages that still have the deadline it was made with.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from broker.consume.window_row import Try, WindowRow

if TYPE_CHECKING:
    from broker.consume.fifo import MessageGroups

PENDING, RELEASED, SETTLED, FILTERED = 0, 1, 2, 3
"""Delivered; waiting for its next delivery, or for its first (no attempts yet); consumed or moved elsewhere; not wanted
by the filter.  From SETTLED on a message is done with."""
MAX_TRIES = 1024
MAX_UNCOUNTED = 0x7FFF
"""How many deliveries of one message may not count: those behind them do."""
DONE = bytes((SETTLED, FILTERED))
RUN = 256
"""Status bytes that are looked at together."""
ATTEMPT_BITS = 16
MAX_GENERATION = 0xFFFF
MAX_SPREAD = 16
"""How many times its limit of unsettled messages a window may spread over: what a filter passed over lies between."""
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
        "_uncounted",
        "as_of",
        "delivered_end",
        "is_changed",
        "is_unlisted",
        "generation",
        "groups",
        "since",
        "stated",
        "tries",
        "unsettled",
    )

    def __init__(self, base: int = 0, *, since: int = 0) -> None:
        self.since = self.stated = since
        self.as_of = 0
        self.generation = 0
        self.delivered_end = base
        self.tries: dict[str, Try] = {}
        self.groups: MessageGroups | None = None  # of a FIFO group's window, in memory only
        self.is_changed = False
        self.is_unlisted = False  # something may wait of which there is no reminder (FIFO looks at all there is)
        self._origin = base
        self._head = 0
        self._status = bytearray()
        self._attempts = array("H")
        self._deadlines = array("q")
        self._timers: list[int] = []
        self._by_deadline: dict[int, list[Sequence[int]]] = {}
        self._due: deque[int] = deque()
        self._uncounted: dict[int, tuple[int, int]] = {}  # by offset: how many, and the number of the last of them
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

    def forget_due(self, now_ms: int) -> None:
        """A FIFO pop looks at all that is unsettled: what is due needs no list."""
        self._collect_due(now_ms)
        self._due.clear()
        self.is_unlisted = True

    def end_fifo(self) -> None:
        """The group is no FIFO group any more: what waits, held or due, is to be listed again."""
        self.groups, self.is_unlisted = None, False
        for index in range(self._head, len(self._status)):
            if self._status[index] < SETTLED:
                self._remind(self._deadlines[index], (self._origin + index,))

    def unclaim(self, offsets: Iterable[int]) -> None:
        """Claimed ones that were not delivered after all: they are due again."""
        frontier = self.frontier
        self._due.extendleft(reversed([offset for offset in offsets if offset < frontier]))

    def attempt(self, offset: int) -> int:
        """Deliveries so far that count; 0 for one never delivered or long settled."""
        return self._deliveries(offset) - self._uncounted_of(offset)

    def _deliveries(self, offset: int) -> int:
        index = offset - self._origin
        return self._attempts[index] if self._head <= index < len(self._attempts) else 0

    def _uncounted_of(self, offset: int) -> int:
        return self._uncounted[offset][0] if offset in self._uncounted else 0

    def attempts_of(self, offsets: Sequence[int]) -> list[int]:
        """`attempt` of each."""
        found = self.deliveries_of(offsets)
        if self._uncounted:
            found = [count - self._uncounted_of(offset) for offset, count in zip(offsets, found, strict=True)]
        return found

    def deliveries_of(self, offsets: Sequence[int]) -> list[int]:
        """How often each was delivered."""
        attempts, origin, head = self._attempts, self._origin, self._head
        end = len(attempts)
        return [attempts[offset - origin] if head <= offset - origin < end else 0 for offset in offsets]

    def deadline(self, offset: int) -> int:
        """When it becomes visible (again); 0 for one never delivered or long settled."""
        index = offset - self._origin
        return self._deadlines[index] if self._head <= index < len(self._deadlines) else 0

    def unsettled_from(self, offset: int) -> int:
        """How many from an offset on were looked at and are not settled."""
        if offset <= self.base:
            return self.unsettled
        return sum(status < SETTLED for status in self._status[offset - self._origin :])

    def is_settled(self, offset: int) -> bool:
        """Whether it is done with."""
        index = offset - self._origin
        return index < self._head or (index < len(self._status) and self._status[index] >= SETTLED)

    def is_in_flight(self, offset: int, now_ms: int) -> bool:
        """Whether a consumer has it."""
        index = offset - self._origin
        return (
            self._head <= index < len(self._status)
            and self._status[index] == PENDING
            and self._deadlines[index] > now_ms
        )

    def is_held_back(self, end: int, limit: int, now_ms: int) -> bool:
        """Whether the window spreads over `limit` messages up to an offset, and its first one is with no consumer."""
        index = self._head
        return (
            index < len(self._status)
            and end - self.base >= limit
            and (self._status[index] == RELEASED or self._deadlines[index] <= now_ms)
        )

    def stamp(self, offset: int) -> int:
        """What a handle for the current delivery bears: deliveries begin anew with each reset, stamps do not."""
        return self.stamp_of(self._deliveries(offset))

    def stamp_of(self, delivery: int) -> int:
        """The stamp of a delivery."""
        return self.generation << ATTEMPT_BITS | delivery

    def is_current(self, offset: int, stamp: int) -> bool:
        """Whether a handle with this stamp may settle the message."""
        index = offset - self._origin
        return (
            self._head <= index < len(self._status)
            and self._status[index] == PENDING
            and self.generation << ATTEMPT_BITS | self._attempts[index] == stamp
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
                and self._attempts[index] - self._uncounted_of(offset) >= max_attempts
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
        """One more delivery for each, invisible until the deadline.  What lies between new ones is not wanted."""
        status, attempts, deadlines, origin = self._status, self._attempts, self._deadlines, self._origin
        new = 0
        if isinstance(offsets, range) and offsets[0] == self.frontier:
            new = len(offsets)
        for offset in offsets if not new else ():
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
        self._remind(deadline_ms, offsets)
        self.delivered_end = max(self.delivered_end, max(offsets) + 1)
        if status[self._head] >= SETTLED:  # what lay between is at the head
            self.settle(())

    def remember_try(self, attempt_id: str, offsets: Sequence[int], deadline_ms: int, now_ms: int) -> None:
        """What a consumer that names its attempts was just given: it may ask for it again until the deadline."""
        for known in [known for known, found in self.tries.items() if found[0] <= now_ms]:
            del self.tries[known]
        if len(self.tries) < MAX_TRIES:
            self.tries[attempt_id] = (deadline_ms, [(offset, self.stamp(offset)) for offset in offsets])

    def offsets_of_try(self, attempt_id: str, now_ms: int) -> list[int]:
        """What of an attempt is still with its consumer."""
        _, stamps = self.tries.get(attempt_id, (0, ()))
        return [o for o, stamp in stamps if self.is_current(o, stamp) and self.is_in_flight(o, now_ms)]

    def skip(self, end: int) -> None:
        """Nothing from the frontier up to an offset is wanted."""
        self._extend(end - self.frontier, FILTERED, 0, 0)
        self.settle(())

    def trim(self, end: int) -> None:
        """Nothing before an offset can be read any more."""
        self._extend(end - self.frontier, FILTERED, 0, 0)
        self.settle(range(self.base, end))

    def hold(self, end: int) -> None:
        """All from the frontier up to an offset waits for its first delivery."""
        self._extend(end - self.frontier, RELEASED, 0, 0)
        self.is_unlisted = True

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
        length = len(status)
        if isinstance(offsets, range) and self._settle_all(offsets):
            offsets = ()
        for offset in offsets:
            index = offset - origin
            if head <= index < length and status[index] < SETTLED:
                status[index] = SETTLED
                self.unsettled -= 1
                if self._uncounted:
                    self._uncounted.pop(offset, None)
        while head < length and status[head] >= SETTLED:
            run = status[head : head + RUN]
            head += len(run) - len(run.lstrip(DONE))
        self._head = head
        if head > COMPACT_AFTER or head == length:
            del status[:head], self._attempts[:head], self._deadlines[:head]
            self._origin += head
            self._head = 0
        if not self.unsettled:
            self._timers.clear()
            self._by_deadline.clear()
            self._due.clear()

    def _settle_all(self, offsets: range) -> bool:
        """Settle neighbours that are all with consumers, at once; says whether they are."""
        count, first = len(offsets), offsets.start - self._origin
        if self._uncounted or first < self._head or self._status[first : first + count] != bytes(count):
            return False
        self._status[first : first + count] = bytes((SETTLED,)) * count
        self.unsettled -= count
        return True

    def change(self, offsets: Sequence[int], deadline_ms: int, *, release: bool) -> None:
        """A new deadline; a released one's handle is void."""
        for offset in offsets:
            index = offset - self._origin
            if self._head <= index < len(self._status) and self._status[index] < SETTLED:
                self._deadlines[index] = deadline_ms
                if release:
                    self._status[index] = RELEASED
        self._remind(deadline_ms, offsets)

    def uncount(self, offsets: Sequence[int]) -> None:
        """The last delivery of each does not count as an attempt."""
        for offset in offsets:
            delivery, (count, last) = self._deliveries(offset), self._uncounted.get(offset, (0, 0))
            if delivery > last and count < MAX_UNCOUNTED and not self.is_settled(offset):
                self._uncounted[offset] = count + 1, delivery

    def _remind(self, deadline_ms: int, offsets: Sequence[int]) -> None:
        batches = self._by_deadline.get(deadline_ms)
        if batches is None:
            self._by_deadline[deadline_ms] = [offsets]
            heappush(self._timers, deadline_ms)
        else:
            batches.append(offsets)

    def _collect_due(self, now_ms: int) -> None:
        timers, is_ordered = self._timers, True
        while timers and timers[0] <= now_ms:
            deadline = heappop(timers)
            for offsets in self._by_deadline.pop(deadline):
                due, before = self._due, self._due[-1] if self._due else -1
                for offset in offsets:
                    index = offset - self._origin
                    if index >= self._head and self._status[index] < SETTLED and self._deadlines[index] == deadline:
                        is_ordered = is_ordered and before < offset
                        before = offset
                        due.append(offset)
        if not is_ordered:  # what returns has its old place among what is to be delivered
            self._due = deque(sorted(self._due))

    # -- the row ---------------------------------------------------------------------------------------------------

    def row(self, as_of: int) -> bytes:
        """What `restore` makes a window of (`WindowRow`)."""
        first = self._head
        return WindowRow(
            as_of,
            self.since,
            self.generation,
            self.base,
            self.delivered_end,
            self._status[first:],
            self._attempts[first:],
            self._deadlines[first:],
            self.tries,
            self._uncounted,
        ).encode()

    @classmethod
    def restore(cls, encoded: bytes) -> ConsumeWindow:
        """The window of a row."""
        row = WindowRow.decode(encoded)
        window = cls(row.base, since=row.since)
        window.as_of, window.generation, window.delivered_end = row.as_of, row.generation, row.delivered_end
        window._status, window._attempts, window._deadlines = row.status, row.attempts, row.deadlines
        window.tries, window._uncounted = row.tries, row.uncounted
        by_deadline: dict[int, list[int]] = {}
        for index, value in enumerate(window._status):
            if value < SETTLED:
                window.unsettled += 1
                by_deadline.setdefault(window._deadlines[index], []).append(row.base + index)
        for deadline, offsets in by_deadline.items():
            window._remind(deadline, offsets)
        return window
