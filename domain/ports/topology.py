"""Topology: namespaces, topics and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, UnsettledBytes
from entrepot.domain.errors import EntrepotError
from entrepot.domain.topic import Topic, TopicQueues, TopicStatus

STATUSES_AT_ONCE: Final = 100
"""Statuses that one call should ask for: a store in this process answers in one piece."""


class Topology(Protocol):
    def topic(self, name: str) -> Topic | None:
        """Return a topic's definition from the local view, which watches keep fresh."""

    def is_arriving(self, name: str) -> bool:
        """True if an unknown topic is about to appear: some brokers have it.  `put_topic` waits for it."""

    def topics(self) -> list[Topic]:
        """Return every topic in the local view, system topics included."""

    def queues(self, topic: Topic) -> TopicQueues:
        """Return the queues of a topic on all brokers."""

    def made_at(self, name: str, queue_id: int) -> int:
        """Return the number of a topic at the broker of one of its queues, from the local view.  A topic that was
        deleted and made again has another number.  0: it is not known."""

    async def put_topic(self, topic: Topic) -> Topic:
        """Create or change a topic; idempotent.  Raises the refusals of `put_topics`."""

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        """Create or change many topics, one after the other in the given order.

        Messages that wait (for their time, or for the end of their transaction) for a queue that is gone by then go to
        queue `queue_id % queues`.  A queue that comes back begins at the offset where it ended.

        Refusals: ILLEGAL_TOPIC, FORBIDDEN (system names), BAD_REQUEST (missing namespace), PRECONDITION_FAILED (queues
        to remove are not drained).
        """

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, the progress of groups on it, their retry topics for it, and messages waiting for it.  Raises
        TOPIC_NOT_FOUND."""

    async def topic_status(self, name: str) -> TopicStatus: ...

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        """Return the statuses of many topics in that order, without those that are missing or that nobody tells now.
        Raises a refusal if nobody tells any of them."""

    def namespaces(self) -> list[str]:
        """Return every namespace, `default` first."""

    async def put_namespace(self, name: str) -> None:
        """Create a namespace; idempotent.  Raises BAD_REQUEST for an invalid name."""

    async def delete_namespace(self, name: str) -> None:
        """Delete an empty namespace.  Raises PRECONDITION_FAILED while it has topics or groups, and for `default`;
        BAD_REQUEST for a missing one."""

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Create or change a group; idempotent.  Raises ILLEGAL_CONSUMER_GROUP, BAD_REQUEST (missing namespace)."""

    async def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retry topics; its dead letters stay.  Raises
        CONSUMER_GROUP_NOT_FOUND."""

    def group(self, name: str) -> ConsumerGroup | None: ...

    def groups(self) -> list[ConsumerGroup]: ...

    async def group_status(self, name: str) -> GroupStatus: ...

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        """Return the statuses of many groups, likewise."""

    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        """Return the bytes of a topic's messages that a group has not settled, those of its retry topic included, or
        None if the store does not know.  Few messages are looked at, so the answer is exact for few of them, or where
        the heads and properties of all are of one length.  A queue that the group has not begun counts as a whole if
        the group starts at the earliest message.  Raises TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND."""

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with a topic's name after it or its queues were created, changed or deleted; returns a function to
        stop it."""
