"""Cleaner: removes data that is no longer needed, a little at a time.

A round looks at every queue. Entries beyond their topic's retention become unreadable: the queue's minimum offset
passes them. Retention is by age, by size, or up to the offset settled by every group (for topics that keep unsettled
messages). Then the log's oldest segments go, as long as no entry of a queue lies in them. Before a segment is deleted,
its other facts that still hold are stated again (`restatement.py`). Pending messages move to the end of the log, and
the state file must have all of it.

Messages that would keep the log's first segment beyond retention are carried to its end (`carrying.py`).

Invariant: a segment is deleted only when every question can be answered, and everything derived again, without it.

ADR 14: said again, then deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import structlog

from entrepot.broker.consume.progress import Progress
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.retention.beginning import removal_until
from entrepot.broker.retention.carrying import Carrying
from entrepot.broker.retention.compaction import Compaction
from entrepot.broker.retention.restatement import Restatements
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.pending import PendingOp, encode_pending
from entrepot.broker.store.record import (
    KEPT_KINDS,
    RecordKind,
)
from entrepot.broker.store.record_trailer import Origin
from entrepot.domain.errors import CorruptedError, StorageFullError
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import dead_letter_group, is_retry_topic
from entrepot.domain.topic import Cleanup, Topic

QUEUES_PER_STEP: Final = 500
KEPT_PER_STEP: Final = 200
SIZE_CHUNK: Final = 16_384

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Cleaner:
    """A cleaner. `retention_seconds`: default of topics without their own. `is_saved`: True if the state file has all
    before an offset; a call also requests it. `kept_from`: offset from which only this disk has a queue's messages, or
    None if that does not matter."""

    engine: StorageEngine
    registry: Registry
    progress: Progress
    restatements: Restatements
    retention_seconds: int
    now_ms: Callable[[], int]
    is_saved: Callable[[int], bool]
    kept_from: Callable[[ConsumeQueue], int | None] = field(default=lambda queue: None)
    compaction: Compaction = field(init=False)
    carrying: Carrying = field(init=False)
    deleted_segments: int = 0
    is_emergency: bool = False
    kept_bytes: int = 0
    """Bytes of the log kept only for `kept_from`, as of the last round."""

    def __post_init__(self) -> None:
        self.compaction = Compaction(self.engine, self.now_ms)
        self.carrying = Carrying(
            self.engine, self.registry, self.retention_seconds, self.now_ms, lambda queue: self.kept_from(queue)
        )

    def round(self) -> Iterator[None]:
        """Run one round, a step at a time."""
        carried = -1
        while carried < self.carrying.carried:  # a segment of which the last messages were carried away can go now
            carried = self.carrying.carried
            needed = yield from self._look()
            yield
            yield from self._delete_segments(needed)
            if needed < self.engine.commit_log.first_segment_end:
                yield from self.carrying.run(self._queues(), is_emergency=self.is_emergency)
            else:
                self.carrying.pins = []

    def _queues(self) -> list[ConsumeQueue]:
        return [*self.engine.dispatcher.queues.values(), *self.engine.dispatcher.retired.values()]

    def _look(self) -> Generator[None, None, int]:
        """Look at every queue; return the offset of the log from which on it is needed."""
        needed = free = self.engine.end  # `free`: the offset needed if `kept_from` kept nothing
        queues = self._queues()
        settled = self._settled_offsets()
        if self.registry.compacted:
            self.compaction.forget({queue for queue in queues if queue.topic in self.registry.compacted})
        for at, queue in enumerate(queues):
            cut = self._expire(queue, settled)
            if queue.topic in self.registry.compacted:
                yield from self._compact(queue)
            first = queue.first_commit_log_offset()
            if first is not None:
                needed = min(needed, first)
                free = min(free, first if cut <= queue.min_offset else _place_of(queue, cut, free))
            elif queue.min_offset < queue.max_offset:
                needed = min(needed, self.engine.commit_log.durable_offset)  # its entries are not durable yet
            if at % QUEUES_PER_STEP == QUEUES_PER_STEP - 1:
                yield
        self.kept_bytes = max(0, min(free, self.engine.commit_log.durable_offset) - needed)
        return needed

    # -- queues --------------------------------------------------------------------------------------------------

    def _settled_offsets(self) -> dict[tuple[str, int], int]:
        """Return by queue the offset up to which every group that reads it has settled all."""
        settled: dict[tuple[str, int], int] = {}
        for (_, name), windows in self.progress.windows.items():
            topic = self.registry.topics.get(name)
            if topic is None or topic.cleanup is not Cleanup.CONSUMED:
                continue
            for queue_id, window in windows.items():
                key = (name, queue_id)
                settled[key] = min(settled.get(key, window.base), window.base)
        return settled

    def _expire(self, queue: ConsumeQueue, settled: dict[tuple[str, int], int]) -> int:
        """Remove old entries as far as they may go; return the end of the old ones."""
        before = cut = queue.min_offset
        if before >= queue.visible_offset:
            return before
        topic = self.registry.topics.get(queue.topic)
        if topic is None:
            return before
        try:
            cut, limit = self._cut(topic, queue, settled), self.kept_from(queue)
            queue.drop_before(cut if limit is None else max(before, min(cut, limit)))
        except CorruptedError as error:
            log.error("retention cannot read a queue", topic=queue.topic, queue=queue.queue_id, error=error.message)
        if queue.min_offset > before:
            self.engine.rows.mark(queue.key, queue, self.engine.commit_log.durable_offset)
        return cut

    def _compact(self, queue: ConsumeQueue) -> Iterator[None]:
        try:
            yield from self.compaction.run(queue)
        except StorageFullError:
            return  # the next round tries again
        except CorruptedError as error:
            log.error("a queue cannot be compacted", topic=queue.topic, queue=queue.queue_id, error=error.message)

    def _cut(self, topic: Topic, queue: ConsumeQueue, settled: dict[tuple[str, int], int]) -> int:
        """Return the first offset that is kept."""
        if topic.cleanup is Cleanup.CONSUMED:
            return settled.get((queue.topic, queue.queue_id), queue.min_offset)
        cut = queue.min_offset
        if topic.cleanup is Cleanup.COMPACT:
            return cut
        age_ms = 1000 * (self.retention_seconds if topic.retention_seconds is None else topic.retention_seconds)
        oldest = self.now_ms() - age_ms
        commit_log_offset, size, _ = queue.entries(cut, 1)[0]
        if self.engine.commit_log.read_header(commit_log_offset, size).store_time_ms < oldest:
            cut = self.engine.first_since(queue, oldest)
        if topic.retention_bytes is not None:
            cut = max(cut, _first_within(queue, -(-topic.retention_bytes // topic.queues)))
        if self.is_emergency and not (is_retry_topic(queue.topic) or dead_letter_group(queue.topic)):
            end = self.engine.commit_log.first_segment_end
            if end <= self.engine.commit_log.durable_offset:  # else it is still being written, and cannot go
                cut = max(cut, queue.first_at_or_after(end))
        return cut

    # -- segments ------------------------------------------------------------------------------------------------

    def _delete_segments(self, needed: int) -> Iterator[None]:
        commit_log, engine = self.engine.commit_log, self.engine
        while (end := commit_log.first_segment_end) <= min(needed, commit_log.durable_offset):
            yield from self._move_kept(end)
            yield from self.restatements.say_again(end, lambda: engine.end, self._append)
            self._append(removal_until(end))
            said = engine.end
            while engine.confirmed_offset < said or engine.is_removing or not self.is_saved(said):
                yield
            engine.remove_first_segment()
            engine.lookup.index.drop_before(end)
            self.deleted_segments += 1
            log.info("a segment of the commit log was deleted", ends_at=end)
            yield

    def _append(self, payload: bytes) -> None:
        self.engine.append_record(RecordKind.RESTATEMENT, payload, self.now_ms())

    def _move_kept(self, end: int) -> Iterator[None]:
        """Move messages waiting for their time or a commit, in records before an offset, to the end of the log."""
        pending, moved = self.engine.pending, 0
        for offset in pending.offsets_before(end):
            message = self.engine.commit_log.message_at(offset, KEPT_KINDS)
            if message is None:
                continue
            half = pending.halves.at(offset)
            if half is None:
                time_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
                assert time_ms is not None, "it waits for its time"
                self.engine.keep(RecordKind.TIMED, message, Origin(offset, time_ms), self.now_ms())
            else:
                due_ms, checks = half.due_ms, half.checks
                moved_to = self.engine.keep(RecordKind.HALF, message, Origin(offset, 0), self.now_ms())
                payload = encode_pending(PendingOp.CHECK, moved_to, due_ms, checks)
                self.engine.append_record(RecordKind.PENDING, payload, self.now_ms())
            moved += 1
            if moved % KEPT_PER_STEP == 0:
                yield


def _place_of(queue: ConsumeQueue, offset: int, otherwise: int) -> int:
    """Return the commit-log offset of an entry's record, or `otherwise` at the queue's end."""
    found = queue.entries(offset, 1)
    return found[0][0] if found else otherwise


def _first_within(queue: ConsumeQueue, budget_bytes: int) -> int:
    """Return the first offset from which a queue's records have at most `budget_bytes`."""
    end, total = queue.visible_offset, 0
    while end > queue.min_offset:
        start = max(queue.min_offset, end - SIZE_CHUNK)
        raw = queue.raw(start, end - start)
        sizes = np.ndarray((len(raw) // ENTRY_SIZE,), ">u4", raw, 8, (ENTRY_SIZE,))[::-1]
        sums = total + np.cumsum(sizes, dtype=np.int64)
        if sums[-1] > budget_bytes:
            return end - int(np.searchsorted(sums, budget_bytes, side="right"))
        total, end = int(sums[-1]), start
    return queue.min_offset
