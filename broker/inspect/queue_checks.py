"""Checks of consume queues: rows against files, and entries against the records of the log."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from entrepot.broker.inspect.findings import Findings
from entrepot.broker.inspect.log_files import LogFiles, Record
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.consume_queue import ConsumeQueue, read_queue_key
from entrepot.broker.store.dispatcher import QueueKey
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.broker.store.record import MESSAGE_KINDS
from entrepot.broker.store.record_placement import places_of, read_placement
from entrepot.broker.store.record_trailer import carried_places
from entrepot.broker.store.state_file import Rows
from entrepot.domain.errors import CorruptedError

SAMPLE: Final = 16
"""Entries of each queue to be checked, unless all are."""
BATCH: Final = 64
BLOCK: Final = 1024
MOST_BLOCKS: Final = 512
"""Entries read at once in a walk through the log, and number of such blocks kept."""


def check_files(
    files: OpenFiles, rows: Rows, store: OpenedStore | None, findings: Findings, *, was_unclean: bool
) -> None:
    """Check each queue's files against the checksums in its row. (Recovery rebuilds a queue with corrupted files.)

    Files are removed before the row, and before the record of it is durable. So after an unclean end, files of a
    dropped or emptied queue are not missed.
    """
    for key, value in rows.items():
        if key[:1] != b"q":
            continue
        topic, queue_id = read_queue_key(key)
        queue = ConsumeQueue(files, topic, queue_id)
        queue.restore(value)
        if queue.is_intact() or (store is not None and not _is_kept(store, queue)):
            continue
        if was_unclean and not os.path.isdir(queue.directory):
            findings.note(
                "queue-file", f"the queue {topic}/{queue_id} has no files: it was being dropped, and is rebuilt"
            )
        else:
            findings.derived("queue-file", f"a file of the queue {topic}/{queue_id} is missing, cut or corrupted")


def _is_kept(store: OpenedStore, row: ConsumeQueue) -> bool:
    key, dispatcher = (row.topic, row.queue_id), store.engine.dispatcher
    found = dispatcher.queues.get(key) or dispatcher.retired.get(key)
    return found is not None and found.since == row.since and found.min_offset < row.flushed_entries


def check_topics(store: OpenedStore, findings: Findings) -> None:
    """Check queues and topics against each other."""
    topics, queues = store.registry.topics, store.engine.dispatcher.queues
    for topic, queue_id in sorted({*queues, *store.engine.dispatcher.retired}):
        if topic not in topics:
            findings.derived("orphaned-queue", f"the queue {topic}/{queue_id} is of a topic that is not there")
    for definition in topics.values():
        for queue_id in range(definition.queues):
            if (definition.name, queue_id) not in queues:
                findings.derived("missing-queue", f"the topic {definition.name} has no queue {queue_id}")


def describe(store: OpenedStore) -> list[dict[str, Any]]:
    """Return each queue in numbers."""
    dispatcher = store.engine.dispatcher
    return [
        {
            "topic": topic,
            "queue": queue_id,
            "minOffset": queue.min_offset,
            "maxOffset": queue.max_offset,
            "inFiles": max(queue.flushed_entries - queue.min_offset, 0),
            "inRow": queue.max_offset - queue.flushed_entries,
            "retired": (topic, queue_id) in dispatcher.retired,
        }
        for (topic, queue_id), queue in sorted({**dispatcher.queues, **dispatcher.retired}.items())
    ]


def check_samples(store: OpenedStore, findings: Findings) -> int:
    """Check some entries of each queue, with the first and the last; return their number."""
    checked = 0
    for queue in _queues(store):
        low, count = queue.min_offset, queue.visible_offset - queue.min_offset
        step = max(-(-count // SAMPLE), 1)
        offsets = sorted({*range(low, low + count, step), low + count - 1}) if count > 0 else []
        checked += check_entries(store, queue, offsets, findings)
    return checked


def check_entries(store: OpenedStore, queue: ConsumeQueue, offsets: Iterable[int], findings: Findings) -> int:
    """Check entries of one queue: each must lead to a whole record that matches it. Returns their number."""
    checked, previous = 0, -1
    for batch in _batches(offsets):
        try:
            places = [(offset, entry) for offset in batch for entry in queue.entries(offset, 1)]
        except CorruptedError as error:
            findings.derived("queue-file", error.message)
            return checked
        for (offset, entry), item in zip(places, store.engine.read_places(queue, places), strict=True):
            name = f"entry {offset} of the queue {queue.topic}/{queue.queue_id}"
            checked += 1
            if entry[0] <= previous and offset > queue.ordered_from:
                findings.derived("queue-entry", f"{name} does not lie after the one before it")
            previous = entry[0]
            if isinstance(item, CorruptedError):
                findings.damage("queue-entry", f"{name} leads to no message of its own: {item.message}")
            elif item.filter_hash != entry[2]:
                findings.derived("queue-entry", f"{name} has another filter hash than its record at {entry[0]}")
    return checked


class EntryWalk:
    """A check of all entries in log order. Each record is looked up in its queues; leftover entries of a queue have no
    record of their own."""

    def __init__(self, store: OpenedStore, findings: Findings) -> None:
        self._store = store
        self._findings = findings
        self._met: dict[QueueKey, int] = {}
        self._blocks: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()

    def run(self, log: LogFiles) -> int:
        """Run the check; return the number of entries."""
        end = self._store.engine.end
        for found in log.scan():
            if isinstance(found, Record) and found.header.kind in MESSAGE_KINDS:
                if found.header.commit_log_offset >= end:
                    break
                self._take(found)
        checked = 0
        for queue in _queues(self._store):
            count = queue.visible_offset - queue.min_offset
            checked += count
            if self._met.get((queue.topic, queue.queue_id), 0) != count:
                check_entries(self._store, queue, range(queue.min_offset, queue.visible_offset), self._findings)
        return checked

    def _take(self, found: Record) -> None:
        placement = read_placement(found.data, found.position)
        is_carried = carried_places(found.data, found.position) is not None
        expected = ENTRY.pack(found.header.commit_log_offset, found.header.length, placement.filter_hash)
        for topic, queue_id, offset in places_of(placement, found.data, found.position):
            key = (topic, queue_id)
            dispatcher = self._store.engine.dispatcher
            queue = dispatcher.queues.get(key) or dispatcher.retired.get(key)
            if queue is None or found.header.commit_log_offset < queue.since or offset < queue.min_offset:
                continue
            entry = self._entry(queue, offset)
            if entry == expected:
                self._met[key] = self._met.get(key, 0) + 1
            elif is_carried or offset < queue.ordered_from:
                continue  # the record was carried forward, or has been since
            else:
                told = f"the entry leads to {ENTRY.unpack(entry)[0]}" if entry else "there is no entry"
                place = f"{topic}/{queue_id}/{offset}"
                self._findings.derived(
                    "queue-entry", f"the record at {found.header.commit_log_offset} is {place}, and {told}"
                )

    def _entry(self, queue: ConsumeQueue, offset: int) -> bytes:
        number, within = divmod(offset - queue.min_offset, BLOCK)
        key = (queue.topic, queue.queue_id, number)
        block = self._blocks.get(key)
        if block is None:
            try:
                block = queue.raw(queue.min_offset + number * BLOCK, BLOCK)
            except CorruptedError:
                block = b""
            if len(self._blocks) >= MOST_BLOCKS:
                self._blocks.popitem(last=False)
            self._blocks[key] = block
        else:
            self._blocks.move_to_end(key)
        return block[within * ENTRY_SIZE : (within + 1) * ENTRY_SIZE]


def _queues(store: OpenedStore) -> list[ConsumeQueue]:
    dispatcher = store.engine.dispatcher
    return [queue for _, queue in sorted({**dispatcher.queues, **dispatcher.retired}.items())]


def _batches(offsets: Iterable[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    for offset in offsets:
        batch.append(offset)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch
