"""BlockingStore: the brokers of a store, with blocking calls.  It runs `store_client.remote` on an event loop in a
thread of its own, which handles routes, connections and retries. It waits for a broker that is away, so that a job
outlives its restart.

ADR 24: Spark reads by offset. Invariant: bounds are those of all queues; where a broker is away, they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import QueueBounds, Topic
from entrepot.protocols.wire.records import RecordRun
from entrepot.store_client.blocking.clock import SystemClock
from entrepot.store_client.blocking.store_thread import StoreThread
from entrepot.store_client.remote.opening import RemoteSettings, open_remote
from entrepot.store_client.remote.store import RemoteStore


class BlockingStore:
    """Implements `BlockingReader`.  Raises UNAVAILABLE if no broker is found; `close` it.  Idempotent operations are
    retried for up to `seconds`; the outcome of an append may be unknown."""

    def __init__(self, settings: RemoteSettings, seconds: float = 30.0) -> None:
        self._thread = StoreThread(seconds)
        self._store: RemoteStore = self._thread.opened(lambda: open_remote(settings, SystemClock()))

    def close(self) -> None:
        """Close the connections."""
        self._thread.close(self._store.close)

    # -- reading -------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics, the system's own included."""
        return sorted(topic.name for topic in self._thread.now(self._store.topology.topics))

    def topic(self, name: str) -> Topic | None:
        """Return a topic's definition, or None."""
        return self._thread.now(lambda: self._store.topology.topic(name))

    def bounds(self, topic: str) -> list[QueueBounds]:
        """Return the readable range of each queue: of all of them and as a whole, or UNAVAILABLE."""

        async def all_bounds() -> list[QueueBounds]:
            if self._store.cluster.absent_of(topic, for_reading=True):
                raise EntrepotError(Code.UNAVAILABLE, f"a broker that has queues of topic {topic!r} is away")
            if self._store.topology.topic(topic) is None:
                raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
            found = await self._store.messages.bounds(topic)
            for each in found:
                each.check_known()  # a job that begins or goes on must not skip it
            return found

        return self._thread.ask(all_bounds)

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position.  Raises TOPIC_NOT_FOUND."""
        return self._thread.ask(lambda: self._store.messages.offset_at(topic, queue_id, position))

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return the approximate log size, in bytes, of the messages between two offsets."""
        return self._thread.ask(lambda: self._store.messages.bytes_between(topic, queue_id, from_offset, to_offset))

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter."""
        return self._thread.ask(
            lambda: self._store.messages.records(topic, queue_id, from_offset, to_offset, max_bytes, filter)
        )

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Return the progress of topics in their tables, at brokers that answer."""
        return [each for each in self._thread.ask(self._store.condition.tiering) if each.topic in topics]

    # -- writing -------------------------------------------------------------------------------------------------

    def put_topic(self, topic: Topic) -> Topic:
        """Create or change a topic; idempotent."""
        return self._thread.ask(lambda: self._store.topology.put_topic(topic))

    def queues(self, topic: Topic) -> list[int]:
        """Return the queues for new messages."""
        return self._thread.now(lambda: list(self._store.topology.queues(topic).writable))

    def append(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        """Append a batch; durable when this returns.  Returns a refusal or None for each message.  Raises
        OUTCOME_UNKNOWN if the answer was lost."""

        async def appended() -> list[EntrepotError | None]:
            return list(await self._store.messages.append(messages).wait() or [None] * len(messages))

        return self._thread.run(appended())

    def messages_by_id(self, message_id: bytes) -> list[StoredMessage]:
        """Return every stored message with an id."""
        return self._thread.ask(lambda: self._store.finder.messages_by_id(message_id))

    def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        """Return key-values by key."""
        return self._thread.ask(lambda: self._store.key_values.get(keys))

    def scan(self, prefix: str) -> list[KeyValue]:
        """Return all key-values with a prefix."""
        found: list[KeyValue] = []
        while True:
            after = found[-1].key if found else ""
            page = self._thread.ask(lambda after=after: self._store.key_values.scan(prefix, after=after))  # type: ignore[misc]
            if not page:
                return found
            found += page

    def write(self, changes: Sequence[KeyValueChange]) -> int:
        """Apply all of the changes or none.  Raises PRECONDITION_FAILED; OUTCOME_UNKNOWN if the answer was lost."""
        return self._thread.run(self._store.key_values.write(changes))

    def move_group(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Move a consumer group to these offsets, by queue; it is created if it does not exist."""

        async def moved() -> None:
            if self._store.topology.group(group) is None:
                await self._store.topology.put_group(ConsumerGroup(group))
            for queue_id, offset in offsets.items():
                await self._store.consumption.reset_group(group, topic, Position(PositionKind.OFFSET, offset), queue_id)

        self._thread.ask(moved)
