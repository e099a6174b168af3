"""ConsumeWindow: a group's progress on one message queue.

    base .. frontier    one status byte, one attempt count and one deadline per message, no objects
    before base         all done with (`base` is the committed offset)
    from frontier on    never looked at

Decisions (`claim`, `is_current`) read. `deliver`, `settle`, `change`, `skip`, `hold` and `admit` write, and only apply
a record of the log, live and in recovery alike. The time is an argument.

A delivery that its consumer suspended does not count as an attempt: the next one has its number again. Handles are
stamped with the number of deliveries, which tells the two apart.

Neighbours are ranges, and most of them are alike: then one comparison and one slice assignment cover all of them.
Others (settled in between, delivered unequally often) go message by message, with the same outcome.

Invariants: deliveries never decrease. `base` never passes a message that is not settled. A reminder counts only for
messages that still have its deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from entrepot.broker.consume.window_row import WindowRow
from entrepot.broker.consume.window_state import MAX_NUMBER, PENDING, RELEASED, SETTLED, WindowState

MAX_SPREAD = 16
"""Longest spread of a window, in limits of unsettled messages: messages that a filter rejected lie between."""


class DeliveredRun(NamedTuple):
    """Neighbours that were delivered equally often: first offset, count, stamp and attempts of each."""

    first: int
    length: int
    stamp: int
    attempt: int


class ConsumeWindow(WindowState):
    """A group's window on one message queue (see the module)."""

    __slots__ = ()

    def claim(self, now_ms: int, count: int, end: int, limit: int, visible_end: int) -> Sequence[int]:
        """Return offsets that may be delivered now: returned ones first, then new ones up to `end`. `limit` bounds the
        unsettled ones. Admitted messages that cannot be read yet (`visible_end`) stay due."""
        if self.has_due(now_ms):
            self._collect_due(now_ms)
        returned = self._claim_due(now_ms, count, visible_end) if self._due else []
        frontier = self.frontier
        last = min(end, frontier + min(count - len(returned), limit - self.unsettled), self.base + limit * MAX_SPREAD)
        new = range(frontier, max(last, frontier))
        return [*returned, *new] if returned else new

    def has_due(self, now_ms: int) -> bool:
        """True if a message that was delivered, or waits for its delivery, may be due."""
        next_ms = self._reminders.next_ms()
        return bool(self._due) or (next_ms is not None and next_ms <= now_ms)

    def _claim_due(self, now_ms: int, count: int, visible_end: int) -> list[int]:
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
        return offsets

    def delivered_runs(self, offsets: Sequence[int], most: int) -> list[DeliveredRun]:
        """Return offsets just delivered as runs of `most` messages."""
        if isinstance(offsets, range) and not self._uncounted and 0 < len(offsets) <= most:
            index, count = offsets.start - self._origin, len(offsets)
            number = self._attempts[index]
            if self._attempts[index : index + count].count(number) == count:
                return [DeliveredRun(offsets.start, count, self.stamp_of(number), number)]
        found: list[DeliveredRun] = []
        first = count = number = attempt = 0
        for offset in offsets:
            again, tried = self._deliveries(offset), self.attempt(offset)
            if count and offset == first + count and again == number and tried == attempt and count < most:
                count += 1
                continue
            if count:
                found.append(DeliveredRun(first, count, self.stamp_of(number), attempt))
            first, count, number, attempt = offset, 1, again, tried
        if count:
            found.append(DeliveredRun(first, count, self.stamp_of(number), attempt))
        return found

    def forget_due(self, now_ms: int) -> None:
        """Forget the list of due messages: a FIFO pop looks at everything unsettled."""
        self._collect_due(now_ms)
        self._due.clear()
        self.is_unlisted = True

    def end_fifo(self) -> None:
        """End FIFO for the group: held and due messages are to be listed again."""
        self.groups, self.is_unlisted = None, False
        for index in range(self._head, len(self._status)):
            if self._status[index] < SETTLED:
                self._reminders.add(self._deadlines[index], (self._origin + index,))

    def unclaim(self, offsets: Iterable[int]) -> None:
        """Make claimed messages that were not delivered due again."""
        frontier = self.frontier
        self._due.extendleft(reversed([offset for offset in offsets if offset < frontier]))

    def deadline(self, offset: int) -> int:
        """Return the time when a message becomes visible (again); 0 for one never delivered or long settled."""
        index = offset - self._origin
        return self._deadlines[index] if self._head <= index < len(self._deadlines) else 0

    def unsettled_from(self, offset: int) -> int:
        """Return how many messages from an offset on were looked at and are not settled."""
        if offset <= self.base:
            return self.unsettled
        return sum(status < SETTLED for status in self._status[offset - self._origin :])

    def is_in_flight(self, offset: int, now_ms: int) -> bool:
        """True if a consumer has the message."""
        index = offset - self._origin
        return (
            self._head <= index < len(self._status)
            and self._status[index] == PENDING
            and self._deadlines[index] > now_ms
        )

    def is_held_back(self, end: int, limit: int, now_ms: int) -> bool:
        """True if the window spreads over `limit` messages up to an offset, and no consumer has its first one."""
        index = self._head
        if end - self._origin - index < limit or index >= len(self._status):
            return False
        return self._status[index] == RELEASED or self._deadlines[index] <= now_ms

    def is_current(self, offset: int, stamp: int) -> bool:
        """True if a handle with this stamp may settle the message."""
        index = offset - self._origin
        return (
            self._head <= index < len(self._status)
            and self._status[index] == PENDING
            and self.stamp_of(self._attempts[index]) == stamp
        )

    def are_current(self, offsets: Sequence[int], stamp: int) -> bool:
        """True if handles with this stamp may settle all of these."""
        origin, status, attempts = self._origin, self._status, self._attempts
        first, last = min(offsets), max(offsets)
        if first < origin + self._head or last - origin >= len(status):
            return False
        number = stamp & MAX_NUMBER
        if self.stamp_of(number) != stamp:
            return False
        if last - first + 1 == len(offsets):
            index, end = first - origin, last - origin + 1
            return status[index:end] == bytes(end - index) and attempts[index:end].count(number) == end - index
        return [attempts[at - origin] for at in offsets if not status[at - origin]].count(number) == len(offsets)

    def offsets_of_try(self, attempt_id: str, now_ms: int) -> list[int]:
        """Return offsets of an attempt that its consumer still has."""
        _, stamps = self.tries.get(attempt_id, (0, ()))
        return [o for o, stamp in stamps if self.is_current(o, stamp) and self.is_in_flight(o, now_ms)]

    def next_due(self) -> int | None:
        """Return the time when a message in flight may come back (0: now); None if none is in flight."""
        if self._due:
            return 0
        return self._reminders.next_ms()

    def exhausted(self, now_ms: int, max_attempts: int) -> list[int]:
        """Return offsets whose last attempt ended unsettled: dead letters to be."""
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
        """Return how many messages are delivered, not settled, and not visible again yet."""
        if not self.unsettled:
            return 0
        if not (self.is_unlisted or self.has_due(now_ms)):  # none of their deadlines is over
            return self._status.count(PENDING, self._head)
        return sum(
            1
            for index in range(self._head, len(self._status))
            if self._status[index] == PENDING and self._deadlines[index] > now_ms
        )

    def unsettled_offsets(self, now_ms: int, first: int, end: int) -> tuple[list[int], list[int]]:
        """Return the offsets from `first` to `end` that were looked at and are not settled, ascending: those that wait,
        and those in flight."""
        begin, stop = max(first - self._origin, self._head), min(end - self._origin, len(self._status))
        if begin >= stop:
            return [], []
        status = np.frombuffer(bytes(self._status[begin:stop]), np.uint8)
        is_held = (status == PENDING) & (np.array(self._deadlines[begin:stop], np.int64) > now_ms)
        waiting, held = np.flatnonzero((status < SETTLED) & ~is_held), np.flatnonzero(is_held)
        at = self._origin + begin
        return (waiting + at).tolist(), (held + at).tolist()

    def _collect_due(self, now_ms: int) -> None:
        is_ordered = True
        for deadline, offsets in self._reminders.take_due(now_ms):
            due, before = self._due, self._due[-1] if self._due else -1
            for offset in offsets:
                index = offset - self._origin
                if index >= self._head and self._status[index] < SETTLED and self._deadlines[index] == deadline:
                    is_ordered = is_ordered and before < offset
                    before = offset
                    due.append(offset)
        if not is_ordered:  # returned messages have their old place among those to be delivered
            self._due = deque(sorted(self._due))

    # -- the row ---------------------------------------------------------------------------------------------------

    def row(self, as_of: int) -> bytes:
        """Return the row for `restore` (`WindowRow`)."""
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
        """Make a window from its row."""
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
            window._reminders.add(deadline, offsets)
        return window
