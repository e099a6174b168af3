"""ColdReads: the ports' view of the tier, where there is one.

ADR 52: cold messages are a table. Invariant: of several answers the merged one has each message once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from entrepot.broker.metadata.registry import Registry
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import is_retry_topic
from entrepot.domain.topic import Cleanup, Confirm, Topic


class ColdPage(NamedTuple):
    """Messages, and the offset after the last one looked at."""

    messages: list[StoredMessage]
    next_offset: int


@dataclass(frozen=True, slots=True)
class ColdQuery:
    """A query of cold messages, the newest first. `topic` empty: of all topics. Store times are from `from_ms` to
    before `to_ms`, places in the log below `before` and above `above`."""

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
    """Messages, the newest first; `before`: the place to go on with older ones, None where there are none."""

    messages: list[StoredMessage]
    before: int | None


def merged(parts: Iterable[ColdFound], limit: int) -> ColdFound:
    """Return the newest of several answers; it goes on where the first of them ends."""
    parts = list(parts)
    found = _once(each for part in parts for each in part.messages)
    found.sort(key=lambda message: -message.commit_log_offset)
    ends = [part.before for part in parts if part.before is not None]
    if len(found) > limit:
        ends.append(found[limit - 1].commit_log_offset)
    before = max(ends, default=None)
    return ColdFound([each for each in found[:limit] if before is None or each.commit_log_offset >= before], before)


def _once(found: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Return each message once where several topics have it: at its own place, unless only further ones are left."""
    by_place: dict[tuple[int, bytes], StoredMessage] = {}  # places of a restored table are of several logs
    for message in found:
        place = message.topic, message.queue_id, message.queue_offset
        key = message.commit_log_offset, message.message_id
        if key not in by_place or place not in message.further_places:
            by_place[key] = message
    return list(by_place.values())


class CorruptedRowError(CorruptedError):
    """A cold message that was corrupted when uploaded: only this offset of a queue cannot be read."""

    def __init__(self, queue_id: int, queue_offset: int, commit_log_offset: int) -> None:
        text = f"message {queue_offset} of queue {queue_id} is corrupted, and was so when it went to the object store"
        super().__init__(text, commit_log_offset)
        self.queue_offset = queue_offset


def is_tiered(topic: Topic) -> bool:
    """True for a topic with object storage. Messages confirmed by one disk may be undone, and are not stored there."""
    is_kept = topic.cleanup is Cleanup.DELETE and topic.confirm is Confirm.RULE
    return topic.tier_seconds is not None and is_kept and not is_retry_topic(topic.name)


def may_be_cold(registry: Registry, topic: Topic) -> bool:
    """True if a topic may have cold messages, of its own or of another cluster."""
    origin = registry.origin_of(topic.name)
    return is_tiered(topic) or (origin is not None and origin.is_attached)


class ColdReads(Protocol):
    """Reads of messages below a queue's own minimum. Raises UNAVAILABLE, TOO_MANY_REQUESTS, COLD_CORRUPTED."""

    def min_offset(self, queue: ConsumeQueue) -> int:
        """Return the first offset that can be read, hot or cold; 0 while it is pending."""

    def hot_from(self, queue: ConsumeQueue) -> int:
        """Return the first offset read from the disk."""

    def pending(self, queue: ConsumeQueue) -> EntrepotError | None:
        """Return the refusal while a queue may have cold messages that are not known yet; None once they are."""

    async def settle(self, topic: str) -> None:
        """Right after a start, wait a moment until a topic's cold messages are known."""

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        """Return up to `most` messages from an offset below the queue's minimum on."""

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        """Return records from an offset below the queue's minimum on, in the form of `protocols.wire.records`;
        `limits`: of messages and of bytes."""

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        """Return the first cold offset stored at a time or later; the end of the cold part if there is none."""

    async def bytes_between(self, queue: ConsumeQueue, first: int, end: int) -> int:
        """Return about how many bytes in the object store the cold messages of a range have; 0 where not known."""

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        """Return the first cold offset recorded at or after a place of the log; the end if there is none."""

    async def search(self, query: ColdQuery) -> ColdFound:
        """Return the messages of a query that are no longer on the disk."""


class AwayTier:
    """The `ColdReads` of a slave, which reads no tier: its cold messages are unavailable, not gone."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def min_offset(self, queue: ConsumeQueue) -> int:
        return queue.min_offset if self.pending(queue) is None else 0

    def hot_from(self, queue: ConsumeQueue) -> int:
        return queue.min_offset

    def pending(self, queue: ConsumeQueue) -> EntrepotError | None:
        topic = self._registry.topics.get(queue.topic)
        may_be = queue.min_offset > 0 and topic is not None and may_be_cold(self._registry, topic)
        return _away(queue) if may_be else None

    async def settle(self, topic: str) -> None:
        """Return at once: a slave will not know them."""

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        raise _away(queue)

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        raise _away(queue)

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        raise _away(queue)

    async def bytes_between(self, queue: ConsumeQueue, first: int, end: int) -> int:
        return 0

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        raise _away(queue)

    async def search(self, query: ColdQuery) -> ColdFound:
        topics = self._registry.topics.values()
        if any(may_be_cold(self._registry, topic) and query.topic in ("", topic.name) for topic in topics):
            raise EntrepotError(Code.UNAVAILABLE, "a slave does not search cold messages")
        return ColdFound([], None)


def _away(queue: ConsumeQueue) -> EntrepotError:
    return EntrepotError(Code.UNAVAILABLE, f"slaves cannot read tiered messages of topic {queue.topic!r}")
