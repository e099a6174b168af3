"""Consumption: pop, acknowledge, change invisible duration, reject, dead letters; decided here, kept as log records.

Everything is synchronous: a call decides on the windows, appends what it decided, and returns.  The caller answers
only when the log is durable up to `engine.end` as it was on return, so an answer never says what a crash could undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from broker.consume.handle_mint import HandleContext, HandleMint
from broker.consume.progress import ConsumptionOp, Progress, encode_op
from broker.consume.window import ConsumeWindow
from broker.metadata.registry import Registry, put_group, put_topic
from broker.store.consume_queue import ConsumeQueue
from broker.store.engine import StorageEngine
from broker.store.record import RecordKind
from domain.consumer_group import EARLIEST, LATEST, ConsumerGroup, parse_start
from domain.errors import Code, CorruptedError, EntrepotError
from domain.message import Delivery, Message, StoredMessage, SystemProperty
from domain.names import check_group_name, dead_letter_group, dead_letter_topic
from domain.topic import Topic

CORRUPTED_RETRY_MS = 3_600_000
"""A record that cannot be read is looked at again after this time; progress never passes it."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Consumption:
    """Pop consumption over one engine.  `max_in_flight` bounds each window."""

    engine: StorageEngine
    registry: Registry
    progress: Progress
    mint: HandleMint
    group_defaults: ConsumerGroup
    max_in_flight: int = 65_536
    _turn: int = 0

    # -- pop -----------------------------------------------------------------------------------------------------

    def pop(self, topic: Topic, group: ConsumerGroup, count: int, invisible_ms: int, now_ms: int) -> list[Delivery]:
        """Claim up to `count` messages over all queues of the topic, starting at another queue each time."""
        windows = self.windows(topic, group, now_ms)
        context = self.context(topic.name, group.name)
        deliveries: list[Delivery] = []
        self._turn += 1
        for step in range(topic.queues):
            queue_id = (self._turn + step) % topic.queues
            queue = self.engine.dispatcher.queue(topic.name, queue_id)
            window = windows[queue_id]
            wanted = count - len(deliveries)
            try:
                deliveries += self._pop_queue(queue, window, group, context, wanted, now_ms + invisible_ms, now_ms)
            except EntrepotError:
                if not deliveries:
                    raise
                break  # what the other queues gave is delivered, and must be handed out
            if len(deliveries) >= count:
                break
        return deliveries

    def _pop_queue(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        group: ConsumerGroup,
        context: HandleContext,
        count: int,
        deadline_ms: int,
        now_ms: int,
    ) -> list[Delivery]:
        while offsets := window.claim(now_ms, count, queue.visible_offset, self.max_in_flight):
            try:
                deliveries = self._deliver(queue, window, group, context, offsets, deadline_ms, now_ms)
            except EntrepotError:
                window.unclaim(offsets)  # no room for the record of it: they are still to be delivered
                raise
            if deliveries:
                return deliveries
        return []

    def _deliver(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        group: ConsumerGroup,
        context: HandleContext,
        offsets: list[int],
        deadline_ms: int,
        now_ms: int,
    ) -> list[Delivery]:
        """Deliver what can be of the claimed offsets: spent ones go to the dead letters, harmed ones are held back."""
        spent = [offset for offset in offsets if window.attempt(offset) >= group.max_attempts]
        if spent:
            self._dead_letter(queue, window, group, spent, "max attempts reached", now_ms)
            gone = set(spent)
            offsets = [offset for offset in offsets if offset not in gone]
        messages, corrupted = self._read(queue, offsets)
        self._append(ConsumptionOp.DELIVER, group.name, queue, offsets, deadline_ms, now_ms)
        self._append(ConsumptionOp.RENEW, group.name, queue, corrupted, now_ms + CORRUPTED_RETRY_MS, now_ms)
        attempts = [window.attempt(message.queue_offset) for message in messages]
        handles = context.mint(queue.queue_id, [(m.queue_offset, a) for m, a in zip(messages, attempts, strict=True)])
        return [Delivery(*parts) for parts in zip(messages, handles, attempts, strict=True)]

    def _read(self, queue: ConsumeQueue, offsets: list[int]) -> tuple[list[StoredMessage], list[int]]:
        """The messages at some offsets, and the offsets whose records are harmed."""
        messages: list[StoredMessage] = []
        corrupted: list[int] = []
        at = 0
        while at < len(offsets):
            run = 1
            while at + run < len(offsets) and offsets[at + run] == offsets[at] + run:
                run += 1
            for distance, item in enumerate(self.engine.read(queue, offsets[at], run)):
                if isinstance(item, CorruptedError):
                    corrupted.append(offsets[at] + distance)
                    log.error("message is corrupted and held back", topic=queue.topic, error=item.message)
                else:
                    messages.append(item)
            at += run
        return messages, corrupted

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
        if current and invisible_ms is None:
            invisible_ms = self.registry.groups[group].invisible_seconds * 1000
        op = ConsumptionOp.RELEASE if release else ConsumptionOp.RENEW
        for queue, offsets in current.items():
            self._append(op, group, queue, offsets, now_ms + (invisible_ms or 0), now_ms)
        return outcomes

    def reject(self, topic: str, group: str, handles: Sequence[str], now_ms: int) -> list[EntrepotError | None]:
        """Move what the handles name to the dead letters."""
        current, outcomes = self._current(topic, group, handles)
        for queue, offsets in current.items():
            window = self.progress.windows[group, topic][queue.queue_id]
            self._dead_letter(queue, window, self.registry.groups[group], offsets, "rejected", now_ms)
        return outcomes

    def _current(
        self, topic: str, group: str, handles: Sequence[str]
    ) -> tuple[dict[ConsumeQueue, list[int]], list[EntrepotError | None]]:
        """Which offsets the handles may settle, by queue; a refusal for each handle that may not."""
        outcomes: list[EntrepotError | None] = []
        windows = self.progress.windows.get((group, topic), {})
        by_queue: dict[int, set[int]] = {queue_id: set() for queue_id in windows}
        for checked in self.context(topic, group).check(handles):
            if isinstance(checked, EntrepotError):
                outcomes.append(checked)
                continue
            queue_id, offset, attempt = checked
            window, taken = windows.get(queue_id), by_queue.get(queue_id, set())
            if window is None or offset in taken or not window.is_current(offset, attempt):
                outcomes.append(
                    EntrepotError(
                        Code.INVALID_RECEIPT_HANDLE,
                        "the receipt handle is no longer current: the message was settled, released or delivered again",
                    )
                )
                continue
            taken.add(offset)
            outcomes.append(None)
        queue = self.engine.dispatcher.queue
        return {queue(topic, i): sorted(offsets) for i, offsets in by_queue.items() if offsets}, outcomes

    # -- dead letters --------------------------------------------------------------------------------------------

    def bury_exhausted(self, now_ms: int) -> None:
        """Background step: messages whose last attempt ended unsettled go to the dead letters, polled for or not."""
        for (group_name, topic), windows in list(self.progress.windows.items()):
            group = self.registry.groups.get(group_name)
            if group is None:
                continue
            for queue_id, window in windows.items():
                spent = window.exhausted(now_ms, group.max_attempts)
                if spent:
                    queue = self.engine.dispatcher.queue(topic, queue_id)
                    self._dead_letter(queue, window, group, spent, "max attempts reached", now_ms)

    def _dead_letter(
        self, queue: ConsumeQueue, window: ConsumeWindow, group: ConsumerGroup, offsets: list[int], why: str, now: int
    ) -> None:
        name = dead_letter_topic(group.name)
        if name not in self.registry.topics:
            self.engine.append_record(RecordKind.METADATA, put_topic(Topic(name, queues=1)), now)
        messages, corrupted = self._read(queue, offsets)
        self._append(ConsumptionOp.RENEW, group.name, queue, corrupted, now + CORRUPTED_RETRY_MS, now)
        for message in messages:
            self.engine.append_dead_letter(_dead_letter_of(message, name, why, window), now)

    # -- windows -------------------------------------------------------------------------------------------------

    def context(self, topic: str, group: str) -> HandleContext:
        since = self.registry.topic_since.get(topic, 0), self.registry.group_since.get(group, 0)
        return self.mint.context(topic, group, self.engine.recovery_epoch, since)

    def group(self, name: str, now_ms: int) -> ConsumerGroup:
        """The group, made with the defaults if it is new.  Raises ILLEGAL_CONSUMER_GROUP."""
        group = self.registry.groups.get(name)
        if group is None:
            check_group_name(name)
            group = replace(self.group_defaults, name=name)
            self.engine.append_record(RecordKind.METADATA, put_group(group), now_ms)
        return group

    def windows(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> dict[int, ConsumeWindow]:
        """The group's windows on a topic.  At first sight of the topic the group's `start` says where each begins;
        queues that come later begin at their beginning."""
        windows = self.progress.windows.get((group.name, topic.name))
        if windows is not None and len(windows) == topic.queues:
            return windows
        is_new = not windows
        for queue_id in range(topic.queues):
            if windows is None or queue_id not in windows:
                queue = self.engine.dispatcher.queue(topic.name, queue_id)
                start = self._start(queue, group) if is_new else queue.min_offset
                self._append(ConsumptionOp.START, group.name, queue, [start], 0, now_ms)
        return self.progress.windows[group.name, topic.name]

    def _start(self, queue: ConsumeQueue, group: ConsumerGroup) -> int:
        """Where a new group begins.  Dead letters are always read from the first: nobody means to skip them."""
        if group.start == EARLIEST or dead_letter_group(queue.topic) is not None:
            return queue.min_offset
        if group.start == LATEST:
            return queue.first_at_or_after(self.registry.group_latest_since[group.name])
        since = parse_start(group.start)
        assert since is not None
        return self.engine.first_since(queue, since)

    def _append(
        self, op: ConsumptionOp, group: str, queue: ConsumeQueue, offsets: list[int], deadline_ms: int, now_ms: int
    ) -> None:
        if offsets:
            payload = encode_op(op, group, queue.topic, queue.queue_id, offsets, deadline_ms)
            self.engine.append_record(RecordKind.CONSUMPTION, payload, now_ms)


def _dead_letter_of(message: StoredMessage, topic: str, why: str, window: ConsumeWindow) -> Message:
    """The message as a dead letter: content as it was, origin and reason in system properties."""
    system = dict(message.system)
    system[SystemProperty.DEAD_LETTER_TOPIC] = message.topic
    system[SystemProperty.DEAD_LETTER_QUEUE] = str(message.queue_id)
    system[SystemProperty.DEAD_LETTER_QUEUE_OFFSET] = str(message.queue_offset)
    system[SystemProperty.DEAD_LETTER_MESSAGE_ID] = message.message_id.hex().upper()
    system[SystemProperty.DEAD_LETTER_REASON] = why
    system[SystemProperty.DEAD_LETTER_ATTEMPTS] = str(window.attempt(message.queue_offset))
    return Message(
        topic=topic,
        body=message.body,
        sub_topic=message.sub_topic,
        queue_id=0,
        qos=message.qos,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        message_id=message.message_id,
        born_time_ms=message.born_time_ms,
        filter_hash=message.filter_hash,
        properties=message.properties,
        system=system,
    )
