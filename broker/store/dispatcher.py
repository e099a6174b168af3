"""Dispatcher: derives everything else from the commit log, live and in recovery by the same code.

A record kind has one *applier*.  Message records go to their consume queues first; one that also settles the message
it was made from (a dead letter) goes to the applier that knows it as well.  Appliers must be deterministic and keep no
other source of truth; what they keep is saved as rows (`changed_rows.py`), whose rules they follow.
"""

from __future__ import annotations

from typing import Protocol

from broker.store import record
from broker.store.changed_rows import ChangedRows
from broker.store.consume_queue import ConsumeQueue, queue_key, read_queue_key
from broker.store.open_files import OpenFiles
from broker.store.record import MESSAGE_KINDS, Placement, RecordHeader, RecordKind
from domain.message import StoredMessage

QueueKey = tuple[str, int]


class Applier(Protocol):
    """Something derived from the log, out of records that are not messages."""

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Take one record of its kind."""
        ...


class MessageApplier(Protocol):
    """Something derived from message records of a kind, beside their consume queues."""

    def apply_message(self, message: StoredMessage) -> None:
        """Take one record of its kind."""
        ...


class Dispatcher:
    """Owns the consume queues; the appliers are registered by the broker."""

    def __init__(self, files: OpenFiles, rows: ChangedRows) -> None:
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self.appliers: dict[int, Applier] = {}
        self.message_appliers: dict[int, MessageApplier] = {}
        self.rows = rows
        self.doomed: set[ConsumeQueue] = set()
        self._files = files
        self._touched: list[ConsumeQueue] = []
        self._ids: dict[str, int] = {}

    # -- queues --------------------------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int, since: int = 0) -> ConsumeQueue:
        """The queue, made by the record at `since` if it is not there yet."""
        key = (topic, queue_id)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = ConsumeQueue(self._files, topic, queue_id, since=since)
            self._ids[topic] = max(self._ids.get(topic, 0), queue_id + 1)
            self.rows.mark(queue.key, queue, since)
        return queue

    def queues_of(self, topic: str, first_id: int = 0) -> list[ConsumeQueue]:
        """The topic's queues from an id on, those of ids that it has no more included."""
        ids = range(first_id, self._ids.get(topic, 0))
        return [queue for queue_id in ids if (queue := self.queues.get((topic, queue_id))) is not None]

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Forget a topic's queues and their files, as the record at an offset says."""
        for queue in self.queues_of(topic):
            if queue.since < commit_log_offset:
                queue.reset()
                self.doomed.discard(queue)
                del self.queues[topic, queue.queue_id]
                self.rows.drop(queue.key, commit_log_offset)
        if not self.queues_of(topic):
            self._ids.pop(topic, None)

    def clear_queues(self, topic: str, first_id: int, commit_log_offset: int) -> None:
        """Empty the queues that a topic has no more, as the record at an offset says; their offsets go on if they come
        back."""
        for queue in self.queues_of(topic, first_id):
            if queue.as_of <= commit_log_offset and queue.min_offset < queue.max_offset:
                queue.clear()
                self.rows.mark(queue.key, queue, commit_log_offset)

    def restore_queue(self, key: bytes, row: bytes) -> None:
        """Make a queue from its row."""
        topic, queue_id = read_queue_key(key)
        queue = self.queues[topic, queue_id] = ConsumeQueue(self._files, topic, queue_id)
        self._ids[topic] = max(self._ids.get(topic, 0), queue_id + 1)
        queue.restore(row)

    # -- entries -------------------------------------------------------------------------------------------------

    def put(self, queue: ConsumeQueue, queue_offset: int, commit_log_offset: int, size: int, hashed: int) -> None:
        """Enter a message into its queue."""
        queue.put(queue_offset, commit_log_offset, size, hashed)
        if not (queue.is_touched and queue.is_changed):  # a slice may have been taken since it was touched
            self.touch(queue, commit_log_offset)

    def touch(self, queue: ConsumeQueue, commit_log_offset: int) -> None:
        """Remember that the queue has entries that are to become visible and to be saved, from that record on."""
        if not queue.is_touched:
            queue.is_touched = True
            self._touched.append(queue)
        if not queue.is_changed:
            self.rows.mark(queue_key(queue.topic, queue.queue_id), queue, commit_log_offset)

    def place(self, placement: Placement, commit_log_offset: int) -> None:
        """Enter a plain message read from the log into its queue (recovery).

        The rows may know already that a later record drops the topic.  Then the queue is not there (queues are made by
        records of topics, never by messages), or was made just now by a record that changed the topic, and lacks what
        came before: such a queue is `doomed`, and must be gone when the log has been read.
        """
        topic, queue_id, queue_offset, size, hashed = placement
        queue = self.queues.get((topic, queue_id))
        if queue is not None and commit_log_offset >= queue.as_of and commit_log_offset >= queue.since:
            if queue_offset > queue.max_offset and not queue.as_of:
                self.doomed.add(queue)
                return
            self.put(queue, queue_offset, commit_log_offset, size, hashed)

    def dispatch(self, data: bytes, position: int, header: RecordHeader) -> None:
        """Apply one record read from the log (recovery)."""
        kind, offset = header.kind, header.commit_log_offset
        if kind in MESSAGE_KINDS:
            for topic, queue_id, queue_offset, hashed in record.decode_routes(data, position):
                self.place((topic, queue_id, queue_offset, header.length, hashed), offset)
            if kind in self.message_appliers:
                self.message_appliers[kind].apply_message(record.decode_message(data, position, offset))
        elif kind in self.appliers:
            payload = data[position + record.HEADER_SIZE : position + header.length]
            self.appliers[kind].apply(payload, offset, header.store_time_ms)

    def advance(self, durable_offset: int) -> list[ConsumeQueue]:
        """Make durable entries visible; returns the queues that have new ones."""
        touched, self._touched = self._touched, []
        grown = []
        for queue in touched:
            if queue.advance(durable_offset):
                grown.append(queue)
            if queue.visible_offset < queue.max_offset:
                self._touched.append(queue)
            else:
                queue.is_touched = False
        return grown


__all__ = ["Applier", "Dispatcher", "MessageApplier", "QueueKey", "RecordKind"]
