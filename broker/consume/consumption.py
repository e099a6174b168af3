"""Consumption: pop, acknowledge, change invisible duration, reject; decided here, kept as log records.

Everything is synchronous: a call decides on the windows, appends what it decided, and returns.  The caller answers
only when the log is durable up to `engine.end` as it was on return, so an answer never says what a crash could undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from broker.consume.fifo import FifoClaim, MessageGroups
from broker.consume.handle_mint import HandleContext, HandleMint
from broker.consume.moves import Moves, as_first_stored
from broker.consume.progress import ConsumptionOp, Progress, encode_op
from broker.consume.scan import scan_filtered
from broker.consume.window import MAX_SPREAD, ConsumeWindow
from broker.metadata.registry import Registry, put_group
from broker.settings import BrokerSettings
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind
from broker.trace import Tracer
from domain.consumer_group import EARLIEST, LATEST, ConsumerGroup, parse_start
from domain.errors import Code, CorruptedError, EntrepotError
from domain.expression.filter import MessageFilter
from domain.message import Delivery, StoredMessage
from domain.names import (
    check_group_name,
    check_same_namespace,
    dead_letter_group,
    is_retry_topic,
    retry_topic,
    split_name,
)
from domain.topic import Topic, TopicType

CORRUPTED_RETRY_MS: Final = 3_600_000
"""A record that cannot be read is looked at again after this time; progress never passes it."""
RETRY_QUEUE: Final = 0x8000_0000
"""In the queue id of a receipt handle: the message lies in that queue of the group's retry topic."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class PopTerms:
    """What one pop asks for, made complete."""

    group: ConsumerGroup
    count: int
    deadline_ms: int
    now_ms: int
    filter: MessageFilter | None = None
    attempt_id: str = ""


