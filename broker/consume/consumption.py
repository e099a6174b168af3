"""Consumption: pop, acknowledge, change invisible duration and reject, decided here and kept as log records.

Everything is synchronous: a call decides on the windows, appends its decision and returns. The caller answers once the
log is durable up to `engine.end` as of the return.

A pop also claims messages *taken* but not durable yet. Its DELIVER record lies after the messages, so one sync makes
both durable. Nothing is read or told before that.

ADR 5: pop state as windows. Invariant: a crash undoes nothing that was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.fifo import FifoClaim, MessageGroups
from entrepot.broker.consume.handing_out import ClaimedRun, HandingOut
from entrepot.broker.consume.scan import Scanned, scan_filtered, scan_page
from entrepot.broker.consume.window import MAX_SPREAD, ConsumeWindow
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.message import StoredMessage, is_over
from entrepot.domain.names import (
    is_retry_topic,
    retry_topic,
)
from entrepot.domain.ports import MAX_POP_BYTES
from entrepot.domain.topic import Topic, TopicType
from entrepot.protocols.wire.record_run import RETRY_QUEUE


@dataclass(slots=True)
class PopTerms:
    """The complete terms of one pop."""

    group: ConsumerGroup
    count: int
    deadline_ms: int
    now_ms: int
    filter: MessageFilter | None = None
    attempt_id: str = ""
    is_again: bool = False
    expired_only: bool = False
    lifetime_ms: int | None = None
    room_bytes: int = MAX_POP_BYTES
    """Bytes that the pop may still take."""

    def taken(self, sizes: Sequence[int]) -> int:
        """Return how many of the next messages, of these sizes, the pop takes."""
        if (total := sum(sizes)) <= self.room_bytes:
            self.room_bytes -= total
            return len(sizes)
        count = 0
        for size in sizes:
            if size > self.room_bytes < MAX_POP_BYTES:
                break
            self.room_bytes -= size
            count += 1
        return count


@dataclass(slots=True)
class Consumption(HandingOut):
    """Pop consumption over one engine."""

    _turn: int = 0

    # -- pop -----------------------------------------------------------------------------------------------------

    def claim(self, topic: Topic, terms: PopTerms) -> list[ClaimedRun]:
        """Claim messages over all queues of the topic, starting at another queue each time; those in the group's retry
        topic come first. Raises TOO_MANY_REQUESTS at the group's limit."""
        group, now_ms = terms.group, terms.now_ms
        windows = self.windows(topic, group, now_ms)
        if group.fifo and terms.attempt_id and (again := self._claim_again(topic, windows, terms)):
            return again
        if terms.is_again:
            return []
        retries = self.retry_windows(group.name, topic.name)
        if retries:
            self._trim(retry_topic(group.name, topic.name), group, retries, now_ms)
        self._keep_moving(topic, windows, retries, group, now_ms)
        self._apply_limit(topic, windows, terms)
        claimed = self._claim_retries(topic, retries, terms) if retries else []
        self._turn += 1
        wanted = terms.count - _messages(claimed)
        for step in range(topic.queues):
            if wanted <= 0 or terms.room_bytes <= 0:
                break
            queue_id = (self._turn + step) % topic.queues
            if topic.type is TopicType.PRIORITY:
                queue_id = topic.queues - 1 - step
            queue = self.engine.dispatcher.queue(topic.name, queue_id)
            try:
                found = self._claim_of(queue, windows[queue_id], terms, queue_id, wanted)
            except EntrepotError:
                if not claimed:
                    raise
                break  # messages of the other queues are delivered, and must be handed out
            claimed += found
            wanted -= _messages(found)
        return claimed

    def _claim_retries(self, topic: Topic, retries: dict[int, ConsumeWindow], terms: PopTerms) -> list[ClaimedRun]:
        claimed: list[ClaimedRun] = []
        for queue_id, window in retries.items():
            marked = RETRY_QUEUE | queue_id
            queue = self._queue_of(topic.name, terms.group.name, marked)
            wanted = terms.count - _messages(claimed)
            if wanted:
                claimed += self._claim_of(queue, window, terms, marked, wanted)
        return claimed

    def _claim_of(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, marked_id: int, count: int
    ) -> list[ClaimedRun]:
        """Deliver up to `count` messages of one queue; `marked_id` is the queue id in the handles."""
        if terms.group.fifo:
            return self._claim_fifo(queue, window, terms, marked_id, count)
        if window.is_unlisted:
            window.end_fifo()
        end = queue.visible_offset if terms.expired_only else queue.max_offset
        if terms.filter is not None:
            end = window.frontier
        limit = self.settings.max_in_flight_per_queue
        visible_end = queue.visible_offset if window.has_due(terms.now_ms) else 0
        while offsets := window.claim(terms.now_ms, count, end, limit, visible_end):
            if window.base < queue.min_offset:
                offsets = self._there(queue, window, terms, offsets)
                if not offsets and not self.thawed.missed:
                    continue  # all of them were gone
            elif isinstance(offsets, range) and not terms.expired_only:
                return self._claim_new(queue, window, terms, marked_id, offsets)
            offsets = self._cut_at_room(queue, window, terms, offsets)
            if terms.filter is not None and offsets:
                offsets = self._wanted_again(queue, terms, offsets, terms.filter)
                if not offsets:
                    continue  # none of them was wanted, and they are settled
            if terms.expired_only:
                offsets = self._cut_at_first_alive(queue, window, terms, offsets)
            if not offsets:
                return []
            try:
                offsets = self._deliver(queue, window, terms, offsets)
            except EntrepotError:
                window.unclaim(offsets)  # no room for the record: they are still to be delivered
                raise
            if offsets:
                return self._claimed(queue, window, marked_id, offsets)
        if terms.filter is None or marked_id & RETRY_QUEUE:
            return []
        return self._claim_filtered(queue, window, terms, terms.filter, count)

    def _claim_new(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, marked_id: int, offsets: range
    ) -> list[ClaimedRun]:
        """Deliver neighbours never delivered before, as far as the pop may take them into memory."""
        first = offsets.start
        entries = queue.claimed_entries(first, len(offsets))
        taken = terms.taken([size for _, size, _ in entries])
        if not taken:
            return []
        del entries[taken:]
        group = terms.group.name
        self._append(ConsumptionOp.DELIVER, group, queue, range(first, first + taken), terms.deadline_ms, terms.now_ms)
        [run] = window.delivered_runs(range(first, first + taken), taken)
        return [ClaimedRun(queue, marked_id, window.since, run, entries)]

    def _cut_at_room(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: Sequence[int]
    ) -> Sequence[int]:
        """Return the claimed offsets that the pop may take into memory; the rest is still to be delivered."""
        taken = terms.taken([self._size(queue, offset) for offset in offsets])
        if taken < len(offsets):
            window.unclaim(offsets[taken:])
            return offsets[:taken]
        return offsets

    def _wanted_again(
        self, queue: ConsumeQueue, terms: PopTerms, offsets: Sequence[int], wanted: MessageFilter
    ) -> Sequence[int]:
        """Return the returned offsets that this pop's filter wants. The others are settled, as new ones are. Corrupted
        ones are held back when they are handed out."""
        items = self._read_items(queue, offsets)
        unwanted = [o for o, item in items if isinstance(item, StoredMessage) and not wanted.matches(item)]
        if not unwanted:
            return offsets
        self._append(ConsumptionOp.SETTLE, terms.group.name, queue, unwanted, 0, terms.now_ms)
        gone = set(unwanted)
        return [offset for offset in offsets if offset not in gone]

    def _size(self, queue: ConsumeQueue, offset: int) -> int:
        if offset >= queue.min_offset:
            return queue.claimed_entry(offset)[1]
        item = self.thawed.item(queue, offset)
        return len(item.body) if isinstance(item, StoredMessage) else 0

    def _there(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: Sequence[int]
    ) -> Sequence[int]:
        """Return claimed offsets that can be read now, up to the first cold one not thawed. From there on all are still
        to be delivered. Messages that are gone are settled."""
        group, frontier, now_ms = terms.group.name, window.frontier, terms.now_ms
        there: list[int] = []
        gone: list[int] = []
        behind = frontier
        for place, offset in enumerate(offsets):
            if offset >= queue.min_offset:
                there.append(offset)
                continue
            page = self.thawed.page(queue, offset)
            if page is None:
                window.unclaim(offsets[place:])
                break
            if offset in page.items:
                there.append(offset)
            elif offset < frontier:
                gone.append(offset)
            else:
                behind = page.next_there(offset)
        self._append(ConsumptionOp.SETTLE, group, queue, gone, 0, now_ms)
        if behind > frontier and (not there or there[-1] < frontier):
            self._append(ConsumptionOp.SKIP, group, queue, [behind], 0, now_ms)
        return there

    def _cut_at_first_alive(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: Sequence[int]
    ) -> Sequence[int]:
        """Return the expired messages before the first live one; from there on all are still to be delivered."""
        messages, _ = self._read(queue, offsets)
        alive = next((each for each in messages if not is_over(each, terms.now_ms, terms.lifetime_ms)), None)
        if alive is None:
            return offsets
        place = offsets.index(alive.queue_offset)
        window.unclaim(offsets[place:])
        return offsets[:place]

    def _claim_fifo(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, marked_id: int, count: int
    ) -> list[ClaimedRun]:
        window.forget_due(terms.now_ms)
        groups = window.groups if isinstance(window.groups, MessageGroups) else MessageGroups()
        window.groups = groups
        wanted = terms.filter
        claim = groups.claim(
            window,
            lambda offsets: self._read_items(queue, offsets),
            (lambda message: True) if wanted is None else wanted.matches,
            count=count,
            end=queue.visible_offset,
            max_attempts=terms.group.max_attempts,
            now_ms=terms.now_ms,
            room=self.settings.max_in_flight_per_queue - window.unsettled,
        )
        del claim.messages[terms.taken([len(message.body) for message in claim.messages]) :]
        try:
            self._record_claim(queue, window, terms, claim)
        except EntrepotError:
            window.groups = None  # no room for the decision: messages looked at may lie beyond the window
            raise
        return self._claimed(queue, window, marked_id, [m.queue_offset for m in claim.messages], most=1)

    def _record_claim(self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, claim: FifoClaim) -> None:
        group, now_ms, offsets = terms.group, terms.now_ms, [message.queue_offset for message in claim.messages]
        if claim.looked_to > window.frontier:
            self._append(ConsumptionOp.HOLD, group.name, queue, [claim.looked_to], 0, now_ms)
        self._append(ConsumptionOp.SETTLE, group.name, queue, claim.unwanted, 0, now_ms)
        self._hold_back(group.name, queue, claim.corrupted, now_ms)
        if claim.spent:
            self.moves.bury(queue, window, group, claim.spent, "max attempts reached", now_ms)
        self._append(ConsumptionOp.DELIVER, group.name, queue, offsets, terms.deadline_ms, now_ms)
        if terms.attempt_id and offsets:
            named = f"{queue.topic}\0{terms.attempt_id}"
            self.journal.append(
                ConsumptionOp.ATTEMPT, group.name, named, queue.queue_id, offsets, terms.deadline_ms, now_ms
            )

    def _claim_again(self, topic: Topic, windows: dict[int, ConsumeWindow], terms: PopTerms) -> list[ClaimedRun]:
        """Return the messages that an earlier pop with the same attempt id got and its consumer still has."""
        group = terms.group.name
        retries = self.retry_windows(group, topic.name)
        by_marked_id = {RETRY_QUEUE | queue_id: window for queue_id, window in retries.items()} | windows
        again: list[ClaimedRun] = []
        for marked_id, window in by_marked_id.items():
            queue = self._queue_of(topic.name, group, marked_id)
            offsets = window.offsets_of_try(terms.attempt_id, terms.now_ms)
            again += self._claimed(queue, window, marked_id, offsets, most=1)
        return again

    def _claim_filtered(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, wanted: MessageFilter, count: int
    ) -> list[ClaimedRun]:
        """Look at new messages and deliver those that the filter wants; the others are settled."""
        limit = self.settings.max_in_flight_per_queue
        room = min(count, limit - window.unsettled)
        end = min(queue.visible_offset, window.base + limit * MAX_SPREAD)
        if room <= 0 or end <= window.frontier:
            return []
        found = self._scanned(queue, window.frontier, end, wanted, room, terms.room_bytes)
        terms.room_bytes = found.room_bytes
        group = terms.group.name
        self._append(ConsumptionOp.DELIVER, group, queue, found.offsets, terms.deadline_ms, terms.now_ms)
        if found.next_offset > window.frontier:
            self._append(ConsumptionOp.SKIP, group, queue, [found.next_offset], 0, terms.now_ms)
        self._hold_back(group, queue, found.corrupted, terms.now_ms)
        corrupted = set(found.corrupted)
        offsets = [offset for offset in found.offsets if offset not in corrupted]
        return self._claimed(queue, window, queue.queue_id, offsets)

    def _scanned(
        self, queue: ConsumeQueue, start: int, end: int, wanted: MessageFilter, room: int, room_bytes: int
    ) -> Scanned:
        """Return new messages that a filter wants, from the disk, or from thawed pages."""
        if start >= queue.min_offset:
            return scan_filtered(self.engine, queue, start, end, wanted, room, room_bytes)
        page = self.thawed.page(queue, start, wanted.expression)
        return Scanned(start, room_bytes=room_bytes) if page is None else scan_page(page, start, end, room, room_bytes)

    def _deliver(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: Sequence[int]
    ) -> Sequence[int]:
        """Deliver the claimed offsets that may be delivered, and return them; spent ones go to the dead letters."""
        group, now_ms = terms.group, terms.now_ms
        spent = [offset for offset in offsets if window.attempt(offset) >= group.max_attempts]
        if spent:
            self._bury(queue, window, group, spent, "max attempts reached", now_ms)
            gone = set(spent)
            offsets = [offset for offset in offsets if offset not in gone]
        self._append(ConsumptionOp.DELIVER, group.name, queue, offsets, terms.deadline_ms, now_ms)
        return offsets

    def _apply_limit(self, topic: Topic, windows: dict[int, ConsumeWindow], terms: PopTerms) -> None:
        limit = terms.group.max_in_flight
        if limit is None:
            return
        retries = self.retry_windows(terms.group.name, topic.name)
        held = sum(window.in_flight(terms.now_ms) for window in (*windows.values(), *retries.values()))
        if held >= limit:
            raise EntrepotError(
                Code.TOO_MANY_REQUESTS,
                f"group {terms.group.name!r} holds {held} messages of {topic.name!r}, its limit is {limit}",
            )
        terms.count = min(terms.count, limit - held)

    def _keep_moving(
        self,
        topic: Topic,
        windows: dict[int, ConsumeWindow],
        retries: dict[int, ConsumeWindow],
        group: ConsumerGroup,
        now_ms: int,
    ) -> None:
        """Move messages that hold back a window to the retry topic, if it has spread over the limit and no consumer has
        its first message. (This would break a FIFO group's order.)"""
        limit = self.settings.hold_back_limit
        if group.fifo or is_retry_topic(topic.name):
            return
        for queue_id, window in windows.items():
            while window.is_held_back(window.frontier, limit, now_ms):
                if not self._move_first(self.engine.dispatcher.queue(topic.name, queue_id), window, group, now_ms):
                    break
        for queue_id, window in retries.items():
            # a message never delivered from there holds nothing back
            while window.is_held_back(window.delivered_end, limit, now_ms):
                name = retry_topic(group.name, topic.name)
                if not self._move_first(self.engine.dispatcher.queue(name, queue_id), window, group, now_ms):
                    break

    def _move_first(self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, now_ms: int) -> bool:
        """Move the first message of a window; False if it cannot be read: it is corrupted, or not durable yet."""
        messages, corrupted = self._read(queue, [window.base])
        if corrupted:
            self._hold_back(group.name, queue, corrupted, now_ms)
        for message in messages:
            self.moves.retry_later(queue, window, group, message, now_ms)
        return bool(messages)


def _messages(claimed: Sequence[ClaimedRun]) -> int:
    return sum([each.run.length for each in claimed])
