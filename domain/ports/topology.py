"""Topology: namespaces, topics and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import EntrepotError
from domain.topic import Topic, TopicQueues, TopicStatus


class Topology(Protocol):
    def topic(self, name: str) -> Topic | None:
        """A topic's definition from the local view, which watches keep fresh."""
        ...

    def is_arriving(self, name: str) -> bool:
        """Whether a topic that is not known yet is about to be: some brokers have it.  `put_topic` waits for it."""
        ...

    def topics(self) -> list[Topic]:
        """Every topic in the local view, system topics included."""
        ...

    def queues(self, topic: Topic) -> TopicQueues:
        """The queues of a topic, wherever they are."""
        ...

    async def put_topic(self, topic: Topic) -> Topic:
        """Create or change; idempotent.  Raises what `put_topics` refuses with."""
        ...

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        """Create or change many at once, one after the other as they stand there.

        What waits (for its time, or for the end of its transaction) to go to a queue that is gone by then goes to
        queue `queue_id % queues`.  A queue that comes back begins at the offset where it ended.

        Refusals: ILLEGAL_TOPIC, FORBIDDEN (system names), BAD_REQUEST (a namespace that is not there),
        PRECONDITION_FAILED (queues would shrink that are not drained).
        """
        ...

    async def delete_topic(self, name: str) -> None:
        """Forget a topic, what groups know of it, their retry topics for it, and what waits to be delivered to it.

        Raises TOPIC_NOT_FOUND.
        """
        ...

    async def topic_status(self, name: str) -> TopicStatus: ...

    def namespaces(self) -> list[str]:
        """Every namespace, `default` first."""
        ...

    async def put_namespace(self, name: str) -> None:
        """Create; idempotent.  Raises BAD_REQUEST for what is no name of one."""
        ...

    async def delete_namespace(self, name: str) -> None:
        """Delete an empty one.  Raises PRECONDITION_FAILED while topics or groups are in it, and for `default`;
        BAD_REQUEST where there is none of that name."""
        ...

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Create or change; idempotent.  Raises ILLEGAL_CONSUMER_GROUP, BAD_REQUEST (a namespace that is not there)."""
        ...

    async def delete_group(self, name: str) -> None:
        """Forget a group, its progress and its retry topics; its dead letters stay.

        Raises CONSUMER_GROUP_NOT_FOUND.
        """
        ...

    def group(self, name: str) -> ConsumerGroup | None: ...

    def groups(self) -> list[ConsumerGroup]: ...

    async def group_status(self, name: str) -> GroupStatus: ...

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with a topic's name after it was created, changed or deleted, or its queues did; returns the way
        to stop that."""
        ...
