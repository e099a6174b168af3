"""WindowState: a window's arrays, changed by the records of the log (see `window.py`)."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

from entrepot.broker.consume.reminders import Reminders
from entrepot.broker.consume.window_row import Try

PENDING, RELEASED, SETTLED, FILTERED = 0, 1, 2, 3
"""Status of a message: delivered; waiting for its next or first delivery (no attempts yet); consumed or moved
elsewhere; not wanted by the filter. From SETTLED on it is done with."""
MAX_TRIES = 1024
MAX_UNCOUNTED = 0x7FFF
"""Deliveries of one message that may not count at most; further ones count."""
DONE = bytes((SETTLED, FILTERED))
RUN = 256
"""Status bytes compared at once."""
ATTEMPT_BITS = 16
MAX_NUMBER = 0xFFFF
"""Deliveries of one message that are told apart at most."""
MAX_GENERATION = 0xFFFF
COMPACT_AFTER = 4096
"""Settled messages at the head that are kept before the arrays are moved down."""


class WindowState:
    """The state of one window, written only by records, live and in recovery alike."""

    __slots__ = (
        "_attempts",
        "_deadlines",
        "_due",
        "_head",
        "_origin",
        "_reminders",
        "_status",
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
        self.groups: object = None  # `fifo.MessageGroups` of a FIFO group's window, in memory only
        self.is_changed = False
        self.is_unlisted = False  # a message may wait without a reminder (FIFO looks at all messages)
        self._origin = base
        self._head = 0
        self._status = bytearray()
        self._attempts = array("H")
        self._deadlines = array("q")
        self._reminders = Reminders()
        self._due: deque[int] = deque()
        self._uncounted: dict[int, tuple[int, int]] = {}  # by offset: count, and the number of the last of them
        self.unsettled = 0

    @property
    def base(self) -> int:
        """Committed offset: everything before it is settled."""
        return self._origin + self._head

    @property
    def frontier(self) -> int:
        """First offset that was never delivered."""
        return self._origin + len(self._status)

    def attempt(self, offset: int) -> int:
        """Return the deliveries so far that count; 0 for a message never delivered or long settled."""
        return self._deliveries(offset) - self._uncounted_of(offset)

    def _deliveries(self, offset: int) -> int:
        index = offset - self._origin
        return self._attempts[index] if self._head <= index < len(self._attempts) else 0

    def _uncounted_of(self, offset: int) -> int:
        return self._uncounted[offset][0] if offset in self._uncounted else 0

    def is_settled(self, offset: int) -> bool:
        """True for a settled message."""
        index = offset - self._origin
        return index < self._head or (index < len(self._status) and self._status[index] >= SETTLED)

    def stamp(self, offset: int) -> int:
        """Return the mark of the current delivery, in its handles: a reset restarts deliveries but not stamps."""
        return self.stamp_of(self._deliveries(offset))

    def stamp_of(self, delivery: int) -> int:
        """Return the stamp of a delivery."""
        return self.generation << ATTEMPT_BITS | delivery

    # -- changes, from the log -----------------------------------------------------------------------------------

    def deliver(self, offsets: Sequence[int], deadline_ms: int) -> None:
        """Apply one more delivery to each offset, invisible until the deadline. New ones in between are unwanted."""
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
                attempts[index] = min(attempts[index] + 1, MAX_NUMBER)
                deadlines[index] = deadline_ms
            elif index > len(status) + new:
                self._extend(new, PENDING, 1, deadline_ms)
                self._extend(index - len(status), FILTERED, 0, 0)
                new = 1
        if new:
            self._extend(new, PENDING, 1, deadline_ms)
        self._reminders.add(deadline_ms, offsets)
        last = offsets[-1] if isinstance(offsets, range) else max(offsets)
        self.delivered_end = max(self.delivered_end, last + 1)
        if status[self._head] >= SETTLED:  # messages in between are at the head
            self.settle(())

    def remember_try(self, attempt_id: str, offsets: Sequence[int], deadline_ms: int, now_ms: int) -> None:
        """Remember messages just given to a consumer that names its attempts: it may ask again until the deadline."""
        for known in [known for known, found in self.tries.items() if found[0] <= now_ms]:
            del self.tries[known]
        if len(self.tries) < MAX_TRIES:
            self.tries[attempt_id] = (deadline_ms, [(offset, self.stamp(offset)) for offset in offsets])

    def skip(self, end: int) -> None:
        """Mark everything from the frontier up to an offset as not wanted."""
        self._extend(end - self.frontier, FILTERED, 0, 0)
        self.settle(())

    def trim(self, end: int) -> None:
        """Settle everything before an offset: it can no longer be read."""
        self._extend(end - self.frontier, FILTERED, 0, 0)
        self.settle(range(self.base, end))

    def hold(self, end: int) -> None:
        """Hold everything from the frontier up to an offset for its first delivery."""
        self._extend(end - self.frontier, RELEASED, 0, 0)
        self.is_unlisted = True

    def admit(self, offset: int, attempts: int, deadline_ms: int) -> None:
        """Add a message that was delivered elsewhere before and waits here from now on."""
        if offset >= self.frontier:
            self._extend(offset - self.frontier, FILTERED, 0, 0)
            self._extend(1, RELEASED, attempts, deadline_ms)
            self.settle(())
            self._reminders.add(deadline_ms, (offset,))

    def _extend(self, count: int, status: int, attempts: int, deadline_ms: int) -> None:
        if count > 0:
            self._status.extend(bytes((status,)) * count)
            self._attempts.extend(array("H", (attempts,)) * count)
            self._deadlines.extend(array("q", (deadline_ms,)) * count)
            if status < SETTLED:
                self.unsettled += count

    def settle(self, offsets: Iterable[int]) -> None:
        """Settle messages that were consumed, or moved to the dead letters."""
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
            self._reminders.clear()
            self._due.clear()

    def _settle_all(self, offsets: range) -> bool:
        """Settle neighbours at once, if consumers have all of them; True if so."""
        count, first = len(offsets), offsets.start - self._origin
        if self._uncounted or first < self._head or self._status[first : first + count] != bytes(count):
            return False
        self._status[first : first + count] = bytes((SETTLED,)) * count
        self.unsettled -= count
        return True

    def change(self, offsets: Sequence[int], deadline_ms: int, *, release: bool) -> None:
        """Set a new deadline; a release voids the handle."""
        for offset in offsets:
            index = offset - self._origin
            if self._head <= index < len(self._status) and self._status[index] < SETTLED:
                self._deadlines[index] = deadline_ms
                if release:
                    self._status[index] = RELEASED
        self._reminders.add(deadline_ms, offsets)

    def uncount(self, offsets: Sequence[int]) -> None:
        """Uncount the last delivery of each message as an attempt."""
        for offset in offsets:
            delivery, (count, last) = self._deliveries(offset), self._uncounted.get(offset, (0, 0))
            if delivery > last and count < MAX_UNCOUNTED and not self.is_settled(offset):
                self._uncounted[offset] = count + 1, delivery