@dataclass(slots=True)
class Consumption:
    """Pop consumption over one engine."""

    engine: StorageEngine
    registry: Registry
    progress: Progress
    mint: HandleMint
    settings: BrokerSettings
    tracer: Tracer = field(init=False)
    moves: Moves = field(init=False)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.tracer = Tracer(self.engine, self.registry)
        self.moves = Moves(self.engine, self.registry, self.tracer)

    # -- pop -----------------------------------------------------------------------------------------------------

    def pop(self, topic: Topic, terms: PopTerms) -> list[Delivery]:
        """Claim messages over all queues of the topic, starting at another queue each time; those that wait in the
        group's retry topic come first.  Raises TOO_MANY_REQUESTS where the group's limit is reached."""
        group, now_ms = terms.group, terms.now_ms
        windows = self.windows(topic, group, now_ms)
        context = self.context(topic.name, group.name)
        if group.fifo and terms.attempt_id and (again := self._pop_again(topic, windows, terms, context)):
            return again
        self._keep_moving(topic, windows, group, now_ms)
        self._apply_limit(topic, windows, terms)
        deliveries = self._pop_retries(topic, terms, context)
        self._turn += 1
        for step in range(topic.queues):
            if len(deliveries) >= terms.count:
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
        name = retry_topic(terms.group.name, topic.name)
        deliveries: list[Delivery] = []
        for queue_id, window in self.progress.windows.get((terms.group.name, name), {}).items():
            queue = self.engine.dispatcher.queue(name, queue_id)
            marked = RETRY_QUEUE | queue_id
            wanted = terms.count - len(deliveries)
            for delivery in self._pop_queue(queue, window, terms, context, marked, wanted) if wanted else ():
                delivery.message = as_first_stored(delivery.message)
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
        try:
            self._record_claim(queue, window, terms, claim)
        except EntrepotError:
            window.groups = None  # no room for what was decided: what it looked at may lie beyond the window
            raise
        return self._deliveries(window, context, marked_id, claim.messages)

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
        name = retry_topic(terms.group.name, topic.name)
        retries = self.progress.windows.get((terms.group.name, name), {})
        places = [(name, queue_id, RETRY_QUEUE | queue_id, window) for queue_id, window in retries.items()]
        places += [(topic.name, queue_id, queue_id, window) for queue_id, window in windows.items()]
        again: list[Delivery] = []
        for owner, queue_id, marked_id, window in places:
            offsets = window.offsets_of_try(terms.attempt_id, terms.now_ms)
            if offsets:
                messages, _ = self._read(self.engine.dispatcher.queue(owner, queue_id), offsets)
                again += self._deliveries(window, context, marked_id, messages)
        for delivery in again:
            delivery.message = as_first_stored(delivery.message)
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
        found = scan_filtered(self.engine, queue, window.frontier, end, wanted, room)
        group = terms.group.name
        self._append(ConsumptionOp.DELIVER, group, queue, found.offsets, terms.deadline_ms, terms.now_ms)
        if found.next_offset > window.frontier:
            self._append(ConsumptionOp.SKIP, group, queue, [found.next_offset], 0, terms.now_ms)
        self._hold_back(group, queue, found.corrupted, terms.now_ms)
        return self._deliveries(window, context, queue.queue_id, found.messages)

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
        messages, corrupted = self._read(queue, offsets)
        self._append(ConsumptionOp.DELIVER, group.name, queue, offsets, terms.deadline_ms, now_ms)
        self._hold_back(group.name, queue, corrupted, now_ms)
        return self._deliveries(window, context, marked_id, messages)

    def _deliveries(
        self, window: ConsumeWindow, context: HandleContext, marked_id: int, messages: list[StoredMessage]
    ) -> list[Delivery]:
        offsets = [message.queue_offset for message in messages]
        attempts = window.attempts_of(offsets)
        handles = context.mint(marked_id, zip(offsets, map(window.stamp_of, attempts), strict=True))
        return list(map(Delivery, messages, handles, attempts))

    def _hold_back(self, group: str, queue: ConsumeQueue, corrupted: list[int], now_ms: int) -> None:
        self._append(ConsumptionOp.RENEW, group, queue, corrupted, now_ms + CORRUPTED_RETRY_MS, now_ms)

    def _read(self, queue: ConsumeQueue, offsets: list[int]) -> tuple[list[StoredMessage], list[int]]:
        """The messages at some offsets, and the offsets whose records are harmed."""
        items = self._read_items(queue, offsets)
        messages = [item for _, item in items if not isinstance(item, CorruptedError)]
        corrupted: list[int] = []
        if len(messages) < len(items):
            for offset, item in items:
                if isinstance(item, CorruptedError):
                    corrupted.append(offset)
                    log.error("message is corrupted and held back", topic=queue.topic, error=item.message)
        return messages, corrupted

    def _read_items(self, queue: ConsumeQueue, offsets: list[int]) -> list[tuple[int, StoredMessage | CorruptedError]]:
        """What is at some offsets, as far as it is durable."""
        found: list[tuple[int, StoredMessage | CorruptedError]] = []
        if offsets and offsets == list(range(offsets[0], offsets[0] + len(offsets))):
            return list(enumerate(self.engine.read(queue, offsets[0], len(offsets)), offsets[0]))
        at = 0
        while at < len(offsets):
            run = 1
            while at + run < len(offsets) and offsets[at + run] == offsets[at] + run:
                run += 1
            found += enumerate(self.engine.read(queue, offsets[at], run), offsets[at])
            at += run
        return found

    def _apply_limit(self, topic: Topic, windows: dict[int, ConsumeWindow], terms: PopTerms) -> None:
        limit = terms.group.max_in_flight
        if limit is None:
            return
        retries = self.progress.windows.get((terms.group.name, retry_topic(terms.group.name, topic.name)), {})
        held = sum(window.in_flight(terms.now_ms) for window in (*windows.values(), *retries.values()))
        if held >= limit:
            raise EntrepotError(
                Code.TOO_MANY_REQUESTS,
                f"group {terms.group.name!r} holds {held} messages of {topic.name!r}, its limit is {limit}",
            )
        terms.count = min(terms.count, limit - held)

    # -- settling ------------------------------------------------------------------------------------------------

    def acknowledge(self, topic: str, group: str, handles: Sequence[str], now_ms: int) -> list[EntrepotError | None]:
        """Settle what the handles name."""
        current, outcomes = self._current(topic, group, handles)
        for queue, offsets in current.items():
            self._append(ConsumptionOp.SETTLE, group, queue, offsets, 0, now_ms)
        return outcomes

    def change_invisible(
        self, topic: str, group: str, handles: Sequence[str], invisible_ms: int | None, release: bool, now_ms: int
    ) -> list[EntrepotError | None]:
        """A new deadline for what the handles name; a release makes them void."""
        current, outcomes = self._current(topic, group, handles)
        op = ConsumptionOp.RELEASE if release else ConsumptionOp.RENEW
        for queue, offsets in current.items():
            by_delay: dict[int, list[int]] = {}
            for offset in offsets:
                delay = self._delay(queue, group, offset, release) if invisible_ms is None else invisible_ms
                by_delay.setdefault(delay, []).append(offset)
            for delay, some in by_delay.items():
                self._append(op, group, queue, some, now_ms + delay, now_ms)
        return outcomes

    def _delay(self, queue: ConsumeQueue, group_name: str, offset: int, release: bool) -> int:
        group = self.registry.groups[group_name]
        if not release:
            return group.invisible_seconds * 1000
        return group.retry.delay_ms(self.progress.windows[group_name, queue.topic][queue.queue_id].attempt(offset))

    def reject(self, topic: str, group: str, handles: Sequence[str], now_ms: int) -> list[EntrepotError | None]:
        """Move what the handles name to the dead letters."""
        current, outcomes = self._current(topic, group, handles)
        for queue, offsets in current.items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            self._bury(queue, window, self.registry.groups[group], offsets, "rejected", now_ms)
        return outcomes

    def held(self, topic: str, group: str, handles: Sequence[str]) -> list[tuple[StoredMessage, int]]:
        """What the handles may settle, read again: as it was first stored, with its attempts."""
        found: list[tuple[StoredMessage, int]] = []
        for queue, offsets in self._current(topic, group, handles)[0].items():
            window = self.progress.windows[group, queue.topic][queue.queue_id]
            messages, _ = self._read(queue, offsets)
            found += [(as_first_stored(message), window.attempt(message.queue_offset)) for message in messages]
        return found

    def _current(
        self, topic: str, group: str, handles: Sequence[str]
    ) -> tuple[dict[ConsumeQueue, list[int]], list[EntrepotError | None]]:
        """Which offsets the handles may settle, by queue; a refusal for each handle that may not."""
        outcomes: list[EntrepotError | None] = []
        windows = self.progress.windows.get((group, topic), {})
        retries = self.progress.windows.get((group, retry_topic(group, topic)), {})
        by_queue: dict[int, set[int]] = {}
        for checked in self.context(topic, group).check(handles):
            if isinstance(checked, EntrepotError):
                outcomes.append(checked)
                continue
            queue_id, offset, stamp = checked
            window = windows.get(queue_id) if queue_id < RETRY_QUEUE else retries.get(queue_id - RETRY_QUEUE)
            taken = by_queue.get(queue_id)
            if taken is None:
                taken = by_queue[queue_id] = set()
            if window is None or offset in taken or not window.is_current(offset, stamp):
                outcomes.append(
                    EntrepotError(
                        Code.INVALID_RECEIPT_HANDLE,
                        "the receipt handle is no longer current: the message was settled, released or delivered again",
                    )
                )
                continue
            taken.add(offset)
            outcomes.append(None)
        return {
            self._queue_of(topic, group, queue_id): sorted(offsets) for queue_id, offsets in by_queue.items() if offsets
        }, outcomes

    def _queue_of(self, topic: str, group: str, marked_id: int) -> ConsumeQueue:
        if marked_id < RETRY_QUEUE:
            return self.engine.dispatcher.queue(topic, marked_id)
        return self.engine.dispatcher.queue(retry_topic(group, topic), marked_id - RETRY_QUEUE)

    # -- moving away ---------------------------------------------------------------------------------------------

    def bury_exhausted(self, now_ms: int) -> None:
        """Background step: messages whose last attempt ended unsettled go to the dead letters, polled for or not."""
        for (group_name, topic), windows in list(self.progress.windows.items()):
            group = self.registry.groups.get(group_name)
            if group is None:
                continue
            for queue_id, window in windows.items():
                spent = window.exhausted(now_ms, group.max_attempts) if window.unsettled else ()
                if spent:
                    queue = self.engine.dispatcher.queue(topic, queue_id)
                    self._bury(queue, window, group, spent, "max attempts reached", now_ms)

    def _bury(
        self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, offsets: list[int], why: str, now: int
    ) -> None:
        messages, corrupted = self._read(queue, offsets)
        self._hold_back(group.name, queue, corrupted, now)
        self.moves.bury(queue, window, group, messages, why, now)

    def _keep_moving(self, topic: Topic, windows: dict[int, ConsumeWindow], group: ConsumerGroup, now_ms: int) -> None:
        """Move what holds a window back to the retry topic: where the window has spread over the limit, and its first
        message is with no consumer.  (A FIFO group's order would be lost by that.)"""
        limit = self.settings.hold_back_limit
        if group.fifo or is_retry_topic(topic.name):
            return
        retries = self.progress.windows.get((group.name, retry_topic(group.name, topic.name)), {})
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

    # -- windows -------------------------------------------------------------------------------------------------

    def context(self, topic: str, group: str) -> HandleContext:
        since = self.registry.topic_since(topic), self.registry.group_since(group)
        return self.mint.context(topic, group, self.engine.recovery_epoch, since)

    def group(self, name: str, topic: str, now_ms: int) -> ConsumerGroup:
        """The group, made with the defaults if it is new.  Raises ILLEGAL_CONSUMER_GROUP, FORBIDDEN (another
        namespace than the topic's)."""
        check_same_namespace(topic, name)
        group = self.registry.groups.get(name)
        if group is None:
            check_group_name(split_name(name)[1])
            group = replace(self.settings.group_defaults, name=name)
            self.engine.append_record(RecordKind.METADATA, put_group(group), now_ms)
        return group

    def windows(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> dict[int, ConsumeWindow]:
        """The group's windows on a topic.  At first sight of the topic the group's `start` says where each begins;
        queues that come later begin at their beginning."""
        windows = self.progress.windows.get((group.name, topic.name))
        if windows is not None and len(windows) == topic.queues:
            self._trim(topic, group, windows, now_ms)
            return windows
        is_new = not windows
        for queue_id in range(topic.queues):
            if windows is None or queue_id not in windows:
                queue = self.engine.dispatcher.queue(topic.name, queue_id)
                start = self._start(queue, group) if is_new else queue.min_offset
                self._append(ConsumptionOp.START, group.name, queue, [start], 0, now_ms)
        return self.progress.windows[group.name, topic.name]

    def _trim(self, topic: Topic, group: ConsumerGroup, windows: dict[int, ConsumeWindow], now_ms: int) -> None:
        """What retention took away is settled."""
        queues = self.engine.dispatcher.queues
        for queue_id, window in windows.items():
            queue = queues[topic.name, queue_id]
            if window.base < queue.min_offset:
                self._append(ConsumptionOp.TRIM, group.name, queue, [queue.min_offset], 0, now_ms)

    def _start(self, queue: ConsumeQueue, group: ConsumerGroup) -> int:
        """Where a new group begins.  Dead letters are always read from the first: nobody means to skip them."""
        if group.start == EARLIEST or dead_letter_group(queue.topic) is not None:
            return queue.min_offset
        if group.start == LATEST:
            return queue.first_at_or_after(self.registry.group_latest_since(group.name))
        since = parse_start(group.start)
        assert since is not None
        return self.engine.first_since(queue, since)

    def windows_of(self, group: str) -> dict[str, dict[int, ConsumeWindow]]:
        """The group's windows by topic."""
        return {topic: windows for (owner, topic), windows in self.progress.windows.items() if owner == group}

    def next_due(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> int | None:
        """When something of the topic may come back to the group (0: now); None if nothing will."""
        windows = self.windows(topic, group, now_ms)
        retries = self.progress.windows.get((group.name, retry_topic(group.name, topic.name)), {})
        found = (window.next_due() for window in (*windows.values(), *retries.values()))
        return min((due for due in found if due is not None), default=None)

    def has_more(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> bool:
        """Whether there are new messages that nobody has looked at, and room to look at them."""
        limit = self.settings.max_in_flight_per_queue
        for queue_id, window in self.windows(topic, group, now_ms).items():
            end = self.engine.dispatcher.queue(topic.name, queue_id).visible_offset
            if window.frontier < min(end, window.base + limit * MAX_SPREAD) and window.unsettled < limit:
                return True
        return False

    def backlog(self, topic: Topic) -> int:
        """How many messages of the topic its slowest group has not settled."""
        ends = [self.engine.dispatcher.queue(topic.name, queue_id).max_offset for queue_id in range(topic.queues)]
        slowest = 0
        for (_, name), windows in self.progress.windows.items():
            if name == topic.name:
                behind = sum(
                    ends[queue_id] - window.frontier + window.unsettled
                    for queue_id, window in windows.items()
                    if queue_id < len(ends)
                )
                slowest = max(slowest, behind)
        return slowest

    def is_drained(self, topic: Topic, queue_id: int) -> bool:
        """Whether a queue may go: it is empty, or every group that reads the topic has settled all of it."""
        queue = self.engine.dispatcher.queue(topic.name, queue_id)
        if queue.min_offset == queue.max_offset:
            return True
        found = [windows for (_, name), windows in self.progress.windows.items() if name == topic.name]
        return bool(found) and all(
            queue_id in windows and windows[queue_id].base >= queue.max_offset for windows in found
        )

    # -- positions -----------------------------------------------------------------------------------------------

    def reset(self, group: ConsumerGroup, queue: ConsumeQueue, queue_offset: int, now_ms: int) -> None:
        """Let the group go on from an offset."""
        self._append(ConsumptionOp.RESET, group.name, queue, [queue_offset], 0, now_ms)

    def drop_retries(self, group: ConsumerGroup, topic: str, now_ms: int) -> None:
        """Forget what waits in the group's retry topic for a topic."""
        name = retry_topic(group.name, topic)
        for queue_id in self.progress.windows.get((group.name, name), {}):
            queue = self.engine.dispatcher.queue(name, queue_id)
            self.reset(group, queue, queue.max_offset, now_ms)

    def _append(
        self, op: ConsumptionOp, group: str, queue: ConsumeQueue, offsets: list[int], deadline_ms: int, now_ms: int
    ) -> None:
        if offsets:
            payload = encode_op(op, group, queue.topic, queue.queue_id, offsets, deadline_ms)
            self.engine.append_record(RecordKind.CONSUMPTION, payload, now_ms)
