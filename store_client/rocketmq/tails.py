"""Tails: live readers of message queues, each by one long poll after the other.

The end of a queue may move back: a broker lost what it had not flushed, or had not replicated.  The offsets are given
again, to other messages.  So a tail remembers what it handed over last.  After a failure, and at another master, it
looks whether the last of it is still in its place.  If not, it goes back, tells so, and leaves out what it knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from entrepot.domain.callbacks import call_each, hand_over
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.position import LATEST_POSITION, Position, PositionKind
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.routes import RouteQueue

TAIL_MESSAGES: Final = 32
REMEMBERED: Final = 1024
"""Messages that a tail knows again after its queue's end moved back; it hands over older ones a second time."""
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
        self._handed: Remembered[int, int] = Remembered(REMEMBERED)
        self._went_back_from = 0
        self._read_at = ""
        """Address of the broker that has shown its place of the last message; empty after a failure."""
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
        if queue.address != self._read_at:
            await self._check(queue)
        poll_ms = self._cluster.settings.most_poll_ms
        loop, before = asyncio.get_running_loop(), self.next_offset
        began = loop.time()
        pulled = await self._reading.pull_once(self._topic, queue, before, TAIL_MESSAGES, poll_ms=poll_ms)
        if pulled.next_offset == before and loop.time() < began + FIRST_PAUSE_SECONDS:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)  # the broker holds no poll now
        self.next_offset = pulled.next_offset
        messages = self._new(pulled.messages)
        if messages and self._is_open:
            for message, fault in hand_over(messages, self._on_messages):
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

    def _new(self, messages: Sequence[StoredMessage]) -> list[StoredMessage]:
        """Return the messages that were not handed over before, and remember them."""
        found = [each for each in messages if each.queue_offset >= self._went_back_from or not self._is_known(each)]
        for message in messages:
            self._handed[message.queue_offset] = _mark(message)
        return found

    def _is_known(self, message: StoredMessage) -> bool:
        return self._handed.get(message.queue_offset) == _mark(message)

    async def _check(self, queue: RouteQueue) -> None:
        """Look whether the last message is in its place, and go back if another one is."""
        last = self.next_offset - 1
        if last in self._handed and queue.has_master:
            try:
                pulled = await self._reading.pull_once(self._topic, queue, last, 1)
                is_other = any(each.queue_offset == last and not self._is_known(each) for each in pulled.messages)
                if is_other or pulled.max_offset <= last:
                    self._go_back(pulled.max_offset)
            except EntrepotError as refusal:
                if refusal.code is Code.ILLEGAL_OFFSET:
                    self._go_back(last)  # it is not there, though others may be by now
                elif refusal.code is not Code.MESSAGE_CORRUPTED:
                    raise
        self._read_at = queue.address if queue.has_master else ""

    def _go_back(self, end: int) -> None:
        """Read again what is remembered, at most from a queue's end."""
        before = self.next_offset
        self._went_back_from = max(before, self._went_back_from)
        self.next_offset = min(end, min(self._handed, default=end))
        text = "a queue has lost messages that were read already"
        log.error(text, seldom="rocketmq", topic=self._topic, queue=self._queue_id, read=before, end=end)

    def _step_over(self, refusal: EntrepotError) -> None:
        """Go on behind a message that cannot be read."""
        log.error("a message cannot be read", topic=self._topic, queue_offset=self.next_offset, problem=refusal.message)
        self.next_offset += 1

    async def _wait(self, refusal: EntrepotError) -> None:
        self._read_at = ""
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
            reached = await self._reading.offset_of(self._topic, queue, nearest)
        except EntrepotError:
            return False
        if reached < before:
            self._go_back(reached)
        elif reached > before:
            self.next_offset = reached
            log.warning("messages are gone", seldom="rocketmq", topic=self._topic, first=before, next=reached)
        return self.next_offset != before


def _mark(message: StoredMessage) -> int:
    """Return a number that tells a message from others of its queue."""
    return hash(message.message_id or message.body)
