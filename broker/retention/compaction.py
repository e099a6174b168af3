"""Compaction: a compacted topic always keeps the last message per key; replaced ones are removed in time.

A queue is shortened at its beginning. A key's last message there is stored once more, at the end, before the minimum
offset passes it. So a reader from the minimum meets every key's last message, and no older one after it. A message with
an empty body deletes its key: it is not stored again.

The work pays for itself: a queue is halved when at least half of it has been replaced. Messages in the oldest segment
move on when the log has grown much beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import Message, StoredMessage, compaction_key

READ_BATCH: Final = 200
LEAST_ENTRIES: Final = 16
KEPT_SEGMENTS: Final = 4
"""Segments by which the log may outgrow the first message of a compacted queue before that moves on."""


@dataclass(slots=True)
class _KnownKeys:
    """The last offset of each key, as far as the queue was read."""

    last: dict[str, int] = field(default_factory=dict)
    read_to: int = 0


class Compaction:
    """Compacts queues, a little at a time."""

    def __init__(self, engine: StorageEngine, now_ms: Callable[[], int]) -> None:
        self._engine = engine
        self._now_ms = now_ms
        self._known: dict[ConsumeQueue, _KnownKeys] = {}

    def run(self, queue: ConsumeQueue) -> Iterator[None]:
        """Shorten a queue, if it is worthwhile."""
        known = self._known.setdefault(queue, _KnownKeys())
        for message in self._messages(queue, max(known.read_to, queue.min_offset), queue.visible_offset):
            if message is None:
                yield
                continue
            known.last[compaction_key(message)] = message.queue_offset
            known.read_to = message.queue_offset + 1
        cut = self._cut(queue, known)
        if cut <= queue.min_offset:
            return
        end = self._engine.end
        for message in self._messages(queue, queue.min_offset, cut):
            if message is None:
                yield
                continue
            self._learn_new(queue, known)
            if known.last.get(compaction_key(message)) != message.queue_offset:
                continue
            if message.body:
                self._store_again(queue, message)
                known.last[compaction_key(message)] = known.read_to
                known.read_to += 1
                end = self._engine.end
            else:
                del known.last[compaction_key(message)]
        while self._engine.confirmed_offset < end:
            yield
        queue.drop_before(cut)
        self._engine.rows.mark(queue.key, queue, self._engine.commit_log.durable_offset)

    def _learn_new(self, queue: ConsumeQueue, known: _KnownKeys) -> None:
        """Look at new messages, durable or not: a message that they replace must not be stored again after them."""
        if known.read_to < queue.max_offset:
            for item in self._engine.read_taken(queue, known.read_to):
                if isinstance(item, CorruptedError):
                    raise item
                known.last[compaction_key(item)] = item.queue_offset
            known.read_to = queue.max_offset

    def forget(self, queues: set[ConsumeQueue]) -> None:
        """Forget all but these queues."""
        self._known = {queue: known for queue, known in self._known.items() if queue in queues}

    def _cut(self, queue: ConsumeQueue, known: _KnownKeys) -> int:
        """Return the offset before which the queue is to be shortened now."""
        entries = queue.visible_offset - queue.min_offset
        cut = queue.min_offset
        if entries >= max(2 * len(known.last), LEAST_ENTRIES):
            cut += entries // 2
        log = self._engine.commit_log
        if log.first_segment_end + KEPT_SEGMENTS * log.layout.segment_size_bytes <= log.durable_offset:
            cut = max(cut, queue.first_at_or_after(log.first_segment_end))
        return cut

    def _messages(self, queue: ConsumeQueue, start: int, end: int) -> Iterator[StoredMessage | None]:
        """Yield the messages of a range of offsets, with None where others may have their turn. Raises CorruptedError:
        a queue that cannot be read is left as it is."""
        while start < end:
            items = self._engine.read(queue, start, min(READ_BATCH, end - start))
            for item in items:
                if isinstance(item, CorruptedError):
                    raise item
                yield item
            if not items:
                return
            start += len(items)
            yield None

    def _store_again(self, queue: ConsumeQueue, message: StoredMessage) -> None:
        copy = Message(**{name: getattr(message, name) for name in Message.__slots__})
        copy.topic, copy.queue_id, copy.further_queues = queue.topic, queue.queue_id, ()
        refusals = self._engine.append_messages([copy], lambda topic, queue_id, size: queue, self._now_ms())
        if refusals is not None and refusals[0] is not None:
            raise refusals[0]
