"""GroupWindows: each group's window on each queue, read here and changed by records of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.handle_mint import HandleContext, HandleMint
from entrepot.broker.consume.journal import Journal
from entrepot.broker.consume.moves import Moves
from entrepot.broker.consume.progress import Progress
from entrepot.broker.consume.thawed import GoneError, Missed, NotThawedError, Thawed
from entrepot.broker.consume.tick_record import ranges_of
from entrepot.broker.consume.trace import Tracer
from entrepot.broker.consume.window import MAX_SPREAD, ConsumeWindow
from entrepot.broker.metadata.registry import Registry, put_group
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.healer import NO_HEALER
from entrepot.broker.store.record import RecordKind
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup, parse_start
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import (
    check_group_name,
    check_same_namespace,
    dead_letter_group,
    retry_topic,
    split_name,
)
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Topic

HEALING_RETRY_MS: Final = 2_000
"""Pause before a record that other replicas may have is handed out, in milliseconds."""
CORRUPTED_RETRY_MS: Final = 3_600_000
"""Pause before an unreadable record is looked at again, in milliseconds; progress never passes it."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class GroupWindows:
    """The windows of all groups over one engine."""

    engine: StorageEngine
    registry: Registry
    progress: Progress
    mint: HandleMint
    settings: BrokerSettings
    tracer: Tracer = field(init=False)
    moves: Moves = field(init=False)
    journal: Journal = field(init=False)
    epoch: bytes = field(init=False)
    """Epoch of this store since it was opened, carried by deliveries."""
    thawed: Thawed = field(default_factory=Thawed)

    def __post_init__(self) -> None:
        self.tracer = Tracer(self.engine, self.registry)
        self.moves = Moves(self.engine, self.registry, self.tracer)
        self.journal = Journal(self.engine, self.progress)
        self.epoch = self.mint.store_id + self.engine.recovery_epoch.to_bytes(4)

    # -- windows -------------------------------------------------------------------------------------------------

    def context(self, topic: str, group: str) -> HandleContext:
        since = self.registry.topic_since(topic), self.registry.group_since(group)
        return self.mint.context(topic, group, self.engine.recovery_epoch, since)

    def group(self, name: str, topic: str, now_ms: int) -> ConsumerGroup:
        """Return the group, made with the defaults if it is new. Raises ILLEGAL_CONSUMER_GROUP, FORBIDDEN (another
        namespace than the topic's)."""
        check_same_namespace(topic, name)
        group = self.registry.groups.get(name)
        if group is None:
            check_group_name(split_name(name)[1])
            group = replace(self.settings.group_defaults, name=name)
            self.engine.append_record(RecordKind.METADATA, put_group(group), now_ms)
        return group

    def windows(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> dict[int, ConsumeWindow]:
        """Return the group's windows on a topic. A group new to the topic begins by its `start`; later queues begin at
        their beginning. Raises NotThawedError, UNAVAILABLE where the beginning is cold."""
        windows = self.progress.windows.get((group.name, topic.name))
        if windows is not None:
            self._trim(topic.name, group, windows, now_ms)
            if len(windows) == topic.queues:
                return windows
        known = windows or {}
        queues = self.engine.dispatcher.first_queues(topic.name, topic.queues)
        new = [queue for queue in queues if queue.queue_id not in known]
        starts = [self.thawed.earliest(queue) for queue in new] if known else self._starts(new, group)
        for queue, start in zip(new, starts, strict=True):
            self._append(ConsumptionOp.START, group.name, queue, [start], 0, now_ms)
        return self.progress.windows[group.name, topic.name]

    def _trim(self, topic: str, group: ConsumerGroup, windows: dict[int, ConsumeWindow], now_ms: int) -> None:
        """Settle messages that retention removed from the disk and from the tier."""
        queues = self.engine.dispatcher.queues
        for queue_id, window in windows.items():
            queue = queues[topic, queue_id]
            if window.base < queue.min_offset and window.base < (least := self.thawed.least(queue)):
                self._append(ConsumptionOp.TRIM, group.name, queue, [least], 0, now_ms)

    def _starts(self, queues: Sequence[ConsumeQueue], group: ConsumerGroup) -> list[int]:
        """Return a new group's start in each queue. Raises NotThawedError with everything missing for it."""
        starts: list[int] = []
        missed: list[Missed] = []
        for queue in queues:
            try:
                starts.append(self._start(queue, group))
            except NotThawedError as error:
                missed += error.missed
        if missed:
            raise NotThawedError(missed)
        return starts

    def _start(self, queue: ConsumeQueue, group: ConsumerGroup) -> int:
        """Return a new group's start in a queue. Dead letters are read from the first: nobody means to skip them."""
        if group.start == EARLIEST or dead_letter_group(queue.topic) is not None:
            return self.thawed.earliest(queue)
        if group.start == LATEST:
            place = self.registry.group_latest_since(group.name)
            found = queue.first_at_or_after(place)
            is_of_this_log = self.registry.origin_of(queue.topic) is None
            cold = self.thawed.offset_of(queue, place) if is_of_this_log and found == queue.min_offset else None
            return found if cold is None else cold
        since = parse_start(group.start)
        assert since is not None
        cold = self.thawed.offset_of(queue, Position(PositionKind.TIME, since))
        return self.engine.first_since(queue, since) if cold is None else cold

    def retry_windows(self, group: str, topic: str) -> dict[int, ConsumeWindow]:
        """Return the group's windows on its retry topic for a topic; none if it has no retries."""
        return self.progress.windows.get((group, retry_topic(group, topic)), {})

    def windows_of(self, group: str) -> dict[str, dict[int, ConsumeWindow]]:
        """Return the group's windows by topic."""
        return self.progress.windows.of_group(group)

    def next_due(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> int | None:
        """Return the time when a message of the topic may come back to the group (0: now), or None."""
        windows = self.progress.windows.get((group.name, topic.name), {})
        retries = self.retry_windows(group.name, topic.name)
        found = (window.next_due() for window in (*windows.values(), *retries.values()))
        return min((due for due in found if due is not None), default=None)

    def has_more(self, topic: Topic, group: ConsumerGroup, now_ms: int) -> bool:
        """True if there are new messages that nobody has looked at, and room to look at them."""
        limit = self.settings.max_in_flight_per_queue
        for queue_id, window in self.windows(topic, group, now_ms).items():
            end = self.engine.dispatcher.queue(topic.name, queue_id).visible_offset
            if window.frontier < min(end, window.base + limit * MAX_SPREAD) and window.unsettled < limit:
                return True
        return False

    def is_full(self, topic: str, group: str) -> bool:
        """True while a queue gives the group no more messages: as many are unsettled as may be."""
        limit = self.settings.max_in_flight_per_queue
        return any(
            window.unsettled >= limit or window.frontier - window.base >= limit * MAX_SPREAD
            for window in self.progress.windows.get((group, topic), {}).values()
        )

    def backlog(self, topic: Topic) -> int:
        """Return how many of the topic's remaining messages its slowest group has not settled."""
        slowest = 0
        for windows in self.progress.windows.of_topic(topic.name).values():
            behind = 0
            for queue_id, window in windows.items():
                if queue_id < topic.queues:
                    queue = self.engine.dispatcher.queue(topic.name, queue_id)
                    least = self.thawed.least(queue)
                    behind += queue.max_offset - max(window.frontier, least) + window.unsettled_from(least)
            slowest = max(slowest, behind)
        return slowest

    def is_drained(self, topic: Topic, queue_id: int) -> bool:
        """True if a queue may be removed: it is empty, or every group that reads the topic has settled all of it."""
        queue = self.engine.dispatcher.queue(topic.name, queue_id)
        if queue.min_offset == queue.max_offset:
            return True
        found = self.progress.windows.of_topic(topic.name).values()
        return bool(found) and all(
            queue_id in windows and windows[queue_id].base >= queue.max_offset for windows in found
        )

    # -- positions -----------------------------------------------------------------------------------------------

    def reset(self, group: ConsumerGroup, queue: ConsumeQueue, queue_offset: int, now_ms: int) -> None:
        """Move the group to an offset."""
        self._append(ConsumptionOp.RESET, group.name, queue, [queue_offset], 0, now_ms)

    def drop_retries(self, group: ConsumerGroup, topic: str, now_ms: int) -> None:
        """Forget the group's pending retries for a topic."""
        name = retry_topic(group.name, topic)
        for queue_id in self.progress.windows.get((group.name, name), {}):
            queue = self.engine.dispatcher.queue(name, queue_id)
            self.reset(group, queue, queue.max_offset, now_ms)

    def _append(
        self,
        op: ConsumptionOp,
        group: str,
        queue: ConsumeQueue,
        offsets: Sequence[int],
        deadline_ms: int,
        now_ms: int,
    ) -> None:
        self.journal.append(op, group, queue.topic, queue.queue_id, offsets, deadline_ms, now_ms)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _hold_back(self, group: str, queue: ConsumeQueue, corrupted: list[int], now_ms: int) -> None:
        has_replicas = self.engine.commit_log.healer is not NO_HEALER
        deadline_ms = now_ms + (HEALING_RETRY_MS if has_replicas else CORRUPTED_RETRY_MS)
        self._append(ConsumptionOp.RENEW, group, queue, corrupted, deadline_ms, now_ms)

    @staticmethod
    def _tell_corrupted(queue: ConsumeQueue, error: CorruptedError) -> None:
        log.error("message is corrupted and held back", topic=queue.topic, error=error.message)

    def _read(self, queue: ConsumeQueue, offsets: Sequence[int]) -> tuple[list[StoredMessage], list[int]]:
        """Return the messages at offsets, and the offsets of corrupted records."""
        items = self._read_items(queue, offsets)
        messages = [item for _, item in items if not isinstance(item, CorruptedError)]
        corrupted: list[int] = []
        if len(messages) < len(items):
            for offset, item in items:
                if isinstance(item, CorruptedError) and not isinstance(item, GoneError):
                    corrupted.append(offset)
                    self._tell_corrupted(queue, item)
        return messages, corrupted

    def _read_items(
        self, queue: ConsumeQueue, offsets: Sequence[int]
    ) -> list[tuple[int, StoredMessage | CorruptedError]]:
        """Return the messages at offsets as far as they are durable; cold ones up to the first not thawed."""
        found: list[tuple[int, StoredMessage | CorruptedError]] = []
        if offsets and min(offsets) < queue.min_offset:
            for offset in offsets:
                if offset < queue.min_offset:
                    page = self.thawed.page(queue, offset)
                    if page is None:
                        return found
                    found.append((offset, page.items.get(offset) or GoneError(f"message {offset} is gone")))
            offsets = [offset for offset in offsets if offset >= queue.min_offset]
        for first, count in ranges_of(offsets) if offsets else ():
            found += enumerate(self.engine.read(queue, first, count), first)
        return found
