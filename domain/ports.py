"""What the inside needs from a store: small Protocols, implemented by every face in `store_client`.

The contract suite (`tests/contract`) states their behaviour and runs on all implementations.  Batches cross here,
single messages do not.  A call that can be refused per item returns one outcome per item; what concerns the whole
call is raised as `EntrepotError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from domain.confirmation import Confirmation
from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.errors import Code, EntrepotError
from domain.expression.filter import FilterExpression
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from domain.measurement import Histogram
from domain.message import Delivery, Message, StoredMessage
from domain.position import Position
from domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery
from domain.timing import TimedMessage, TimerCursor
from domain.topic import QueueBounds, Topic, TopicQueues, TopicStatus
from domain.transaction import TransactionEnd

MAX_POP_MESSAGES = 100
MAX_POP_BYTES: Final = 16 << 20
"""Of the records that one pop takes from a broker, but for a first one that is larger: else it gives fewer."""
MAX_ATTEMPT_ID_BYTES: Final = 255
REJECTED: Final = "rejected"
"""What a dead letter says whose consumer gave no reason."""


@dataclass(frozen=True, slots=True)
class PopRequest:
    """Ask for up to `max_messages` of `topic` for `group`, waiting up to `wait_ms` for the first one.

    `invisible_ms` None is the group's own.  `filter` None is the group's own; what a filter does not want counts as
    settled.  `attempt_id` (of MAX_ATTEMPT_ID_BYTES at most): a name for this try, for FIFO groups: a consumer that
    never got the answer asks again with the same name, and gets the same messages while they are in flight.
    `is_again`: only those, nothing new; for who pops over several brokers, one of which has them.  `only_over`: of each
    queue only messages whose time is over (EXPIRES_AT_MS, or `lifetime_ms` after they were born), up to the first that
    can be had and is not; not for FIFO groups, nor with a filter.
    """

    topic: str
    group: str
    max_messages: int
    wait_ms: int = 0
    invisible_ms: int | None = None
    filter: FilterExpression | None = None
    attempt_id: str = ""
    is_again: bool = False
    only_over: bool = False
    lifetime_ms: int | None = None

    def __post_init__(self) -> None:
        if len(self.attempt_id.encode()) > MAX_ATTEMPT_ID_BYTES:
            raise EntrepotError(Code.BAD_REQUEST, f"an attempt id has at most {MAX_ATTEMPT_ID_BYTES} bytes")


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

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), MESSAGE_CORRUPTED.
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


class Consumption(Protocol):
    async def pop(self, request: PopRequest) -> list[Delivery]:
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

    async def acknowledge(self, topic: str, group: str, receipt_handles: Sequence[str]) -> list[EntrepotError | None]:
        """Mark as consumed; durable when this returns.  INVALID_RECEIPT_HANDLE where an attempt is not current."""
        ...

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipt_handles: Sequence[str],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
    ) -> list[EntrepotError | None]:
        """Renew (`release` False: invisible from now on, None = the group's own) or give back (`release` True:
        visible to others after `invisible_ms`, None = as the group's retry policy says; the handle is void).

        `suspend`: this delivery does not count as an attempt, the next one has its number again."""
        ...

    async def reject(
        self, topic: str, group: str, receipt_handles: Sequence[str], reason: str = REJECTED
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


class KeyValues(Protocol):
    """Small durable facts (`domain.key_value`)."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]: ...

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        """Keys with a prefix in order of their code points, those behind `after`; at most MAX_SCAN."""
        ...

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        """All of the changes or none; durable when this returns.  Returns their version.

        Raises PRECONDITION_FAILED, naming the first key whose version is another; BAD_REQUEST beyond the limits.
        """
        ...

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        """Call back with the changes of each write, in order, once they are durable; returns the way to stop that.

        `on_begun`: called when it has begun, and whenever it begins anew because its keeper was away.  What was written
        before that is not told.
        """
        ...


class MessageFinder(Protocol):
    """Looking messages up (`domain.query`)."""

    async def query(self, query: MessageQuery) -> MessagePage:
        """Messages of a topic, the newest first.  Raises TOPIC_NOT_FOUND, BAD_REQUEST (a cursor that is none)."""
        ...

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        """Every stored message with an id, the newest first: producers choose ids, and a dead letter keeps that of the
        message it was made from.  At most MAX_QUERY_MESSAGES.

        A broker that is away is passed over; with `everywhere` that raises UNAVAILABLE."""
        ...

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        """The message whose record lies at a place.  Raises OFFSET_NOT_FOUND."""
        ...

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        """What became of a stored message for each group that reads its topic, by name of the group."""
        ...

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        """The hops of messages with an id that were traced (`Topic.trace`), oldest first; empty where none was.  At
        least the newest MAX_QUERY_MESSAGES."""
        ...


class Timers(Protocol):
    """Messages that are to be delivered later: those appended with DELIVER_AT_MS behind now."""

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        """Take one back before its time.  Raises OFFSET_NOT_FOUND where it is not waiting (any more)."""
        ...

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        """Give one another time, which its DELIVER_AT_MS says from then on; at or before now it is delivered at once.

        Raises OFFSET_NOT_FOUND, ILLEGAL_DELIVERY_TIME.
        """
        ...

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        """What is waiting, the next one first, of one topic or all."""
        ...


class Transactions(Protocol):
    """Half messages (RocketMQ's transactional messages): kept, and delivered only if their producer commits."""

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        """Keep messages that wait for their end; each has a TRANSACTION_ID of its own.  Refusals as `append`, and
        BAD_REQUEST for an id that is missing or waiting already."""
        ...

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Commit or roll back; durable when this returns.  INVALID_TRANSACTION_ID where none of that id is waiting
        (any more)."""
        ...

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        """Half messages whose producer has been silent for too long: ask one of its kind, and end them as it says.
        Each is given out again after the check interval, and expires after the last check: it is rolled back."""
        ...


class Store(
    MessageAppender, MessageReader, Consumption, Topology, KeyValues, MessageFinder, Timers, Transactions, Protocol
):
    """All of it: one store, as a gateway holds it."""

    @property
    def failure(self) -> EntrepotError | None:
        """Why the store has stopped for good, or None while it works."""
        ...

    @property
    def damage(self) -> list[str]:
        """What had been kept and is known to be missing, a sentence for each store; known without looking around."""
        ...

    async def measurements(self) -> dict[str, Histogram]:
        """How long things take since the store was opened, as far as it measures that: `append` (from taking messages
        to their confirm), `sync` (a round of making data durable), `pop` (from claiming messages to answering)."""
        ...

    async def gauges(self) -> dict[str, float]:
        """Numbers that it knows without looking around: `timing_messages` and `half_messages` that wait, and others
        of its own."""
        ...

    async def close(self) -> None:
        """Stop cleanly: everything taken is durable, everything known is kept."""
        ...
