"""Messages: appending, reading by offset, tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.position import Position
from entrepot.domain.topic import QueueBounds


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of a read by offset: the matching messages, and the place to go on.  `next_offset` may lie after
    messages that the filter does not match, so it counts even without messages."""

    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class MessageAppender(Protocol):
    def append(self, messages: Sequence[Message]) -> Confirmation:
        """Append a batch.  A message is refused unless it names an existing topic and one of its queues.

        It is refused as a whole, too, where one of its further queues does not exist or is not writable.  A message
        with a future DELIVER_AT_MS is accepted, and enters its queue at that time.

        Refusals: TOPIC_NOT_FOUND, FORBIDDEN, ILLEGAL_DELIVERY_TIME (no decimal, or too far ahead), BAD_REQUEST (too
        many further queues), MESSAGE_BODY_TOO_LARGE (the store's or the topic's limit), MESSAGE_PROPERTIES_TOO_LARGE,
        TOO_MANY_REQUESTS (the topic's backlog), STORAGE_FULL.
        """

    @property
    def backlogged(self) -> bool:
        """True if more data waits for the disk than the store's limit: producers should pause."""

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call back once when `backlogged` has ended."""


class Tail(Protocol):
    """A live reader of one message queue."""

    @property
    def next_offset(self) -> int:
        """The first queue offset that was not handed over; 0 before it has begun."""

    def when_begun(self, callback: Callable[[], None]) -> None:
        """Call back once its start is settled: messages stored from then on are handed over.  At once if it is.  It
        calls back, too, if its broker is away; it then begins later, at the first message stored after the request."""

    def close(self) -> None:
        """Stop it; nothing is handed over after this returns."""


class MessageReader(Protocol):
    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        """Return messages of a queue in order, from an offset on.  Empty at the end.  Raises TOPIC_NOT_FOUND,
        ILLEGAL_OFFSET (below the minimum or beyond the end), MESSAGE_CORRUPTED, COLD_CORRUPTED."""

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        """Read by offset without a group: like `read`, with a filter.  Empty at the end.  Raises as `read`, and
        ILLEGAL_FILTER_EXPRESSION."""

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        """Return queue offsets, ascending, of messages whose sub-topic may match an MQTT topic filter, and the offset
        to go on.  It does not read the messages.  Some of them may not match; none that matches is left out.  Raises
        TOPIC_NOT_FOUND, ILLEGAL_OFFSET, ILLEGAL_FILTER_EXPRESSION."""

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position.  Raises TOPIC_NOT_FOUND."""

    async def bounds(self, topic: str) -> list[QueueBounds]:
        """Return the readable range of each queue.  Raises TOPIC_NOT_FOUND."""

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        """Hand over messages as they become durable, from an offset or a position on (None: from the end stored
        now)."""


class Messages(MessageAppender, MessageReader, Protocol):
    """Both halves: append and read."""
