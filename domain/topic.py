"""Topic: a named, partitioned, append-only stream of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from domain.errors import Code, EntrepotError

MAX_QUEUES = 1024


class TopicType(StrEnum):
    """What kinds of messages a topic takes (RocketMQ's `message.type`).  NORMAL is what exists today."""

    NORMAL = "NORMAL"


class Permission(StrEnum):
    """What clients may do with a topic."""

    NONE = "NONE"
    READ = "READ"
    WRITE = "WRITE"
    READ_WRITE = "READ_WRITE"

    @property
    def readable(self) -> bool:
        return self in (Permission.READ, Permission.READ_WRITE)

    @property
    def writable(self) -> bool:
        return self in (Permission.WRITE, Permission.READ_WRITE)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's definition.  `queues` may grow, never shrink.

    `retention_seconds` and `retention_bytes` are kept with the topic: None is "the store's default".
    """

    name: str
    queues: int = 4
    type: TopicType = TopicType.NORMAL
    permission: Permission = Permission.READ_WRITE
    retention_seconds: int | None = None
    retention_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.queues <= MAX_QUEUES:
            raise EntrepotError(Code.BAD_REQUEST, f"queues must be 1 to {MAX_QUEUES}, not {self.queues}")
        for name in ("retention_seconds", "retention_bytes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise EntrepotError(Code.BAD_REQUEST, f"{name} must be positive, not {value}")


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """What of a message queue can be read: offsets `min_offset` (inclusive) to `max_offset` (exclusive)."""

    queue_id: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic with the bounds of each of its queues."""

    topic: Topic
    queues: list[QueueBounds] = field(default_factory=list)
