"""Handing out: the records that pops claimed, read once the claim is durable."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from entrepot.broker.cold.records import record_of
from entrepot.broker.consume.handle_mint import HandleContext
from entrepot.broker.consume.settling import Settling
from entrepot.broker.consume.window import ConsumeWindow, DeliveredRun
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.record_reading import Entry
from entrepot.domain.delivery import Deliveries, Part
from entrepot.domain.errors import CorruptedError
from entrepot.domain.ports import MAX_POP_MESSAGES
from entrepot.protocols.wire.record_run import RecordRun


class ClaimedRun(NamedTuple):
    """Neighbours of one queue that a pop has claimed and nobody has read yet. `queue_id` is the one in the handles.
    `entries`: of the queue, if read already. `cold`: the first records, which are not on the disk."""

    queue: ConsumeQueue
    queue_id: int
    since: int
    run: DeliveredRun
    entries: list[Entry] | None = None
    cold: Sequence[bytes | CorruptedError] = ()


class HandingOut(Settling):
    """The way from claims to deliveries."""

    __slots__ = ()

    def _claimed(
        self,
        queue: ConsumeQueue,
        window: ConsumeWindow,
        marked_id: int,
        offsets: Sequence[int],
        most: int = MAX_POP_MESSAGES,
    ) -> list[ClaimedRun]:
        """Return the claimed runs. Raises NotThawedError for cold messages of an earlier pop."""
        runs = window.delivered_runs(offsets, most)
        since = window.since
        if window.base < queue.min_offset:
            return [ClaimedRun(queue, marked_id, since, run, None, self._cold_records(queue, run)) for run in runs]
        return [ClaimedRun(queue, marked_id, since, run) for run in runs]

    def _cold_records(self, queue: ConsumeQueue, run: DeliveredRun) -> list[bytes | CorruptedError]:
        end = min(run.first + run.length, queue.min_offset)
        items = [self.thawed.item(queue, offset) for offset in range(run.first, end)]
        return [item if isinstance(item, CorruptedError) else record_of(item) for item in items]

    def hand_out(self, topic: str, group: str, claimed: Sequence[ClaimedRun], now_ms: int) -> Deliveries:
        """Read claimed records, which are durable by now. Corrupted ones are held back, alone. Left out are messages
        deleted since, and those of a group deleted or reset: their handles would be the next group's."""
        context, queues = self.context(topic, group), self.engine.dispatcher.queues
        parts: list[Part] = []
        for each in claimed:
            queue = each.queue
            window = self._window_of(topic, group, each.queue_id)
            is_of_now = window is not None and window.since == each.since
            if is_of_now and queues.get((queue.topic, queue.queue_id)) is queue:
                found, corrupted = self._read_claimed(each, context)
                parts += found
                self._hold_back(group, queue, corrupted, now_ms)
        return Deliveries(parts)

    def _read_claimed(self, claimed: ClaimedRun, context: HandleContext) -> tuple[list[Part], list[int]]:
        """Return runs of whole records, and the offsets of corrupted ones."""
        queue, queue_id, since, (_, _, stamp, attempt), _, _ = claimed
        parts: list[Part] = []
        corrupted: list[int] = []
        start, items = self._items_of(claimed)
        records: list[bytes] = []
        for offset, item in enumerate([*items, None], start):
            if isinstance(item, bytes):
                records.append(item)
                continue
            if records:
                at = offset - len(records)
                mint = partial(context.mint, queue_id, at, len(records), stamp)
                parts.append((RecordRun(queue_id, self.epoch, since, at, stamp, attempt, mint), records))
                records = []
            if item is not None:
                corrupted.append(offset)
                self._tell_corrupted(queue, item)
        return parts, corrupted

    def _items_of(self, claimed: ClaimedRun) -> tuple[int, Sequence[bytes | CorruptedError]]:
        """Return a run's records and first offset. Messages gone from the disk since come again at their deadline."""
        queue, _, _, (first, count, _, _), entries, cold = claimed
        at = first + len(cold)
        start = max(at, queue.min_offset)
        if start > at and cold:
            return first, cold
        if entries is None or start > first:
            entries = queue.claimed_entries(start, first + count - start)
        items = self.engine.read_records(queue, start, entries)
        return (first, [*cold, *items]) if cold else (start, items)
