"""ConsumerGroup: consumers that share the messages of the topics they read, each message to one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from entrepot.domain.errors import Code, EntrepotError, FieldError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.domain.retry_policy import RetryPolicy

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
MAX_ATTEMPTS_LIMIT: Final = 10_000
UNLIMITED_ATTEMPTS: Final = 1 << 16
"""`max_attempts` of groups without dead letters by attempts (AMQP queues)."""
MAX_INVISIBLE_SECONDS: Final = 12 * 3600


def parse_start(start: str) -> int | None:
    """Return the start of a new group: None for earliest and latest, else epoch ms of an RFC 3339 time.  Raises
    `BAD_REQUEST` for anything else."""
    if start in (EARLIEST, LATEST):
        return None
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise EntrepotError(Code.BAD_REQUEST, f"start must be earliest, latest or an RFC 3339 time, not {start!r}")
    return int(moment.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """The definition of a group.

    `max_attempts`: deliveries of one message before it goes to `%DLQ%<name>`.  `invisible_seconds`: invisible time of a
    popped message unless the request gives one.  `start`: position on a queue never read before: `earliest`,
    `latest` or an RFC 3339 time.  `retry`: delay of a message that was given back.  `max_in_flight`: messages of a
    topic that its consumers may hold at once; None for no limit of its own.  `fifo`: messages of one message group are
    delivered in order, to one consumer at a time; messages without a group, and other groups of the same queue, flow.
    `filter`: filter of its messages, unless a pop gives one.  `revision`: as `Topic.revision`.
    """

    name: str
    max_attempts: int = 16
    invisible_seconds: int = 30
    start: str = EARLIEST
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_in_flight: int | None = None
    fifo: bool = False
    filter: FilterExpression | None = None
    revision: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS_LIMIT and self.max_attempts != UNLIMITED_ATTEMPTS:
            raise FieldError("max_attempts", f"must be 1 to {MAX_ATTEMPTS_LIMIT}, not {self.max_attempts}")
        if not 1 <= self.invisible_seconds <= MAX_INVISIBLE_SECONDS:
            raise FieldError("invisible_seconds", f"must be 1 to {MAX_INVISIBLE_SECONDS}, not {self.invisible_seconds}")
        if self.max_in_flight is not None and self.max_in_flight < 1:
            raise FieldError("max_in_flight", f"must be at least 1, not {self.max_in_flight}")
        parse_start(self.start)
        if self.filter is not None:
            compile_filter(self.filter)


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """A group's progress on one message queue.  `committed_offset`: everything before it is settled.  `in_flight`:
    delivered and not settled.  `lag`: messages not settled yet, in-flight ones included."""

    topic: str
    queue_id: int
    committed_offset: int
    max_offset: int
    in_flight: int
    lag: int


@dataclass(frozen=True, slots=True)
class UnsettledBytes:
    """Bytes of the bodies of a topic's messages that a group has not settled.  `in_flight`: of those delivered.
    `waiting`: of all others."""

    waiting: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group with its progress on every queue it has read."""

    group: ConsumerGroup
    progress: list[QueueProgress]
