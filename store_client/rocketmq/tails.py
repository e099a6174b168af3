"""Tails: live readers of message queues, each by one long poll after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from entrepot.domain.callbacks import call_each, hand_over
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.position import LATEST_POSITION, Position, PositionKind
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.routes import RouteQueue

TAIL_MESSAGES: Final = 32
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.2, 3.0
"""Pauses before a broker that does not answer is asked again."""
READABLE_SECONDS: Final = 0.01
"""Pause before a broker is asked again for what it has confirmed a moment ago."""
log = structlog.get_logger(__name__)

OnMessages = Callable[[list[StoredMessage]], None]


class QueueReader(Protocol):
    """Reads from one queue (`reading.Reading`)."""

    async def pull_once(
        self,
        topic: str,
        queue: RouteQueue,
        from_offset: int,
        count: int,
        filter: FilterExpression | None = None,
        poll_ms: int = 0,
    ) -> Pulled: ...

    async def offset_of(self, topic: str, queue: RouteQueue, position: Position) -> int: ...


class QueueTail:
    """Implements `domain.ports.Tail`.  It goes on while its topic is gone, and where messages are lost under it."""

    def __init__(
        self,
        reading: QueueReader,
        cluster: Cluster,
        topic: str,
        queue_id: int,
        start: int | Position | asyncio.Future[int],
        on_messages: OnMessages,
    ) -> None:
        self._reading, self._cluster = reading, cluster
        self._topic, self._queue_id = topic, queue_id
        self._start = start
        self.next_offset = start if isinstance(start, int) else 0
        self._when_begun: list[Callable[[], None]] = []
        self._on_messages = on_messages
        self._is_open = True
        self._pause, self._unreadable_since = FIRST_PAUSE_SECONDS, 0.0
        self._task = cluster.keep("tails of the RocketMQ cluster", self._run)

    def when_begun(self, callback: Callable[[], None]) -> None:
        if isinstance(self._start, int) or not self._is_open:
            callback()
        else:
            self._when_begun.append(callback)

    def _tell_begun(self) -> None:
        waiting, self._when_begun = self._when_begun, []
        for fault in call_each(waiting):
            log.error("a callback of a tail's start failed", exc_info=fault)

    def close(self) -> None:
        self._is_open = False
        self._task.cancel()
        if isinstance(self._start, asyncio.Future):
            self._start.cancel()
        self._tell_begun()

    async def _run(self) -> None:
        while self._is_open:
            try:
                await self._read_on()
                self._pause, self._unreadable_since = FIRST_PAUSE_SECONDS, 0.0
            except EntrepotError as refusal:
                self._tell_begun()  # it will begin later
                if refusal.code is Code.MESSAGE_CORRUPTED:
                    self._step_over(refusal)
                    continue
                if refusal.code is Code.ILLEGAL_OFFSET and (await self._go_on() or await self._is_readable_soon()):
                    continue
                await self._wait(refusal)

    async def _read_on(self) -> None:
        """Hand over what one long poll brings."""
        queue = (await self._cluster.routes.of(self._topic)).queue(self._queue_id)
        if not isinstance(self._start, int):
            self._start = self.next_offset = await self._beginning(queue, self._start)
            self._tell_begun()
        poll_ms = self._cluster.settings.most_poll_ms
        loop, before = asyncio.get_running_loop(), self.next_offset
        began = loop.time()
        pulled = await self._reading.pull_once(self._topic, queue, before, TAIL_MESSAGES, poll_ms=poll_ms)
        if pulled.next_offset == before and loop.time() < began + FIRST_PAUSE_SECONDS:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)  # the broker holds no poll now
        self.next_offset = pulled.next_offset
        if pulled.messages and self._is_open:
            for message, fault in hand_over(list(pulled.messages), self._on_messages):
                log.error(
                    "a message could not be handed on",
                    topic=self._topic,
                    queue_offset=message.queue_offset,
                    exc_info=fault,
                )

    async def _beginning(self, queue: RouteQueue, start: Position | asyncio.Future[int]) -> int:
        """Return the first offset.  Where the broker did not tell it at first, the end is that of a later moment."""
        if isinstance(start, Position):
            return await self._reading.offset_of(self._topic, queue, start)
        self._start = LATEST_POSITION
        return await start

    def _step_over(self, refusal: EntrepotError) -> None:
        """Go on behind a message that cannot be read."""
        log.error("a message cannot be read", topic=self._topic, queue_offset=self.next_offset, problem=refusal.message)
        self.next_offset += 1

    async def _wait(self, refusal: EntrepotError) -> None:
        log.warning("a tail waits", seldom="rocketmq", topic=self._topic, queue=self._queue_id, problem=refusal.message)
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LAST_PAUSE_SECONDS)
        try:
            await self._cluster.routes.refresh(self._topic)
        except EntrepotError:
            return  # the next read tells why

    async def _is_readable_soon(self) -> bool:
        """Wait a moment for what the broker has stored, and does not let anybody read yet; returns False if it takes
        long."""
        self._unreadable_since = self._unreadable_since or asyncio.get_running_loop().time()
        await asyncio.sleep(READABLE_SECONDS)
        return asyncio.get_running_loop().time() < self._unreadable_since + FIRST_PAUSE_SECONDS

    async def _go_on(self) -> bool:
        """Move to the nearest existing offset; returns True if that is another one."""
        before = self.next_offset
        try:
            queue = (await self._cluster.routes.of(self._topic)).queue(self._queue_id)
            nearest = Position(PositionKind.OFFSET, max(before, 0))
            self.next_offset = await self._reading.offset_of(self._topic, queue, nearest)
        except EntrepotError:
            return False
        if self.next_offset > before:
            log.warning("messages are gone", seldom="rocketmq", topic=self._topic, first=before, next=self.next_offset)
        return self.next_offset != before
