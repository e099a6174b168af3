"""Carrying: the last few messages of an old segment are carried forward, so that they do not keep the log.

All topics share one log, and its segments go in order. One message that nobody consumes would keep every byte that is
written after it. So the messages that still need the first segment are written once more at the log's end; then it can
go. A message keeps its queue, offset and times: only its entry leads elsewhere (`broker.store.carried_entries`).

That is done where it pays: the segment is older than the store's retention, so that what is there outlives the rest;
the log is some segments long; at most half of it is needed, as far as sizes tell. In an emergency of the disk the first
segment alone counts, whatever its age: at most half of it may be needed. No message of a queue is ever removed for the
sake of room, but by its topic's retention.

Queues that keep the log for long all the same are told (`Pin`): of a compacted or tiered topic, or with too many such
messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

import structlog

from entrepot.broker.metadata.registry import Registry
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.errors import CorruptedError, StorageFullError
from entrepot.domain.pin import Pin
from entrepot.domain.topic import Cleanup

LEAST_SEGMENTS: Final = 4
"""Segments by which the log may outgrow its first one before messages are carried out of that."""
NEEDED_SHARE: Final = 0.5
"""Share of the log that may be needed (of its first segment in an emergency): else carrying wins little."""
MAX_CARRIED: Final = 200_000
"""Most messages carried out of one segment, and most of one queue: their entries stay in memory."""
STEP_BYTES: Final = 256 << 10
BATCH_BYTES: Final = 8 << 20
"""Bytes carried before they have to be confirmed."""
SAMPLE: Final = 16
"""Entries from which the size of a queue's messages is estimated."""
QUEUES_PER_STEP: Final = 500
MAX_PINS: Final = 10

log = structlog.get_logger(__name__)
Survivors = dict[int, list[tuple[ConsumeQueue, int]]]
"""Messages that need a segment: by commit-log offset, each queue with the queue offset."""


@dataclass(slots=True)
class Carrying:
    """Carries messages out of the log's first segment.  `kept_from`: as that of the cleaner."""

    engine: StorageEngine
    registry: Registry
    retention_seconds: int
    now_ms: Callable[[], int]
    kept_from: Callable[[ConsumeQueue], int | None] = field(default=lambda queue: None)
    carried: int = 0
    """Messages carried forward since the start."""
    pins: list[Pin] = field(default_factory=list)
    """Queues that keep more of the log than retention would, those that keep most first."""

    def run(self, queues: Sequence[ConsumeQueue], *, is_emergency: bool) -> Iterator[None]:
        """Carry what needs the first segment out of it, if that pays; a step at a time."""
        log_, end = self.engine.commit_log, self.engine.commit_log.first_segment_end
        least = (1 if is_emergency else LEAST_SEGMENTS) * log_.layout.segment_size_bytes
        self.pins = []
        if end + least > log_.durable_offset or not (is_emergency or self._is_old(end)):
            return
        needing: dict[ConsumeQueue, int] = {}
        needed_bytes = 0
        for at, queue in enumerate(queues):
            first = queue.first_commit_log_offset()
            if first is not None:
                needed_bytes += 0 if is_emergency else _bytes_of(queue)
                if first < end:
                    needing[queue] = first
            if at % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        reasons = {queue: self._reason(queue, end) for queue in needing}
        others = "too many messages are that old"
        if not any(reasons.values()):
            survivors, size = yield from self._survivors(list(needing), end)
            room = log_.layout.segment_size_bytes if is_emergency else log_.durable_offset - log_.min_offset
            if (size if is_emergency else needed_bytes) > NEEDED_SHARE * room:
                others = "more than half of the log is needed"
            elif len(survivors) <= MAX_CARRIED:
                try:
                    yield from self._carry(survivors, end)
                    return
                except (CorruptedError, StorageFullError) as error:
                    others = error.message
        self._tell(needing, reasons, others)

    def _is_old(self, end: int) -> bool:
        """True if all of the first segment is older than the store's retention."""
        following = next(self.engine.commit_log.scan(end), None)
        return following is not None and following[2].store_time_ms < self.now_ms() - 1000 * self.retention_seconds

    def _reason(self, queue: ConsumeQueue, end: int) -> str:
        """Return why a queue's messages cannot be carried out of the first segment, or nothing."""
        topic = self.registry.topics.get(queue.topic)
        if topic is None or topic.cleanup is Cleanup.COMPACT:
            return "it is compacted, which moves them itself"
        if self.kept_from(queue) is not None:
            return "they are not in the object store yet"
        if queue.first_at_or_after(end) - queue.min_offset > MAX_CARRIED:
            return f"more than {MAX_CARRIED} of them are old"
        return ""

    def _tell(self, needing: dict[ConsumeQueue, int], reasons: dict[ConsumeQueue, str], others: str) -> None:
        end = self.engine.commit_log.durable_offset
        for queue, first in nsmallest(MAX_PINS, needing.items(), key=lambda each: each[1]):
            self.pins.append(Pin(queue.topic, queue.queue_id, end - first, reasons[queue] or others))

    def _survivors(self, queues: Sequence[ConsumeQueue], end: int) -> Generator[None, None, tuple[Survivors, int]]:
        """Find the messages that lie before an offset, of queues that need them, and the bytes of their records."""
        found: Survivors = defaultdict(list)
        total = 0
        for at, queue in enumerate(queues):
            begin, last = queue.min_offset, queue.first_at_or_after(end)
            for queue_offset, (place, size, _) in enumerate(queue.entries(begin, last - begin), begin):
                if place < end:
                    total += 0 if place in found else size
                    found[place].append((queue, queue_offset))
            if len(found) > MAX_CARRIED:
                break
            if at % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        return found, total

    def _carry(self, survivors: Survivors, end: int) -> Iterator[None]:
        """Write messages once more, in the order of the log, and wait until all are confirmed."""
        engine, batch, step, count = self.engine, 0, 0, self.carried
        for place in sorted(survivors):
            wanted = [found for found in survivors[place] if self._is_needed(*found, place)]
            if not wanted:
                continue
            size = engine.carry(wanted, self.now_ms())
            self.carried += 1
            batch, step = batch + size, step + size
            if step >= STEP_BYTES:
                step = 0
                yield
            while batch >= BATCH_BYTES and engine.confirmed_offset < engine.end:
                yield
            batch %= BATCH_BYTES
        while engine.dispatcher.is_carrying:
            yield
        log.info("old messages were carried to the end of the log", messages=self.carried - count, before=end)

    def _is_needed(self, queue: ConsumeQueue, queue_offset: int, place: int) -> bool:
        """True if a message is still there, and its record still at this place."""
        known = self.engine.dispatcher.queues.get((queue.topic, queue.queue_id))
        if known is not queue or queue_offset < queue.min_offset:
            return False
        return queue.entries(queue_offset, 1)[0][0] == place


def _bytes_of(queue: ConsumeQueue) -> int:
    """Return the bytes of a queue's messages; estimated for a long queue."""
    begin, count = queue.min_offset, queue.visible_offset - queue.min_offset
    if count <= SAMPLE:
        return sum(size for _, size, _ in queue.entries(begin, count))
    sampled = [queue.entries(begin + count * at // SAMPLE, 1)[0][1] for at in range(SAMPLE)]
    return sum(sampled) * count // SAMPLE
