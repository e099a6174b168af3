"""QueueTail: hands the messages of one queue to a callback as they become servable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.callbacks import hand_over
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage, place_of_message

TAIL_BATCH: Final = 1024
"""Messages handed over in one go, before others get their turn."""

CORRUPTED: Final = "skipped a corrupted message: subscribers do not get it"
"""Log line of a message that a tail leaves out."""
HEALING_SECONDS: Final = 0.1
"""Pause before a record that is being healed is read again, in seconds."""

log = structlog.get_logger(__name__)


class QueueTail:
    """A `domain.ports.Tail` of one queue."""

    def __init__(
        self,
        engine: StorageEngine,
        queue: ConsumeQueue,
        start: int,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> None:
        self._engine = engine
        self._queue = queue
        self._on_messages = on_messages
        self._is_scheduled = False
        self._is_closed = False
        self._next = start
        queue.watchers = (*queue.watchers, self._on_growth)
        engine.dispatcher.follow(queue)
        if self._next < queue.visible_offset:
            self._schedule()

    @property
    def next_offset(self) -> int:
        return self._next

    def when_begun(self, callback: Callable[[], None]) -> None:
        callback()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._queue.watchers = tuple(w for w in self._queue.watchers if w != self._on_growth)

    def _on_growth(self, queue: ConsumeQueue) -> None:
        if not self._is_scheduled:
            self._hand_over()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._hand_over()

    def _hand_over(self) -> None:
        if self._is_closed:
            return
        self._next = max(self._next, self._queue.min_offset)  # earlier messages are gone
        items = self._engine.read(self._queue, self._next, TAIL_BATCH)
        messages = [item for item in items if not isinstance(item, CorruptedError)]
        if len(messages) < len(items):
            items = self._without_healing(items)
            messages = [item for item in items if not isinstance(item, CorruptedError)]
        self._next += len(items)
        for message, fault in hand_over(messages, self._on_messages) if messages else ():
            place = place_of_message(message)
            log.error("a message could not be handed on, the others are", place=place, exc_info=fault)
        if self._next < self._queue.visible_offset and not self._is_closed and not self._is_scheduled:
            self._schedule()

    def _without_healing(self, items: list[StoredMessage | CorruptedError]) -> list[StoredMessage | CorruptedError]:
        """Return the items before the first record that is being healed; reading resumes there a moment later."""
        for at, item in enumerate(items):
            if isinstance(item, CorruptedError):
                place = item.commit_log_offset
                if place is not None and self._engine.commit_log.healer.note(place):
                    self._is_scheduled = True
                    asyncio.get_running_loop().call_later(HEALING_SECONDS, self._run)
                    return items[:at]
                queue = self._queue
                log.error(
                    CORRUPTED, topic=queue.topic, queue=queue.queue_id, offset=self._next + at, problem=item.message
                )
        return items
