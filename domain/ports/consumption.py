"""Consumption: pop and what follows it, positions, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from domain.consumer_group import GroupStatus
from domain.delivery import Deliveries, Receipt
from domain.errors import Code, EntrepotError
from domain.expression.filter import FilterExpression
from domain.position import Position

MAX_POP_MESSAGES = 100
MAX_POP_BYTES: Final = 16 << 20
"""Of the records that one pop takes from a broker, but for a first one that is larger: else it gives fewer."""
MAX_ATTEMPT_ID_BYTES: Final = 255
REJECTED: Final = "rejected"
"""Reason of a dead letter whose consumer gave none."""


@dataclass(frozen=True, slots=True)
class PopRequest:
    """Ask for up to `max_messages` of `topic` for `group`, waiting up to `wait_ms` for the first one.

    `invisible_ms` None is the group's own.  `filter` None is the group's own; what a filter does not want counts as
    settled.  `attempt_id` (of MAX_ATTEMPT_ID_BYTES at most): a name for this try, for FIFO groups: a consumer that
    never got the answer asks again with the same name, and gets the same messages while they are in flight.
    `is_again`: only those, nothing new; for who pops over several brokers, one of which has them.  `expired_only`: of
    each queue only messages whose time is over (EXPIRES_AT_MS, or `lifetime_ms` after they were born), up to the first
    that can be had and is not; not for FIFO groups, nor with a filter.
    """

    topic: str
    group: str
    max_messages: int
    wait_ms: int = 0
    invisible_ms: int | None = None
    filter: FilterExpression | None = None
    attempt_id: str = ""
    is_again: bool = False
    expired_only: bool = False
    lifetime_ms: int | None = None

    def __post_init__(self) -> None:
        if len(self.attempt_id.encode()) > MAX_ATTEMPT_ID_BYTES:
            raise EntrepotError(Code.BAD_REQUEST, f"an attempt id has at most {MAX_ATTEMPT_ID_BYTES} bytes")


class Consumption(Protocol):
    """Receipts are deliveries as `pop` gave them, or their receipt handles; each has its own outcome."""

    async def pop(self, request: PopRequest) -> Deliveries:
        """Deliver messages to one consumer of the group; the group comes into being on first use.

        Messages of the topic that wait in the group's retry topic are delivered too, as what they were first: with
        the topic they were sent to, and the attempts go on.

        It may be cancelled at any moment: then what it had claimed is others' at once and was no attempt, unless the
        request has an `attempt_id`, by which it is found again.  What a broker had claimed whose connection was lost
        meanwhile waits for its invisible time.

        Raises TOPIC_NOT_FOUND, FORBIDDEN (topic not readable, or of another namespace), TOO_MANY_REQUESTS (the
        group's `max_in_flight` is reached), ILLEGAL_FILTER_EXPRESSION.
        """
        ...

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        """Mark as consumed; durable when this returns.  INVALID_RECEIPT_HANDLE where an attempt is not current.

        `may_wait`: nobody waits for the answer, so it need not ask for a sync of its own, but may wait some
        milliseconds for one that others ask for."""
        ...

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
    ) -> list[EntrepotError | None]:
        """Renew (`release` False: invisible from now on, None = the group's own) or give back (`release` True:
        visible to others after `invisible_ms`, None = as the group's retry policy says; its receipts are void).

        `suspend`: this delivery does not count as an attempt, the next one has its number again."""
        ...

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        """Send to the group's dead-letter topic at once; the dead letters say why."""
        ...

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        """Let the group go on from a position, on one queue or on all of the topic's: what is before it counts as
        settled, what is behind it is delivered (again), attempts begin anew, handles given out before are void.
        What waits in its retry topic for this topic is dropped with it when all queues are reset.

        Raises TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND, FORBIDDEN (they are of two namespaces).
        """
        ...

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        """Let the group try dead letters of its once more, with all its attempts: they go to its retry topic, and no
        other group sees them.  The dead letters stay where they are: `queue_id` of its dead-letter topic.

        Raises CONSUMER_GROUP_NOT_FOUND.  Refusals: ILLEGAL_OFFSET where there is none at an offset, TOPIC_NOT_FOUND
        where the topic it came from is gone.
        """
        ...

    def release_waiting(self) -> None:
        """Answer every long poll empty, now, and keep none waiting from here on (the gateway is draining)."""
        ...
