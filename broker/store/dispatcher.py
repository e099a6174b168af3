"""Dispatcher: derives everything else from the commit log, live and in recovery by the same code.

Each record kind has one *applier*. Message records go to their consume queues first. A record that also settles the
message it was made from (a dead letter) goes to its applier as well. Appliers must be deterministic and keep no other
source of truth. Their state is saved as rows and follows the rules of `changed_rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.broker.store import record
from entrepot.broker.store.consume_queue import ConsumeQueue, queue_key, read_queue_key
from entrepot.broker.store.lookup import Lookup
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.pending import Pending
from entrepot.broker.store.queue_entries import ENTRY
from entrepot.broker.store.record import KEPT_KINDS, MESSAGE_KINDS, RecordHeader
from entrepot.broker.store.record_placement import Placement, places_of, read_placement
from entrepot.broker.store.record_trailer import Move, carried_places, decode_move, read_further, read_origin
from entrepot.broker.store.watermark import Watermark
from entrepot.domain.errors import CorruptedError
from entrepot.domain.names import is_retry_topic
from entrepot.protocols.wire.stored_record import decode_message

QueueKey = tuple[str, int]


class Applier(Protocol):
    """An applier of records that are not messages."""

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Take one record of its kind."""


class MoveApplier(Protocol):
    """An applier that settles the messages from which dead letters and retries were made."""

    def apply_move(self, move: Move, topic: str, queue_offset: int, commit_log_offset: int) -> None:
        """Take the move of a message that was stored at an offset of a topic's one queue."""


