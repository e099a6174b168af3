"""TopicStream: the messages of all queues of a topic from given offsets on, for one reader.

A slow reader's messages stay in the store: its tails are closed at an exact offset, and reopened there once it has
caught up.  So a reader costs a bounded buffer, however slow it is and however far back it began.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store, Tail
from entrepot.domain.position import Position, PositionKind

MAX_WAITING_MESSAGES: Final = 1000
MAX_WAITING_BYTES: Final = 4 << 20
"""Maximum bytes of buffered messages: beyond it the tails are closed until they are read.  One tail's last batch comes
on top."""
CURSOR_QUEUES: Final = 1024


class TopicStream:
    """A stream.  `places`: the first offset of each queue; later queues start at 0."""

    def __init__(self, store: Store, topic: str, places: Mapping[int, int]) -> None:
        self._store, self._topic = store, topic
        self.places = dict(places)
        """The reader's next offset in each queue, after all messages from `take`."""
        self._handed = dict(places)
        self._waiting: deque[StoredMessage] = deque()
        self._waiting_bytes = 0
        self._tails: dict[int, Tail] = {}
        self._news = asyncio.Event()
        self._is_closed = False
        self._stop_watching = store.topology.watch_topics(self._topic_changed)
        self._open()

    @property
    def is_over(self) -> bool:
        """True once the topic is deleted, or the stream closed, and all buffered messages are taken."""
        return self._is_closed and not self._waiting

    async def wait(self, seconds: float) -> bool:
        """Wait for messages or the end of the stream; False on timeout."""
        if self._waiting or self._is_closed:
            return True
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def take(self, most: int) -> Iterator[StoredMessage]:
        """Yield the next messages, in order for each queue.  With each, `places` moves after it."""
        while self._waiting and most:
            message = self._waiting.popleft()
            most -= 1
            self._waiting_bytes -= len(message.body)
            self.places[message.queue_id] = message.queue_offset + 1
            yield message
        if not self._waiting and not self._tails and not self._is_closed:
            self._open()

    def close(self) -> None:
        """Stop reading and drop the buffer."""
        self._end()
        self._waiting.clear()

    def _open(self) -> None:
        topic = self._store.topology.topic(self._topic)
        if topic is None:
            self._end()
            return
        for queue_id in self._store.topology.queues(topic).readable:
            if queue_id not in self._tails:
                start = self._handed.get(queue_id, 0)
                self._tails[queue_id] = self._store.messages.tail(self._topic, queue_id, start, self._took_of(queue_id))

    def _took_of(self, queue_id: int) -> Callable[[list[StoredMessage]], None]:
        def took(messages: list[StoredMessage]) -> None:
            if self._is_closed or queue_id not in self._tails:
                return
            self._handed[queue_id] = messages[-1].queue_offset + 1
            self._waiting.extend(messages)
            self._waiting_bytes += sum(len(message.body) for message in messages)
            if len(self._waiting) >= MAX_WAITING_MESSAGES or self._waiting_bytes >= MAX_WAITING_BYTES:
                self._close_tails()
            self._news.set()

        return took

    def _close_tails(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _topic_changed(self, name: str) -> None:
        if name == self._topic and not self._is_closed and (self._tails or self._store.topology.topic(name) is None):
            self._open()

    def _end(self) -> None:
        """Stop reading; buffered messages can still be taken."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_watching()
        self._close_tails()
        self._news.set()


async def places_of(store: Store, topic: str, position: Position) -> dict[int, int]:
    """A position's offset in each queue.  Raises TOPIC_NOT_FOUND, FORBIDDEN."""
    definition = store.topology.topic(topic)
    if definition is None:
        raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
    if not definition.permission.readable:
        raise EntrepotError(Code.FORBIDDEN, f"topic {topic!r} is not readable")
    bounds = {each.queue_id: each for each in await store.messages.bounds(topic)}
    places: dict[int, int] = {}
    for queue_id in store.topology.queues(definition).readable:
        if position.kind is PositionKind.LATEST and queue_id in bounds:
            places[queue_id] = bounds[queue_id].max_offset
        elif position.kind is PositionKind.EARLIEST and queue_id in bounds:
            places[queue_id] = bounds[queue_id].first
        else:
            places[queue_id] = await store.messages.offset_at(topic, queue_id, position)
    return places


# -- cursors ---------------------------------------------------------------------------------------------------------


def cursor_of(places: Mapping[int, int]) -> str:
    """The places as a cursor text."""
    return ",".join(f"{queue_id}:{offset}" for queue_id, offset in sorted(places.items()))


def parse_cursor(text: str) -> dict[int, int]:
    """Parse a cursor.  Raises BAD_REQUEST for an invalid one."""
    places: dict[int, int] = {}
    for part in text.split(","):
        queue_id, colon, offset = part.partition(":")
        if not (colon and _is_number(queue_id) and _is_number(offset)) or len(places) >= CURSOR_QUEUES:
            raise EntrepotError(Code.BAD_REQUEST, f"{text[:80]!r} is not a cursor of a stream of events")
        places[int(queue_id)] = int(offset)
    return places


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19
