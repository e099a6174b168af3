"""Messages: appending, reading by offset, tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.confirmation import Confirmation
from domain.expression.filter import FilterExpression
from domain.message import Message, StoredMessage
from domain.position import Position
from domain.topic import QueueBounds


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was read by offset: the messages wanted, and where to go on.  `next_offset` may have passed messages that
    the filter does not want, so it counts even where there are no messages."""

    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class MessageAppender(Protocol):
    def append(self, messages: Sequence[Message]) -> Confirmation:
        """Take a batch.  Each message names an existing topic and one of its queues, else it is refused; so it is
        where one of its further queues does not exist or may not be written to: it is then in none of them.

        A message with DELIVER_AT_MS behind now is taken, and comes into its queue at that time.

        Refusals: TOPIC_NOT_FOUND, FORBIDDEN, ILLEGAL_DELIVERY_TIME (no decimal, or too far ahead), BAD_REQUEST (too
        many further queues), MESSAGE_BODY_TOO_LARGE (the store's or the topic's limit),
        MESSAGE_PROPERTIES_TOO_LARGE, TOO_MANY_REQUESTS (the topic's backlog), STORAGE_FULL.
        """
        ...

    @property
    def backlogged(self) -> bool:
        """Whether more is waiting for the disk than the store's limit: producers should pause."""
        ...

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call back once when `backlogged` has ended."""
        ...


class Tail(Protocol):
    """A live reader of one message queue."""

    @property
    def next_offset(self) -> int:
        """The first queue offset it has not handed over; 0 before it has begun."""
        ...

    def when_begun(self, callback: Callable[[], None]) -> None:
        """Call back once its beginning is settled: what is stored from then on is handed over.  At once if it is.

        It is called back, too, where its broker is away: then it begins, later, at the first message that was stored
        after it was asked for.
        """
        ...

    def close(self) -> None:
        """Stop it; nothing is handed over after this returns."""
        ...


class MessageReader(Protocol):
    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        """Messages of a queue in order, from an offset on.  Empty at the end.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), MESSAGE_CORRUPTED, COLD_CORRUPTED.
        """
        ...

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        """Read by offset without a group: like `read`, with a filter.  Empty at the end.

        Raises as `read`, and ILLEGAL_FILTER_EXPRESSION.
        """
        ...

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        """Queue offsets, ascending, of messages whose sub-topic may match an MQTT topic filter, found without reading
        them; and the offset up to which was looked, where to go on.  What does not match may be among them; nothing
        that matches is left out.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET, ILLEGAL_FILTER_EXPRESSION.
        """
        ...

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """The queue offset of a position.  Raises TOPIC_NOT_FOUND."""
        ...

    async def bounds(self, topic: str) -> list[QueueBounds]:
        """What can be read of each queue.  Raises TOPIC_NOT_FOUND."""
        ...

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        """Hand over messages as they become durable, from an offset or a position on (None: from the end of what is
        stored now)."""
        ...


class Messages(MessageAppender, MessageReader, Protocol):
    """Both halves."""
