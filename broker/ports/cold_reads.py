"""ColdReads: what the ports ask of the tier, where there is one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from broker.store.consume_queue import ConsumeQueue
from domain.expression.filter import MessageFilter
from domain.message import StoredMessage


class ColdPage(NamedTuple):
    """Messages, and the offset behind all that was looked at."""

    messages: list[StoredMessage]
    next_offset: int


class ColdReads(Protocol):
    """Messages below a queue's own minimum.  Raises UNAVAILABLE, TOO_MANY_REQUESTS, MESSAGE_CORRUPTED."""

    def min_offset(self, queue: ConsumeQueue) -> int:
        """The first offset that can be read, hot or cold."""
        ...

    def is_pending(self, queue: ConsumeQueue) -> bool:
        """True while a queue may have cold messages that are not known yet."""
        ...

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        """Up to `most` messages from an offset below the queue's minimum on."""
        ...

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        """The first cold offset that was stored at a time or later; the end of the cold part where there is none."""
        ...
