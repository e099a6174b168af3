"""ColdReads: what the ports ask of the tier, where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker.metadata.registry import Registry
from broker.store.consume_queue import ConsumeQueue
from domain.errors import Code, EntrepotError
from domain.expression.filter import MessageFilter
from domain.message import StoredMessage
from domain.names import is_retry_topic
from domain.topic import Cleanup, Confirm, Topic


class ColdPage(NamedTuple):
    """Messages, and the offset behind all that was looked at."""

    messages: list[StoredMessage]
    next_offset: int


@dataclass(frozen=True, slots=True)
class ColdQuery:
    """Cold messages, the newest first.  `topic` empty: of all topics.

    They have a `key`, an id, a place in the log, a store time from `from_ms` to before `to_ms`; they lie in the log
    before `before` and behind `above`.
    """

    topic: str = ""
    key: str | None = None
    message_id: bytes | None = None
    place: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    before: int | None = None
    above: int = -1
    limit: int = 1


class ColdFound(NamedTuple):
    """Messages, the newest first; `before`: where to go on with older ones, None where there are none."""

    messages: list[StoredMessage]
    before: int | None


def is_tiered(topic: Topic) -> bool:
    """True where a topic goes to the object store.  Messages that one disk confirms may be undone: they do not."""
    is_kept = topic.cleanup is Cleanup.DELETE and topic.confirm is Confirm.RULE
    return topic.tier_seconds is not None and is_kept and not is_retry_topic(topic.name)


class ColdReads(Protocol):
    """Messages below a queue's own minimum.  Raises UNAVAILABLE, TOO_MANY_REQUESTS, COLD_HARMED."""

    def min_offset(self, queue: ConsumeQueue) -> int:
        """The first offset that can be read, hot or cold."""
        ...

    def hot_from(self, queue: ConsumeQueue) -> int:
        """The offset from which on the disk is read."""
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

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        """The first cold offset whose record lay at a place of the log or behind it; the end where there is none."""
        ...

    async def search(self, query: ColdQuery) -> ColdFound:
        """Messages that are not on the disk any more, by what a query says of them."""
        ...


class AwayTier:
    """Implements `ColdReads` for a slave, which reads no tier: what only its master can read is unavailable, and not
    taken for gone."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def min_offset(self, queue: ConsumeQueue) -> int:
        return queue.min_offset

    def hot_from(self, queue: ConsumeQueue) -> int:
        return queue.min_offset

    def is_pending(self, queue: ConsumeQueue) -> bool:
        topic = self._registry.topics.get(queue.topic)
        return topic is not None and is_tiered(topic)

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        raise _away(queue)

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        raise _away(queue)

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        raise _away(queue)

    async def search(self, query: ColdQuery) -> ColdFound:
        raise EntrepotError(Code.UNAVAILABLE, "a slave does not search cold messages")


def _away(queue: ConsumeQueue) -> EntrepotError:
    return EntrepotError(Code.UNAVAILABLE, f"a slave does not read the cold messages of topic {queue.topic!r}")
