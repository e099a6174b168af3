"""What a job needs to read a store by offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from domain.expression.filter import FilterExpression
from domain.position import Position
from domain.tiering import TierStatus
from domain.topic import QueueBounds
from protocols.remoting.records import RecordRun


class BlockingReader(Protocol):
    """Reads by offset; every call waits for its answer.  Queue ids are the world's (`domain.shard`)."""

    def topics(self) -> list[str]:
        """Names of all topics, the system's own included."""
        ...

    def bounds(self, topic: str) -> list[QueueBounds]:
        """What can be read of each queue.  Raises TOPIC_NOT_FOUND."""
        ...

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """The queue offset of a position.  Raises TOPIC_NOT_FOUND."""
        ...

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """About how many bytes of the log the messages from an offset up to another have."""
        ...

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """The records from an offset up to another that the filter wants: as many as have `max_bytes`, or fewer; the
        run's `next_offset` is where to go on.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), ILLEGAL_FILTER_EXPRESSION,
        MESSAGE_CORRUPTED, COLD_CORRUPTED, UNAVAILABLE.
        """
        ...

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Progress of these topics in the tables of an object store."""
        ...

    def close(self) -> None: ...
