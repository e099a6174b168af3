"""Consumption: pop, acknowledge, change invisible duration, reject; decided here, kept as log records.

Everything is synchronous: a call decides on the windows, appends what it decided, and returns.  The caller answers
only when the log is durable up to `engine.end` as it was on return, so an answer never says what a crash could undo.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.consume.fifo import FifoClaim, MessageGroups
from broker.consume.handle_mint import HandleContext
from broker.consume.progress import ConsumptionOp, encode_op
from broker.consume.scan import scan_filtered
from broker.consume.settling import RETRY_QUEUE, Settling
from broker.consume.window import MAX_SPREAD, ConsumeWindow
from broker.store.consume_queue import ConsumeQueue
from broker.store.record import RecordKind
from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.expression.filter import MessageFilter
from domain.message import Delivery, StoredMessage, as_first_stored, is_over
from domain.names import (
    is_retry_topic,
    retry_topic,
)
from domain.ports import MAX_POP_BYTES
from domain.topic import Topic, TopicType
from protocols.remoting.stored_record import Decode, RecordedMessage, decode_message


@dataclass(slots=True)
class PopTerms:
    """What one pop asks for, made complete."""

    group: ConsumerGroup
    count: int
    deadline_ms: int
    now_ms: int
    filter: MessageFilter | None = None
    attempt_id: str = ""
    is_again: bool = False
    only_over: bool = False
    lifetime_ms: int | None = None
    decode: Decode = decode_message
    """Makes a message of each record, or a `RecordedMessage`."""
    room_bytes: int = MAX_POP_BYTES
    """Bytes that it may still take."""

    def taken(self, sizes: Iterable[int]) -> int:
        """The number of the next messages, of these sizes, that it takes."""
        count = 0
        for size in sizes:
            if size > self.room_bytes < MAX_POP_BYTES:
                break
            self.room_bytes -= size
            count += 1
        return count


@dataclass(slots=True)
class Consumption(Settling):
    """Pop consumption over one engine."""

    _turn: int = 0

    # -- pop -----------------------------------------------------------------------------------------------------

    def pop(self, topic: Topic, terms: PopTerms) -> list[Delivery]:
        """Claim messages over all queues of the topic, starting at another queue each time; those that wait in the
        group's retry topic come first.  Raises TOO_MANY_REQUESTS where the group's limit is reached."""
        group, now_ms = terms.group, terms.now_ms
        windows = self.windows(topic, group, now_ms)
        context = self.context(topic.name, group.name)
        if group.fifo and terms.attempt_id and (again := self._pop_again(topic, windows, terms, context)):
            return again
        if terms.is_again:
            return []
        self._keep_moving(topic, windows, group, now_ms)
        self._apply_limit(topic, windows, terms)
        deliveries = self._pop_retries(topic, terms, context)
        self._turn += 1
        for step in range(topic.queues):
            if len(deliveries) >= terms.count or terms.room_bytes <= 0:
                break
            queue_id = (self._turn + step) % topic.queues
            if topic.type is TopicType.PRIORITY:
                queue_id = topic.queues - 1 - step
            queue = self.engine.dispatcher.queue(topic.name, queue_id)
            try:
                wanted = terms.count - len(deliveries)
                deliveries += self._pop_queue(queue, windows[queue_id], terms, context, queue_id, wanted)
            except EntrepotError:
                if not deliveries:
                    raise
                break  # what the other queues gave is delivered, and must be handed out
        return deliveries

    def _pop_retries(self, topic: Topic, terms: PopTerms, context: HandleContext) -> list[Delivery]:
        deliveries: list[Delivery] = []
        for queue_id, window in self.retry_windows(terms.group.name, topic.name).items():
            marked = RETRY_QUEUE | queue_id
            queue = self._queue_of(topic.name, terms.group.name, marked)
            wanted = terms.count - len(deliveries)
            for delivery in self._pop_queue(queue, window, terms, context, marked, wanted) if wanted else ():
                delivery.message = _as_first(delivery.message)
                deliveries.append(delivery)
        return deliveries

    def _pop_queue(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        terms: PopTerms,
        context: HandleContext,
        marked_id: int,
        count: int,
    ) -> list[Delivery]:
        """Deliver up to `count` of one queue; `marked_id` is the queue id that handles bear."""
        if terms.group.fifo:
            return self._pop_fifo(queue, window, terms, context, marked_id, count)
        if window.is_unlisted:
            window.end_fifo()
        limit = self.settings.max_in_flight_per_queue
        end = window.frontier if terms.filter is not None else queue.visible_offset
        while offsets := window.claim(terms.now_ms, count, end, limit, queue.visible_offset):
            offsets = self._cut_at_room(queue, window, terms, offsets)
            if terms.only_over:
                offsets = self._cut_at_first_alive(queue, window, terms, offsets)
            if not offsets:
                return []
            try:
                deliveries = self._deliver(queue, window, terms, context, marked_id, offsets)
            except EntrepotError:
                window.unclaim(offsets)  # no room for the record of it: they are still to be delivered
                raise
            if deliveries:
                return deliveries
        if terms.filter is None or marked_id & RETRY_QUEUE:
            return []
        return self._pop_filtered(queue, window, terms, context, terms.filter, count)

    def _cut_at_room(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: list[int]
    ) -> list[int]:
        """The claimed ones that the pop may take into memory; the rest is still to be delivered."""
        taken = terms.taken(entry[1] for entry in queue.entries_at(offsets))
        if taken < len(offsets):
            window.unclaim(offsets[taken:])
            return offsets[:taken]
        return offsets

    def _cut_at_first_alive(
        self, queue: ConsumeQueue, window: ConsumeWindow, terms: PopTerms, offsets: list[int]
    ) -> list[int]:
        """What of the claimed is over; from the first on that is not, all is still to be delivered."""
        messages, _ = self._read(queue, offsets)
        alive = next((each for each in messages if not is_over(each, terms.now_ms, terms.lifetime_ms)), None)
        if alive is None:
            return offsets
        place = offsets.index(alive.queue_offset)
        window.unclaim(offsets[place:])
        return offsets[:place]

    def _pop_fifo(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        terms: PopTerms,
        context: HandleContext,
        marked_id: int,
        count: int,
    ) -> list[Delivery]:
        """Deliver in the order of message groups (`fifo.py`)."""
        window.forget_due(terms.now_ms)
        groups = window.groups = window.groups or MessageGroups()
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
        del claim.messages[terms.taken(len(message.body) for message in claim.messages) :]
        try:
            self._record_claim(queue, window, terms, claim)
        except EntrepotError:
            window.groups = None  # no room for what was decided: what it looked at may lie beyond the window
            raise
        messages = self._as_asked(queue, terms, claim.messages)
        return self._deliveries(window, context, marked_id, messages, is_singly=True)

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
            payload = encode_op(ConsumptionOp.ATTEMPT, group.name, named, queue.queue_id, offsets, terms.deadline_ms)
            self.engine.append_record(RecordKind.CONSUMPTION, payload, now_ms)

    def _pop_again(
        self, topic: Topic, windows: dict[int, ConsumeWindow], terms: PopTerms, context: HandleContext
    ) -> list[Delivery]:
        """What an earlier pop with the same attempt id was given and is still with its consumer."""
        group = terms.group.name
        retries = self.retry_windows(group, topic.name)
        by_marked_id = {RETRY_QUEUE | queue_id: window for queue_id, window in retries.items()} | windows
        again: list[Delivery] = []
        for marked_id, window in by_marked_id.items():
            offsets = window.offsets_of_try(terms.attempt_id, terms.now_ms)
            if offsets:
                messages, _ = self._read(self._queue_of(topic.name, group, marked_id), offsets, terms.decode)
                again += self._deliveries(window, context, marked_id, messages, is_singly=True)
        for delivery in again:
            delivery.message = _as_first(delivery.message)
        return again

    def _pop_filtered(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        terms: PopTerms,
        context: HandleContext,
        wanted: MessageFilter,
        count: int,
    ) -> list[Delivery]:
        """Look at new messages, and deliver those that the filter wants; what it passes over is settled."""
        limit = self.settings.max_in_flight_per_queue
        room = min(count, limit - window.unsettled)
        end = min(queue.visible_offset, window.base + limit * MAX_SPREAD)
        if room <= 0 or end <= window.frontier:
            return []
        found = scan_filtered(self.engine, queue, window.frontier, end, wanted, room, terms.room_bytes)
        terms.room_bytes = found.room_bytes
        group = terms.group.name
        self._append(ConsumptionOp.DELIVER, group, queue, found.offsets, terms.deadline_ms, terms.now_ms)
        if found.next_offset > window.frontier:
            self._append(ConsumptionOp.SKIP, group, queue, [found.next_offset], 0, terms.now_ms)
        self._hold_back(group, queue, found.corrupted, terms.now_ms)
        return self._deliveries(window, context, queue.queue_id, self._as_asked(queue, terms, found.messages))

    def _deliver(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        terms: PopTerms,
        context: HandleContext,
        marked_id: int,
        offsets: list[int],
    ) -> list[Delivery]:
        """Deliver what can be of the claimed offsets: spent ones go to the dead letters, harmed ones are held back."""
        group, now_ms = terms.group, terms.now_ms
        limit = group.max_attempts
        spent = [o for o, n in zip(offsets, window.attempts_of(offsets), strict=True) if n >= limit]
        if spent:
            self._bury(queue, window, group, spent, "max attempts reached", now_ms)
            gone = set(spent)
            offsets = [offset for offset in offsets if offset not in gone]
        messages, corrupted = self._read(queue, offsets, terms.decode)
        self._append(ConsumptionOp.DELIVER, group.name, queue, offsets, terms.deadline_ms, now_ms)
        self._hold_back(group.name, queue, corrupted, now_ms)
        return self._deliveries(window, context, marked_id, messages)

    def _deliveries(
        self,
        window: ConsumeWindow,
        context: HandleContext,
        marked_id: int,
        messages: list[StoredMessage],
        *,
        is_singly: bool = False,
    ) -> list[Delivery]:
        offsets = [message.queue_offset for message in messages]
        stamps = [window.stamp_of(deliveries) for deliveries in window.deliveries_of(offsets)]
        handles = context.mint(marked_id, offsets, stamps, is_singly=is_singly)
        return list(map(Delivery, messages, handles, window.attempts_of(offsets)))

    def _as_asked(self, queue: ConsumeQueue, terms: PopTerms, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Messages that had to be looked at, as what the pop asks for."""
        if terms.decode is decode_message:
            return messages
        return self._read(queue, [message.queue_offset for message in messages], terms.decode)[0]

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

    def _keep_moving(self, topic: Topic, windows: dict[int, ConsumeWindow], group: ConsumerGroup, now_ms: int) -> None:
        """Move what holds a window back to the retry topic: where the window has spread over the limit, and its first
        message is with no consumer.  (A FIFO group's order would be lost by that.)"""
        limit = self.settings.hold_back_limit
        if group.fifo or is_retry_topic(topic.name):
            return
        retries = self.retry_windows(group.name, topic.name)
        for name, some in ((topic.name, windows), (retry_topic(group.name, topic.name), retries)):
            for queue_id, window in some.items():
                # in the retry topic, what was never delivered from there is ahead of nothing
                while window.is_held_back(window.frontier if some is windows else window.delivered_end, limit, now_ms):
                    queue = self.engine.dispatcher.queue(name, queue_id)
                    messages, corrupted = self._read(queue, [window.base])
                    if corrupted:
                        self._hold_back(group.name, queue, corrupted, now_ms)
                    if not messages:
                        break  # harmed, or not durable yet
                    self.moves.retry_later(queue, window, group, messages[0], now_ms)


def _as_first(message: StoredMessage) -> StoredMessage:
    """A message of a retry topic as it was at first; of a record, who decodes it is told so."""
    if isinstance(message, RecordedMessage):
        message.is_retry = True
        return message
    return as_first_stored(message)
