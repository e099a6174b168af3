"""Consumption: pop and settlement, positions, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.delivery import Deliveries, Receipt
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.position import Position

MAX_POP_MESSAGES = 100
MAX_POP_BYTES: Final = 16 << 20
"""Limit of the records in one pop from a broker; a larger first record still passes."""
MAX_ATTEMPT_ID_BYTES: Final = 255
REJECTED: Final = "rejected"
"""Default reason of a dead letter."""
GIVEN_BACK: Final = "given back"
"""Default reason of a released delivery."""
MAX_CONSUMER_LENGTH: Final = 300
"""Length of the words for a consumer, and for the reason of a release, in characters."""


@dataclass(frozen=True, slots=True)
class PopRequest:
    """A request for up to `max_messages` of `topic` for `group`, with a wait of up to `wait_ms` for the first one.

    `invisible_ms`: None for the group's own.  `filter`: None for the group's own; messages that do not match count as
    settled, new ones and ones that come again.  `attempt_id`: name of this attempt, for FIFO groups, at most
    MAX_ATTEMPT_ID_BYTES.  A consumer that never got the answer repeats the name, and gets the same messages while they
    are in flight.  `is_again`: only those, nothing new; for a pop over several brokers, of which one has them.
    `expired_only`: of each queue only expired messages (EXPIRES_AT_MS, or `lifetime_ms` after their birth), up to the
    first available one that is not; not for FIFO groups, nor with a filter.
    `consumer`: who asks, in words, for traces and the journey of a message.
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
    consumer: str = ""

    def __post_init__(self) -> None:
        if len(self.attempt_id.encode()) > MAX_ATTEMPT_ID_BYTES:
            raise EntrepotError(Code.BAD_REQUEST, f"an attempt id has at most {MAX_ATTEMPT_ID_BYTES} bytes")


class Consumption(Protocol):
    """Pop and settlement of messages.  Receipts are deliveries of `pop` or their handles; each has its own outcome."""

    async def pop(self, request: PopRequest) -> Deliveries:
        """Deliver messages to one consumer of the group, which is created on first use.

        Messages of the topic that wait in the group's retry topic are delivered too, as first stored: with the topic
        they were sent to, and their attempts so far.

        Cancellation is allowed at any moment: the claimed messages are free again at once and no attempt counts, unless
        the request has an `attempt_id`, which finds them again.  Messages claimed by a broker whose connection is lost
        meanwhile wait for their invisible time.

        Raises TOPIC_NOT_FOUND, FORBIDDEN (topic not readable, or of another namespace), TOO_MANY_REQUESTS (the group's
        `max_in_flight` is reached), ILLEGAL_FILTER_EXPRESSION.
        """

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        """Mark as consumed; durable when this returns.  INVALID_RECEIPT_HANDLE for an attempt that is not current.
        `may_wait`: nobody waits for the answer, so it may wait some milliseconds for a sync that others ask for."""

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        reason: str = "",
    ) -> list[EntrepotError | None]:
        """Renew (`release` False) or give back (`release` True) deliveries.

        A renewed one is invisible from now on for `invisible_ms`, None = the group's own.  A released one is visible to
        others after `invisible_ms`, None = by the group's retry policy; its receipts are void.  `suspend`: this
        delivery does not count as an attempt, and the next one repeats its number.  `reason`: why the attempt failed,
        in words, for the journey of the message.
        """

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        """Move to the group's dead-letter topic at once; the dead letters carry the reason."""

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        """Move the group to a position, on one queue or on all of the topic's.

        Messages before it count as settled, those after it are delivered (again) with new attempts; older handles are
        void.  A reset of all queues also drops the messages for this topic in the group's retry topic.

        Raises TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND, FORBIDDEN (they are of two namespaces).
        """

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        """Put dead letters of the group into its retry topic, with all attempts anew; no other group sees them.  The
        dead letters stay in place: `queue_id` of its dead-letter topic.  Raises CONSUMER_GROUP_NOT_FOUND. Refusals:
        ILLEGAL_OFFSET for an offset without one, TOPIC_NOT_FOUND where the original topic is gone."""

    def release_waiting(self) -> None:
        """Answer every long poll empty, now and from here on (the gateway is draining)."""
