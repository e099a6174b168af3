"""RocketMqReader: a RocketMQ cluster, read with blocking calls.  It runs `store_client.rocketmq` on an event loop in a
thread of its own, and waits for a broker that is away, as `BlockingStore` does.

ADR 24: Spark reads by offset. Invariant: bounds are those of all queues, those included that were read before; where a
broker is away, they are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from entrepot.domain.errors import PASSING
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.position import Position
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.wire.records import RecordRun
from entrepot.store_client.blocking.clock import SystemClock
from entrepot.store_client.blocking.store_thread import StoreThread
from entrepot.store_client.rocketmq import RocketMqSettings, RocketMqStore, open_settings


class RocketMqReader:
    """Implements `BlockingReader`.  Raises UNAVAILABLE if neither name server nor broker answers for `seconds`, for so
    long each call waits, too; BAD_REQUEST for an invalid address."""

    def __init__(self, settings: RocketMqSettings, seconds: float = 30.0) -> None:
        self._thread = StoreThread(seconds, PASSING)
        self._store: RocketMqStore = self._thread.opened(lambda: open_settings(settings, SystemClock()), patiently=True)

    def close(self) -> None:
        """Close the connections."""
        self._thread.close(self._store.close)

    def topics(self) -> list[str]:
        """Return the names of the topics that the brokers told a few seconds ago, without RocketMQ's own."""
        return sorted(topic.name for topic in self._thread.now(self._store.topology.topics))

    def bounds(self, topic: str, known: Collection[int] = ()) -> list[QueueBounds]:
        """Return the readable range of each queue: of all of them, or UNAVAILABLE.  `known`: ids of queues that were
        read before; while the broker of one is away, that is UNAVAILABLE, too.  Incarnations are not known."""
        return self._thread.ask(lambda: self._store.runs.bounds(topic, known))

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position; that of a time goes by the time of storing."""
        return self._thread.ask(lambda: self._store.runs.offset_at(topic, queue_id, position))

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes of the log the messages between two offsets have.  It is an estimate, since
        RocketMQ does not tell it: the first messages stand for all."""
        return self._thread.ask(lambda: self._store.runs.bytes_between(topic, queue_id, from_offset, to_offset))

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter, made anew of RocketMQ's.  A message that cannot
        be read is a record that fails its check."""
        return self._thread.ask(
            lambda: self._store.runs.records(topic, queue_id, from_offset, to_offset, max_bytes, filter)
        )

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Return nothing: brokers of RocketMQ read their tiered storage themselves."""
        return []

    def move_group(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Move a consumer group to these offsets, by queue; it is created if it does not exist."""
        self._thread.ask(lambda: self._store.runs.move_group(group, topic, offsets))
