"""StreamFeed: the consumers of one stream on this gateway; each reads the queue for itself.

Nothing is removed from a stream; an acknowledgement only gives the consumer more credit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store, Tail
from entrepot.domain.position import LATEST_POSITION, Position
from entrepot.gateway.amqp.feeds.consumers import FeedConsumer

READ_MESSAGES: Final = 100
PAUSE_SECONDS: Final = 0.5
"""Pause of a reader that the store refuses."""

log = structlog.get_logger(__name__)


class StreamConsumer(FeedConsumer, Protocol):
    """A consumer of a stream."""

    @property
    def start(self) -> int | Position | None:
        """Its start: an offset, a position, or None for the last message."""

    def take_of_stream(self, messages: Sequence[StoredMessage]) -> None:
        """Send them; no more than `credit`."""


class StreamFeed:
    """The feed of one stream, with the methods of `QueueFeed` for its consumers."""

    def __init__(self, store: Store, topic: str, group: str) -> None:
        self.topic, self.group = topic, group
        self.consumers: dict[StreamConsumer, asyncio.Task[None]] = {}
        self._store = store
        self._wakers: dict[StreamConsumer, asyncio.Event] = {}
        self._tail: Tail | None = None

    def add(self, consumer: StreamConsumer) -> None:
        queue_id = self._queue_id()
        if self._tail is None:
            self._tail = self._store.messages.tail(self.topic, queue_id, None, lambda messages: self.look())
        self._wakers[consumer] = asyncio.Event()
        self.consumers[consumer] = background().keep("AMQP streams", partial(self._read, consumer, queue_id))

    def remove(self, consumer: StreamConsumer) -> None:
        task = self.consumers.pop(consumer, None)
        self._wakers.pop(consumer, None)
        if task is not None:
            task.cancel()
        if not self.consumers and self._tail is not None:
            self._tail.close()
            self._tail = None

    def look(self) -> None:
        """Look for messages and credit."""
        for waker in self._wakers.values():
            waker.set()

    def _queue_id(self) -> int:
        topic = self._store.topology.topic(self.topic)
        if topic is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {self.topic!r}")
        return self._store.topology.queues(topic).readable[0]

    async def _read(self, consumer: StreamConsumer, queue_id: int) -> None:
        waker, start = self._wakers[consumer], consumer.start
        offset = start if isinstance(start, int) else -1
        while True:
            waker.clear()
            try:
                if isinstance(start, Position) and offset < 0:
                    offset = await self._store.messages.offset_at(self.topic, queue_id, start)
                elif offset < 0:
                    offset = max(await self._store.messages.offset_at(self.topic, queue_id, LATEST_POSITION) - 1, 0)
                offset = await self._hand_out(consumer, queue_id, offset)
            except EntrepotError as error:
                if error.code is Code.TOPIC_NOT_FOUND:
                    return
                log.warning("a stream cannot be read now", topic=self.topic, problem=error.message)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            except Exception as fault:  # noqa: BLE001 - a fault of our own: later messages are to be read
                background().failed("AMQP streams", fault)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            await waker.wait()

    async def _hand_out(self, consumer: StreamConsumer, queue_id: int, offset: int) -> int:
        """Hand out as many messages as there are and there is credit for; return the next offset."""
        while credit := min(consumer.credit, READ_MESSAGES):
            bounds = next(each for each in await self._store.messages.bounds(self.topic) if each.queue_id == queue_id)
            offset = max(offset, bounds.min_offset)  # earlier ones were deleted by age
            if offset >= bounds.max_offset:
                break  # a consumer ahead waits for its offset
            messages = await self._store.messages.read(self.topic, queue_id, offset, credit)
            if not messages:
                break
            offset = messages[-1].queue_offset + 1
            consumer.take_of_stream(messages)
        return offset

    async def close(self) -> None:
        """Stop all readers."""
        for consumer in tuple(self.consumers):
            self.remove(consumer)
