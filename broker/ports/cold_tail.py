"""ColdTail: a tail that begins in the tier and continues seamlessly from the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from entrepot.broker.cold.reads import CorruptedRowError
from entrepot.broker.consume.tail import CORRUPTED, QueueTail
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.domain.background import background
from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.position import Position

PAGE: Final = 256
"""Messages of one cold read."""
AGAIN_SECONDS: Final = 1.0
"""Pause before a failed cold read is repeated, in seconds."""
log = structlog.get_logger(__name__)


class ColdReading(Protocol):
    """Reads of the broker, cold ones among them (`broker.ports.reading.Reading`)."""

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int: ...

    def known_minimum(self, queue: ConsumeQueue) -> int: ...

    async def pull(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> Pulled: ...


class ColdTail:
    """A `domain.ports.Tail` over the tier and the disk."""

    def __init__(
        self,
        reading: ColdReading,
        engine: StorageEngine,
        queue: ConsumeQueue,
        start: int | Position,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> None:
        self._reading, self._engine, self._queue = reading, engine, queue
        self._on_messages = on_messages
        self._start = start
        self._next = start if isinstance(start, int) else 0
        self._live: QueueTail | None = None
        self._is_begun = isinstance(start, int)
        self._begun: list[Callable[[], None]] = []
        self._task = background().keep("cold tails", self._catch_up)

    @property
    def next_offset(self) -> int:
        return self._next if self._live is None else self._live.next_offset

    def when_begun(self, callback: Callable[[], None]) -> None:
        if self._is_begun:
            callback()
        else:
            self._begun.append(callback)

    def close(self) -> None:
        self._task.cancel()
        if self._live is not None:
            self._live.close()

    async def _catch_up(self) -> None:
        """Hand on cold pages, until the disk has the next message. A failed cold read is repeated: none is left out."""
        while True:
            try:
                if await self._read():
                    break
            except CorruptedRowError as error:  # as on the disk: it is not handed on
                queue, offset = self._queue, error.queue_offset
                log.error(CORRUPTED, topic=queue.topic, queue=queue.queue_id, offset=offset, problem=error.message)
                self._next = error.queue_offset + 1
            except EntrepotError as error:
                log.warning("a cold read failed", seldom="tier", topic=self._queue.topic, problem=error.message)
                await asyncio.sleep(AGAIN_SECONDS)
        self._live = QueueTail(self._engine, self._queue, self._next, self._on_messages)

    async def _read(self) -> bool:
        """Read one page; True if the disk has the next message."""
        queue = self._queue
        if not self._is_begun:
            assert isinstance(self._start, Position), "only a position has to be found first"
            self._next = await self._reading.offset_at(queue.topic, queue.queue_id, self._start)
            self._is_begun = True
            for fault in call_each(self._begun):
                log.error("a callback of a tail's start failed", topic=queue.topic, exc_info=fault)
        self._next = max(self._next, self._reading.known_minimum(queue))  # earlier messages are gone
        if self._next >= queue.min_offset:
            return True
        pulled = await self._reading.pull(queue.topic, queue.queue_id, self._next, PAGE)
        self._next = pulled.next_offset
        if pulled.messages:
            self._on_messages(pulled.messages)
        return self._next >= queue.min_offset
