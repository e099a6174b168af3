"""The port of a job that reads a store by offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.position import Position
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.wire.records import RecordRun


class BlockingReader(Protocol):
    """Reads by offset; every call blocks.  Queue ids are global (`domain.broker_of_queue`)."""

    def topics(self) -> list[str]:
        """Return the names of all topics, the system's own included."""

    def bounds(self, topic: str) -> list[QueueBounds]:
        """Return the readable range of each queue.  Raises TOPIC_NOT_FOUND."""

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position.  Raises TOPIC_NOT_FOUND."""

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return the approximate log size, in bytes, of the messages between two offsets."""

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records between two offsets that match the filter, `max_bytes` of them or fewer; `next_offset` of
        the run is the offset to go on.  Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end),
        ILLEGAL_FILTER_EXPRESSION, MESSAGE_CORRUPTED, COLD_CORRUPTED, UNAVAILABLE."""

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Return the progress of these topics in the tables of an object store."""

    def close(self) -> None: ...


@runtime_checkable
class MovesGroups(Protocol):
    """A reader whose store has consumer groups, so that one can show how far a job is."""

    def move_group(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Move a consumer group to these offsets, by queue; it is created if it does not exist."""
