"""Dispatcher: derives everything else from the commit log, live and in recovery by the same code.

A record kind has one *applier*.  Message records go to their consume queue first; a dead letter also to the applier
that settles the message it was made from.  Appliers must be deterministic and keep no other source of truth.
"""

from __future__ import annotations

from typing import Any, Protocol

from broker.store import record
from broker.store.consume_queue import ConsumeQueue
from broker.store.open_files import OpenFiles
from broker.store.record import Placement, RecordHeader, RecordKind
from domain.message import Message

QueueKey = tuple[str, int]


class Applier(Protocol):
    """Something derived from the log."""

    def apply(self, payload: bytes, commit_log_offset: int, store_time_ms: int) -> None:
        """Take one record of its kind."""
        ...

    def snapshot(self) -> Any:
        """All of its state, as msgpack can carry it."""
        ...

    def restore(self, state: Any) -> None:
        """The reverse, into a fresh one."""
        ...


class DeadLetterApplier(Protocol):
    """Settles the origin of dead letters."""

    def apply_dead_letter(self, message: Message) -> None: ...


class Dispatcher:
    """Owns the consume queues; the appliers are registered by the broker."""

    def __init__(self, files: OpenFiles) -> None:
        self.queues: dict[QueueKey, ConsumeQueue] = {}
        self.appliers: dict[int, tuple[str, Applier]] = {}
        self.dead_letters: DeadLetterApplier | None = None
        self._files = files
        self._touched: list[ConsumeQueue] = []

    def register(self, kind: RecordKind, section: str, applier: Applier) -> None:
        """Let `applier` have the records of a kind, and its snapshot kept under a name."""
        self.appliers[kind] = (section, applier)

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made if it is not there yet."""
        key = (topic, queue_id)
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = ConsumeQueue(self._files, topic, queue_id)
        return queue

    def drop_topic(self, topic: str) -> None:
        """Forget a topic's queues and their files."""
        for key in [k for k in self.queues if k[0] == topic]:
            self.queues.pop(key).reset()

    def put(self, queue: ConsumeQueue, queue_offset: int, commit_log_offset: int, size: int, hashed: int) -> None:
        """Enter a message into its queue."""
        queue.put(queue_offset, commit_log_offset, size, hashed)
        if not queue.is_touched:
            self.touch(queue)

    def touch(self, queue: ConsumeQueue) -> None:
        """Remember that the queue has entries that are to become visible."""
        queue.is_touched = True
        self._touched.append(queue)

    def place(self, placement: Placement, commit_log_offset: int) -> None:
        """Enter a plain message read from the log into its queue (recovery)."""
        topic, queue_id, queue_offset, size, hashed = placement
        queue = self.queues.get((topic, queue_id)) or self.queue(topic, queue_id)
        self.put(queue, queue_offset, commit_log_offset, size, hashed)

    def dispatch(self, data: bytes, position: int, header: RecordHeader) -> None:
        """Apply one record read from the log (recovery)."""
        kind = header.kind
        if kind in (RecordKind.MESSAGE, RecordKind.DEAD_LETTER):
            topic, queue_id, queue_offset, hashed = record.decode_route(data, position)
            self.put(self.queue(topic, queue_id), queue_offset, header.commit_log_offset, header.length, hashed)
            if kind == RecordKind.DEAD_LETTER and self.dead_letters is not None:
                self.dead_letters.apply_dead_letter(record.decode_message(data, position, header.commit_log_offset))
        elif kind in self.appliers:
            payload = data[position + record.HEADER_SIZE : position + header.length]
            self.appliers[kind][1].apply(payload, header.commit_log_offset, header.store_time_ms)

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