class Dispatcher:
    """The owner of the consume queues. The broker registers the appliers."""

    def __init__(self, files: OpenFiles, rows: ChangedRows, lookup: Lookup, pending: Pending) -> None:
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self.appliers: dict[int, Applier] = {}
        self.move_appliers: dict[int, MoveApplier] = {}
        self.rows = rows
        self.lookup = lookup
        self.pending = pending
        self._files = files
        self.doomed: set[ConsumeQueue] = set()
        self.retired: dict[QueueKey, ConsumeQueue] = {}
        self.queue_count: Callable[[str], int | None] = lambda topic: None
        self.begins_anywhere = False  # all is derived from a log whose beginning is gone
        self.watermark = Watermark()
        self.is_awaited: Callable[[str], bool] = is_retry_topic
        """True for a topic whose new queues are to be followed."""
        self._touched: list[ConsumeQueue] = []
        self._large: list[ConsumeQueue] = []
        self._ids: dict[str, int] = {}
        self._carried: dict[ConsumeQueue, int] = {}
        """Queues with entries whose records were carried forward, by the place of the last of them."""

    # -- queues --------------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int, since: int = 0) -> ConsumeQueue:
        """Return the queue, made by the record at `since` if it is not there yet."""
        key = (topic, queue_id)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.retired.pop(key, None)
            if queue is None:
                queue = ConsumeQueue(self._files, topic, queue_id, since=since, watermark=self.watermark)
                queue.names = self.lookup.dictionary(topic).names
                if self.begins_anywhere:
                    queue.reset(unplaced=True)
                self.rows.mark(queue.key, queue, since)
            self.queues[key] = queue
            self._ids[topic] = max(self._ids.get(topic, 0), queue_id + 1)
            if self.is_awaited(topic):
                self.follow(queue)
        return queue

    def begin_queues(self, topic: str, starts: Sequence[tuple[int, int]], commit_log_offset: int) -> None:
        """Begin queues without messages at the given offsets, as the record at an offset states: earlier messages are
        elsewhere. A queue that has come further stays as it is."""
        for queue_id, first in starts:
            queue = self.queue(topic, queue_id, commit_log_offset)
            is_empty = queue.min_offset >= queue.max_offset
            if is_empty and queue.max_offset < first and max(queue.since, queue.as_of) <= commit_log_offset:
                queue.begin_at(first)
                self.rows.mark(queue.key, queue, commit_log_offset)

    def follow(self, queue: ConsumeQueue) -> None:
        """Report the queue's growth from now on, including messages taken and not visible yet."""
        if not queue.is_followed:
            queue.follow()
            if queue.visible_offset < queue.max_offset:
                queue.is_touched = True
                self._touched.append(queue)

    def first_queues(self, topic: str, count: int) -> list[ConsumeQueue]:
        """Return so many queues of a topic, from the first one on; those that had no message yet, too."""
        return [self.queue(topic, queue_id) for queue_id in range(count)]

    def queues_of(self, topic: str, first_id: int = 0) -> list[ConsumeQueue]:
        """Return the topic's queues from an id on, retired ones included."""
        keys = [(topic, queue_id) for queue_id in range(first_id, self._ids.get(topic, 0))]
        found = (self.queues.get(key) or self.retired.get(key) for key in keys)
        return [queue for queue in found if queue is not None]

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Remove a topic's queues and their files, as the record at an offset states."""
        for queue in self.queues_of(topic):
            if queue.since < commit_log_offset:
                queue.reset()
                self.doomed.discard(queue)
                self.queues.pop((topic, queue.queue_id), None)
                self.retired.pop((topic, queue.queue_id), None)
                self.rows.drop(queue.key, commit_log_offset)
        if not self.queues_of(topic):
            self._ids.pop(topic, None)
            self.lookup.drop_topic(topic, commit_log_offset)

    def retire_queues(self, topic: str, first_id: int, commit_log_offset: int) -> None:
        """Empty the queues that a topic no longer has, as the record at an offset states. They are kept: their offsets
        go on if they come back."""
        for queue in self.queues_of(topic, first_id):
            key = (topic, queue.queue_id)
            has_any = queue.min_offset < queue.max_offset or queue.early
            if queue.as_of <= commit_log_offset and has_any:
                queue.clear()
                self.rows.mark(queue.key, queue, commit_log_offset)
            if key in self.queues:
                self.retired[key] = self.queues.pop(key)

    def settle_places(self) -> None:
        """End recovery: queues of which the log has no trace begin at 0."""
        if self.begins_anywhere:
            self.begins_anywhere = False
            for queue in [*self.queues.values(), *self.retired.values()]:
                queue.settle_place(0)

    def refuse_doomed(self) -> None:
        """Raise CorruptedError for a queue that still lacks messages after the log was read."""
        for queue in self.doomed:
            raise CorruptedError(f"queue {queue.topic}/{queue.queue_id} lacks messages that the log does not have")

    def forget_entries(self, before: int, commit_log_offset: int) -> None:
        """Drop entries before an offset of the log that no record removes; their rows change at `commit_log_offset`."""
        for queue in [*self.queues.values(), *self.retired.values()]:
            first = queue.first_commit_log_offset()
            if first is not None and first < before:
                queue.forget_before(before)
                self.rows.mark(queue.key, queue, commit_log_offset)

    def restore_queue(self, key: bytes, row: bytes) -> None:
        """Make a queue from its row."""
        topic, queue_id = read_queue_key(key)
        count = self.queue_count(topic)
        home = self.queues if count is None or queue_id < count else self.retired
        queue = home[topic, queue_id] = ConsumeQueue(self._files, topic, queue_id, watermark=self.watermark)
        self._ids[topic] = max(self._ids.get(topic, 0), queue_id + 1)
        queue.names = self.lookup.dictionary(topic).names
        queue.restore(row)
        if home is self.queues and self.is_awaited(topic):
            self.follow(queue)

    # -- restatement (`broker.retention.restatement`) ------------------------------------------------------------

    def stale_rows(self, before: int, as_of: int) -> Iterator[tuple[bytes, bytes] | None]:
        """Yield place rows of queues that have no message after `before` in the log."""
        for queue in [*self.queues.values(), *self.retired.values()]:
            is_stale = queue.stated < before and queue.last_commit_log_offset() < before and queue.max_offset
            yield (queue.key, queue.place_row(as_of)) if is_stale else None

    def restate(self, key: bytes, row: bytes, commit_log_offset: int) -> None:
        place = read_queue_key(key)
        queue = self.queues.get(place) or self.retired.get(place)
        if queue is None or queue.max_offset < 0:
            early = {} if queue is None else queue.early
            self.restore_queue(key, row)
            queue = self.queues.get(place) or self.retired[place]
            queue.early = early if self.begins_anywhere else None
            self.rows.mark(key, queue, commit_log_offset)
        queue.stated = commit_log_offset

    # -- entries -------------------------------------------------------------------------------------------------

    def put(self, queue: ConsumeQueue, queue_offset: int, commit_log_offset: int, size: int, hashed: int) -> None:
        """Add a message's entry to its queue."""
        queue.put(queue_offset, commit_log_offset, size, hashed)
        if not (queue.is_touched and queue.is_changed):  # a slice may have been taken since it was touched
            self.touch(queue, commit_log_offset)
        if queue.is_large and not queue.is_followed:
            self._large.append(queue)

    def touch(self, queue: ConsumeQueue, commit_log_offset: int) -> None:
        """Mark the queue as grown, and as changed since the record at an offset."""
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)
        if not queue.is_changed:
            self.rows.mark(queue_key(queue.topic, queue.queue_id), queue, commit_log_offset)

    def taken_topics(self) -> set[str]:
        """Return the topics with messages that were taken and are not visible yet."""
        return {queue.topic for queue in self._touched}

    def place(self, placement: Placement, commit_log_offset: int) -> None:
        """Enter a plain message read from the log into its queue and the lookup (recovery)."""
        topic, queue_id, queue_offset, size, hashed, store_time_ms, sub_topic, message_id, keys = placement
        self._enter(topic, queue_id, queue_offset, size, hashed, sub_topic, commit_log_offset)
        self.note(topic, message_id, keys, commit_log_offset, store_time_ms)

    def note(self, topic: str, message_id: bytes, keys: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Index a message read from the log by id and keys."""
        self.lookup.note(topic, message_id, keys.split(b"\0") if keys else (), commit_log_offset, store_time_ms)

    def _enter(
        self, topic: str, queue_id: int, queue_offset: int, size: int, hashed: int, sub_topic: bytes, offset: int
    ) -> None:
        """Enter a message into a queue.

        The rows may know already that a later record drops the topic. Then the queue is missing, as only records of
        topics make queues. Or a record that changed the topic made it just now, and it lacks earlier messages. Such a
        queue is `doomed` and must be gone when the log has been read.
        """
        key = (topic, queue_id)
        queue = self.queues.get(key) or self.retired.get(key)
        if queue is None:
            if not self.begins_anywhere:
                return
            queue = self.queue(topic, queue_id)
        if offset < queue.since:
            return
        self.lookup.see(queue, hashed, sub_topic.decode(), offset)  # its row may lack it though the queue's has it
        if offset >= queue.as_of:
            if queue_offset > queue.max_offset >= 0 and not queue.as_of:
                self.doomed.add(queue)
            else:
                self.put(queue, queue_offset, offset, size, hashed)

    def dispatch(self, data: bytes, position: int, header: RecordHeader) -> None:
        """Apply one record read from the log (recovery)."""
        kind, offset = header.kind, header.commit_log_offset
        if kind in MESSAGE_KINDS and (carried := carried_places(data, position)) is not None:
            self._dispatch_carried(data, position, header, carried)
            return
        if kind in MESSAGE_KINDS or kind in KEPT_KINDS:
            origin = read_origin(data, position)
            if origin is not None:
                self.pending.settle(origin, offset)
        if kind in MESSAGE_KINDS:
            placement = read_placement(data, position)
            self.place(placement, offset)
            for topic, queue_id, queue_offset in read_further(data, position):
                hashed, sub_topic = placement.filter_hash, placement.sub_topic
                self._enter(topic, queue_id, queue_offset, header.length, hashed, sub_topic, offset)
            if kind in self.move_appliers:
                move = decode_move(data, position)
                if move is None:
                    raise CorruptedError(f"the record at {offset} does not say what it settles")
                self.move_appliers[kind].apply_move(move, placement.topic, placement.queue_offset, offset)
        elif kind in KEPT_KINDS:
            message = decode_message(data, position, offset)
            self.pending.keep(kind, message, offset, header.store_time_ms)
        elif kind in self.appliers:
            payload = data[position + record.HEADER_SIZE : position + header.length]
            self.appliers[kind].apply(payload, offset, header.store_time_ms)

    def _dispatch_carried(self, data: bytes, position: int, header: RecordHeader, carried: Sequence[int]) -> None:
        """Let the entries of a message lead to its record's new place. Whatever the record did at first is done."""
        placement, offset = read_placement(data, position), header.commit_log_offset
        self.note(placement.topic, placement.message_id, placement.keys, offset, placement.store_time_ms)
        entry = ENTRY.pack(offset, header.length, placement.filter_hash)
        places = places_of(placement, data, position)
        for topic, queue_id, queue_offset in [places[number] for number in carried]:
            queue = self.queues.get((topic, queue_id)) or self.retired.get((topic, queue_id))
            if queue is None and self.begins_anywhere:
                queue = self.queue(topic, queue_id)
            if queue is None or offset < max(queue.since, queue.as_of):
                continue
            self.lookup.see(queue, placement.filter_hash, placement.sub_topic.decode(), offset)
            queue.put_carried(queue_offset, entry)
            self.rows.mark(queue.key, queue, offset)

    def carry(self, queue: ConsumeQueue, queue_offset: int, entry: bytes, commit_log_offset: int) -> None:
        """Let an entry lead to its record's new place, just appended, once that is confirmed."""
        if queue.coming is None:
            queue.coming = []
        queue.coming.append((queue_offset, entry))
        self._carried[queue] = commit_log_offset
        self.rows.mark(queue.key, queue, commit_log_offset)

    @property
    def is_carrying(self) -> bool:
        """True while records carried forward are not confirmed."""
        return bool(self._carried)

    def _confirm_carried(self, durable_offset: int) -> None:
        for queue in [queue for queue, last in self._carried.items() if last < durable_offset]:
            del self._carried[queue]
            queue.confirm_carried()

    def advance(self, durable_offset: int) -> list[ConsumeQueue]:
        """Make durable entries visible; return the followed queues that have new ones."""
        self.watermark.offset = durable_offset
        if self._carried:
            self._confirm_carried(durable_offset)
        touched, self._touched = self._touched, []
        grown = []
        for queue in touched:
            if queue.has_grown():
                grown.append(queue)
                if queue.is_large:
                    queue.flush_visible()
            if queue.visible_offset < queue.max_offset:
                self._touched.append(queue)
            else:
                queue.is_touched = False
        if self._large:
            large, self._large = self._large, []
            for queue in dict.fromkeys(large):
                queue.flush_visible()
        return grown
