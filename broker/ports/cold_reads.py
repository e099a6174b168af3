"""ColdReads: what the ports ask of the tier, where there is one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from broker.metadata.registry import Registry
from broker.store.consume_queue import ConsumeQueue
from domain.errors import Code, CorruptedError, EntrepotError
from domain.expression.filter import MessageFilter
from domain.message import StoredMessage
from domain.names import is_system_topic
from domain.topic import Cleanup, Confirm, Topic


class ColdPage(NamedTuple):
    """Messages, and the offset behind all that was looked at."""

    messages: list[StoredMessage]
    next_offset: int


class HarmedRowError(CorruptedError):
    """A cold message whose record was harmed when it was uploaded: this offset of a queue alone cannot be read."""

    def __init__(self, queue_id: int, queue_offset: int, commit_log_offset: int) -> None:
        text = f"message {queue_offset} of queue {queue_id} is harmed, and was so when it went to the object store"
        super().__init__(text, commit_log_offset)
        self.queue_offset = queue_offset


def is_tiered(topic: Topic) -> bool:
    """True where a topic goes to the object store.  Messages that one disk confirms may be undone: they do not."""
    is_kept = topic.cleanup is Cleanup.DELETE and topic.confirm is Confirm.RULE
    return topic.tier_seconds is not None and is_kept and not is_system_topic(topic.name)


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

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        """Records from an offset below the queue's minimum on, in the form of `protocols.remoting.records`; `limits`:
        of messages and of bytes."""
        ...

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        """The first cold offset that was stored at a time or later; the end of the cold part where there is none."""
        ...


class AwayTier:
    """Implements `ColdReads` for a slave, which reads no tier: what only its master can read is unavailable, and not
    taken for gone."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def min_offset(self, queue: ConsumeQueue) -> int:
        return queue.min_offset

    def is_pending(self, queue: ConsumeQueue) -> bool:
        topic = self._registry.topics.get(queue.topic)
        return topic is not None and is_tiered(topic)

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        raise _away(queue)

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        raise _away(queue)

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        raise _away(queue)


def _away(queue: ConsumeQueue) -> EntrepotError:
    return EntrepotError(Code.UNAVAILABLE, f"a slave does not read the cold messages of topic {queue.topic!r}")
