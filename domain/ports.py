"""What the inside needs from a store: small Protocols, implemented by every face in `store_client`.

The contract suite (`tests/contract`) states their behaviour and runs on all implementations.  Batches cross here,
single messages do not.  A call that can be refused per item returns one outcome per item; what concerns the whole
call is raised as `EntrepotError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import EntrepotError
from domain.message import Delivery, Message, StoredMessage
from domain.topic import QueueBounds, Topic, TopicStatus

MAX_POP_MESSAGES = 100


@dataclass(frozen=True, slots=True)
class PopRequest:
    """Ask for up to `max_messages` of `topic` for `group`, waiting up to `wait_ms` for the first one.

    `invisible_ms` None is the group's own.
    """

    topic: str
    group: str
    max_messages: int
    wait_ms: int = 0
    invisible_ms: int | None = None


class MessageAppender(Protocol):
    def append(self, messages: Sequence[Message]) -> Confirmation:
        """Take a batch.  Each message names an existing topic and one of its queues, else it is refused."""
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
        """The first queue offset it has not handed over."""
        ...

    def close(self) -> None:
        """Stop it; nothing is handed over after this returns."""
        ...


class MessageReader(Protocol):
    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        """Messages of a queue in order, from an offset on.  Empty at the end.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), MESSAGE_CORRUPTED.
        """
        ...

    async def bounds(self, topic: str) -> list[QueueBounds]:
        """What can be read of each queue.  Raises TOPIC_NOT_FOUND."""
        ...

    def tail(
        self, topic: str, queue_id: int, from_offset: int | None, on_messages: Callable[[list[StoredMessage]], None]
    ) -> Tail:
        """Hand over messages as they become durable, from an offset on (None: from the end of what is stored now)."""
        ...


class Consumption(Protocol):
    async def pop(self, request: PopRequest) -> list[Delivery]:
        """Deliver messages to one consumer of the group; the group comes into being on first use.

        Raises TOPIC_NOT_FOUND, FORBIDDEN (topic not readable).
        """
        ...

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        """Mark as consumed; durable when this returns.  INVALID_RECEIPT_HANDLE where an attempt is not current."""
        ...

    async def change_invisible_duration(
        self, topic: str, group: str, receipt_handles: Sequence[str], invisible_ms: int | None, *, release: bool
    ) -> list[EntrepotError | None]:
        """Renew (`release` False: invisible from now on, None = the group's own) or give back (`release` True:
        visible to others after `invisible_ms`, and the handle is void)."""
        ...

    async def reject(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        """Send to the group's dead-letter topic at once."""
        ...

    def release_waiting(self) -> None:
        """Answer every long poll empty, now, and keep none waiting from here on (the gateway is draining)."""
        ...


class Topology(Protocol):
    def topic(self, name: str) -> Topic | None:
        """A topic's definition from the local view, which watches keep fresh."""
        ...

    def topics(self) -> list[Topic]:
        """Every topic in the local view, system topics included."""
        ...

    async def put_topic(self, topic: Topic) -> Topic:
        """Create or change; idempotent.  Raises PRECONDITION_FAILED where queues would shrink."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Forget a topic and what groups know of it.  Raises TOPIC_NOT_FOUND."""
        ...

    async def topic_status(self, name: str) -> TopicStatus: ...

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Create or change; idempotent."""
        ...

    async def delete_group(self, name: str) -> None:
        """Forget a group and its progress; its dead letters stay.  Raises CONSUMER_GROUP_NOT_FOUND."""
        ...

    def group(self, name: str) -> ConsumerGroup | None: ...

    def groups(self) -> list[ConsumerGroup]: ...

    async def group_status(self, name: str) -> GroupStatus: ...

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with a topic's name after it was created, changed or deleted; returns the way to stop that."""
        ...


class Store(MessageAppender, MessageReader, Consumption, Topology, Protocol):
    """All of it: one store, as a gateway holds it."""

    @property
    def failure(self) -> EntrepotError | None:
        """Why the store has stopped for good, or None while it works."""
        ...

    async def close(self) -> None:
        """Stop cleanly: everything taken is durable, everything known is kept."""
        ...
