"""Operations: what can be asked over the wire, each said once.

An operation has a number, the type of its arguments and that of its result.  `RAW` is bytes in a form of their own
(`message_batch`), or nothing.  An idempotent one may be asked again when its answer was lost.

Names are those of `domain.ports`, numbers are for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from domain.cluster import LogCondition
from domain.consumer_group import ConsumerGroup, GroupStatus
from domain.delivery import DeliveryPlaces
from domain.errors import EntrepotError
from domain.expression.filter import FilterExpression
from domain.key_value import KeyValue, KeyValueChange, KeyValueEvent
from domain.measurement import Histogram
from domain.ports import PopRequest
from domain.position import Position
from domain.query import MessageConsumer, MessageHop, MessageQuery
from domain.replication.control import (
    ControllerView,
    GroupShape,
    GroupView,
    Order,
    OrderAnswer,
    ReplicaChange,
    Report,
    ReportAnswer,
    SetChange,
)
from domain.replication.greeting import Greeting
from domain.replication.mastership import Appointment, FenceAnswer, Member, Promise
from domain.route import BrokerInfo, Registration, Routes
from domain.tiering import AttachRequest, RestoreRequest, TableTopic, TierStatus
from domain.timing import TimerCursor
from domain.topic import QueueBounds, Topic, TopicStatus
from domain.transaction import TransactionEnd
from protocols.remoting.values import Codec, encode

RAW: Final = None
Outcomes = list[EntrepotError | None]


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One thing that can be asked."""

    number: int
    name: str
    arguments: Codec[Any] | None
    result: Codec[Any] | None
    is_idempotent: bool = False
    is_stream: bool = False

    def encode_arguments(self, *arguments: Any) -> bytes:
        """The payload of a request."""
        return encode(arguments)


OPERATIONS: Final[dict[int, Operation]] = {}


def _operation(
    number: int, name: str, arguments: Any, result: Any, *, again: bool = False, stream: bool = False
) -> Operation:
    made = Operation(
        number,
        name,
        None if arguments is RAW else Codec(arguments),
        None if result is RAW else Codec(result),
        again,
        stream,
    )
    assert number not in OPERATIONS
    OPERATIONS[number] = made
    return made


LEAVES: Final = "the broker leaves: the message was not taken"
"""Why a broker that is about to go, or to be master no more, takes no message."""
NOT_HERE: Final = "is not available here"
"""Last words of who does not know an operation, as a replica that is not master: nothing was done."""

# -- messages --------------------------------------------------------------------------------------------------------
APPEND: Final = _operation(1, "append", RAW, Outcomes | None)
APPEND_HALF: Final = _operation(2, "append_half", RAW, Outcomes | None)
APPEND_MISSING: Final = _operation(3, "append_missing", RAW, Outcomes | None)
"""Asked of a later master than the one that lost the answer to APPEND: it stores what it does not have."""
READ: Final = _operation(10, "read", tuple[str, int, int, int], RAW, again=True)
PULL: Final = _operation(
    11, "pull", tuple[str, int, int, int, FilterExpression | None], tuple[bytes, int, int, int], again=True
)
MATCHING_OFFSETS: Final = _operation(
    12, "matching_offsets", tuple[str, int, str, int, int], tuple[list[int], int], again=True
)
OFFSET_AT: Final = _operation(13, "offset_at", tuple[str, int, Position], int, again=True)
BOUNDS: Final = _operation(14, "bounds", tuple[str], list[QueueBounds], again=True)
TAIL: Final = _operation(15, "tail", tuple[str, int, int | Position | None], tuple[int, bytes], stream=True)

RECORDS: Final = _operation(16, "records", tuple[str, int, int, int, int, FilterExpression | None], RAW, again=True)
BYTES_BETWEEN: Final = _operation(17, "bytes_between", tuple[str, int, int, int], int, again=True)

# -- consumption -----------------------------------------------------------------------------------------------------
POP_RUNS: Final = _operation(28, "pop_runs", tuple[PopRequest], RAW)
Receipts = list[str | DeliveryPlaces]
"""Receipt handles, and places of deliveries, which have an outcome for each of them."""


class Acknowledged(NamedTuple):
    """Arguments of `acknowledge`."""

    topic: str
    group: str
    receipts: Receipts
    may_wait: bool = False


ACKNOWLEDGE: Final = _operation(21, "acknowledge", Acknowledged, Outcomes)
CHANGE_INVISIBLE_DURATION: Final = _operation(
    22, "change_invisible_duration", tuple[str, str, Receipts, int | None, bool, bool], Outcomes
)
REJECT: Final = _operation(23, "reject", tuple[str, str, Receipts, str], Outcomes)
RESET_GROUP: Final = _operation(24, "reset_group", tuple[str, str, Position, int | None], GroupStatus)
RESEND_DEAD_LETTERS: Final = _operation(25, "resend_dead_letters", tuple[str, list[int], int], Outcomes)
WATCH_AVAILABLE: Final = _operation(26, "watch_available", tuple[str, str], None, stream=True)

# -- topology --------------------------------------------------------------------------------------------------------
PUT_TOPICS: Final = _operation(30, "put_topics", tuple[list[Topic]], Outcomes, again=True)
DELETE_TOPIC: Final = _operation(31, "delete_topic", tuple[str, int], None)
TOPIC_STATUS: Final = _operation(32, "topic_status", tuple[str], TopicStatus, again=True)
PUT_NAMESPACE: Final = _operation(33, "put_namespace", tuple[str, int], None, again=True)
DELETE_NAMESPACE: Final = _operation(34, "delete_namespace", tuple[str, int], None)
PUT_GROUP: Final = _operation(35, "put_group", tuple[ConsumerGroup], None, again=True)
DELETE_GROUP: Final = _operation(36, "delete_group", tuple[str, int], None)
GROUP_STATUS: Final = _operation(37, "group_status", tuple[str], GroupStatus, again=True)

# -- key-values ------------------------------------------------------------------------------------------------------
GET: Final = _operation(40, "get", tuple[list[str]], list[KeyValue | None], again=True)
SCAN: Final = _operation(41, "scan", tuple[str, str, int], list[KeyValue], again=True)
SCAN_BYTES: Final = 16 << 20
"""A scan's answer ends, before its limit, with the value that makes it so large."""
WRITE: Final = _operation(42, "write", tuple[list[KeyValueChange]], int)
WATCH_KEY_VALUES: Final = _operation(43, "watch", tuple[str], list[KeyValueEvent], stream=True)

# -- finder ----------------------------------------------------------------------------------------------------------
QUERY: Final = _operation(50, "query", tuple[MessageQuery], tuple[bytes, str | None], again=True)
MESSAGES_BY_ID: Final = _operation(51, "messages_by_id", tuple[bytes], RAW, again=True)
MESSAGE_AT: Final = _operation(52, "message_at", tuple[int], RAW, again=True)
MESSAGE_CONSUMERS: Final = _operation(53, "message_consumers", tuple[bytes], list[MessageConsumer], again=True)
MESSAGE_TRACE: Final = _operation(54, "message_trace", tuple[bytes], list[MessageHop], again=True)

# -- timers and transactions -----------------------------------------------------------------------------------------
RECALL: Final = _operation(60, "recall", tuple[str, bytes, int], None)
RETIME: Final = _operation(61, "retime", tuple[str, bytes, int, int], None)
TIMED_MESSAGES: Final = _operation(
    62, "timed_messages", tuple[str | None, TimerCursor | None, int], tuple[bytes, list[int]], again=True
)
END_TRANSACTIONS: Final = _operation(63, "end_transactions", tuple[list[TransactionEnd]], Outcomes)
TAKE_CHECKS: Final = _operation(64, "take_checks", tuple[list[str], int], RAW)


# -- the broker as a whole -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Definitions:
    """What a broker has of topics, groups and namespaces; at first all of it, then what has changed.

    `deleted`: what was deleted by a gateway, as `topic/NAME`, `group/NAME`, `namespace/NAME`, with the revision that
    did it.  `namespaces`: all of them.
    """

    info: BrokerInfo
    topics: list[Topic] = field(default_factory=list)
    gone_topics: list[str] = field(default_factory=list)
    groups: list[ConsumerGroup] = field(default_factory=list)
    gone_groups: list[str] = field(default_factory=list)
    namespaces: dict[str, int] | None = None
    deleted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drainage:
    """What is still on a broker that no new messages go to.

    `unsettled`: messages that groups have not settled.  `waiting`: for their time, or the end of their transaction.
    `unread`: in queues that no group reads; they do not hold it up.  `key_values`: that another is to take over.
    """

    is_draining: bool
    unsettled: int
    waiting: int
    unread: int
    key_values: int

    @property
    def is_empty(self) -> bool:
        return not (self.unsettled or self.waiting or self.key_values)


Readers = list[tuple[str, str]]
"""Groups with topics that they read, as (group, topic)."""
WATCH_DEFINITIONS: Final = _operation(70, "watch_definitions", tuple[()], Definitions, stream=True)
MEASURE: Final = _operation(
    71, "measure", tuple[()], tuple[dict[str, Histogram], dict[str, float], EntrepotError | None], again=True
)
TIERING: Final = _operation(121, "tiering", tuple[()], list[TierStatus], again=True)
RESTORE_TOPIC: Final = _operation(128, "restore_topic", tuple[RestoreRequest], TableTopic)
ATTACH_TOPIC: Final = _operation(129, "attach_topic", tuple[AttachRequest], TableTopic)
DRAINAGE: Final = _operation(72, "drainage", tuple[Readers], Drainage, again=True)
SET_DRAINING: Final = _operation(73, "set_draining", tuple[bool], None, again=True)
SEAL_KEY_VALUES: Final = _operation(74, "seal_key_values", tuple[int], int, again=True)
KEEP_KEY_VALUES: Final = _operation(75, "keep_key_values", tuple[bool, int], None, again=True)
LEAVE: Final = _operation(76, "leave", tuple[Readers], None)
READERS: Final = _operation(78, "readers", tuple[()], Readers, again=True)
IMPORT_KEY_VALUES: Final = _operation(77, "import_key_values", tuple[list[KeyValueChange], bool], None, again=True)


# -- replicas --------------------------------------------------------------------------------------------------------
class StoreSeed(NamedTuple):
    """What a new replica's store begins with: the same for all of a group.  `begin`: of the log, as it is kept now."""

    store_id: str
    handle_key: str
    segment_size_bytes: int
    begin: int


class SlaveStatus(NamedTuple):
    """A slave as its master knows it.  `acknowledged`: up to where it has synced.  `is_following`: it is connected.

    `is_in_sync`: it is a member of the set.  `behind_seconds`: age of the oldest record that it lacks; None: not known.
    """

    acknowledged: int
    is_following: bool
    is_in_sync: bool
    behind_seconds: float | None


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica as it sees itself.  `last`: epoch and run of whose bytes its log has last.  `slaves`: of a master, by
    replica id.  `problem`: why it is neither an open master nor a slave that follows one.  `begin`, `segment_size`: of
    its log, 0 where it has none.  `tokens`: of its last runs."""

    member: Member
    group: str
    role: str
    epoch: int
    run: int
    end: int
    synced: int
    confirmed: int
    is_open: bool
    promise: Promise
    appointment: Appointment
    last: tuple[int, int] = (0, 0)
    slaves: dict[int, SlaveStatus] = field(default_factory=dict)
    problem: str = ""
    log: LogCondition = field(default_factory=LogCondition)
    begin: int = 0
    segment_size: int = 0
    tokens: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    """host:port of the controllers that elect its master; none where people do."""
    control_problem: str = ""
    """Why these would not replace its master, as far as a replica can tell; it goes on without them."""


REPLICATE: Final = _operation(90, "replicate", Greeting, RAW, stream=True)
"""Items: one byte, 0 a welcome, 1 a run: u64 offset, u64 confirmed, records."""
HAVE: Final = _operation(91, "have", tuple[int, int, int], None)
"""A slave has synced: replica id, number of the stream, end."""
SEED: Final = _operation(92, "seed", tuple[()], StoreSeed, again=True)
FENCE: Final = _operation(93, "fence", tuple[int, str], tuple[FenceAnswer | None, Promise | None], again=True)
APPOINT: Final = _operation(94, "appoint", tuple[Appointment], None, again=True)
REPLICA_STATUS: Final = _operation(95, "replica_status", tuple[()], ReplicaStatus, again=True)
QUIESCE: Final = _operation(96, "quiesce", tuple[int, float], bool)
"""Take no messages for some seconds, until a replica has all: whether it has."""
PART: Final = _operation(102, "part", tuple[int], None, again=True)
"""Said by a slave that stops, to its master: it need not be missed first to leave the set."""
FETCH_LOG: Final = _operation(98, "fetch_log", tuple[str, tuple[int, int], int], RAW, again=True)
"""Confirmed records of a group from an offset on, as a run; before it both logs are those of the start (epoch, run)."""
LOG_CHECKSUMS: Final = _operation(99, "log_checksums", tuple[int, int], list[int], again=True)
"""CRC-32C of each MiB of the confirmed log between two offsets of one segment, the last one's as far as it goes."""
CHECK_LOG: Final = _operation(100, "check_log", tuple[int, int], bool, again=True)
"""Look for corrupted records between two offsets of one segment, and heal them: True where all are whole then."""
REPLICA_HEALTH: Final = _operation(
    101, "replica_health", tuple[()], tuple[ReplicaStatus, ReplicaStatus | None], again=True
)
"""A replica as it sees itself, and its master, where it follows one that answers."""


class ReadOffer(NamedTuple):
    """A slave that answers reads: of a store, as far as it was `confirmed` then, and from a zone.  `topics`: all, where
    they are wanted.  `keeps_up`: it follows its master, and has derived nearly all that is confirmed."""

    store_id: str
    number: int
    replica: int
    confirmed: int
    zone: str = ""
    topics: tuple[Topic, ...] = ()
    keeps_up: bool = False


WATCH_READS: Final = _operation(97, "watch_reads", tuple[bool], ReadOffer, stream=True)
"""An item once a slave answers reads, with all topics if they are wanted, and whenever it begins or ceases to keep up.
It ends when the slave answers no reads any more."""

# -- controllers -----------------------------------------------------------------------------------------------------
RAFT: Final = _operation(110, "raft", RAW, None)
"""Messages of one controller to another (`broker.controller.peers`)."""
CONTROLLER: Final = _operation(111, "controller", tuple[()], ControllerView, again=True)
ATTACH: Final = _operation(112, "attach", tuple[GroupShape, Report], Order, stream=True)
"""A replica takes orders; the stream ends where it is refused, or the controller stops."""
REPORT: Final = _operation(113, "report", tuple[str, Report], ReportAnswer, again=True)
OBEYED: Final = _operation(114, "obeyed", tuple[str, int, OrderAnswer], None, again=True)
"""A replica of a group, by its id, answers an order."""
CHANGE_SET: Final = _operation(115, "change_set", tuple[str, SetChange], Appointment, again=True)
"""The appointment that is decided then: the proposed one, or another that stands in its way."""
ELECT: Final = _operation(117, "elect", tuple[str, int, list[int], bool], Appointment)
"""Group, next master or 0, lost replicas, unclean."""
GROUPS: Final = _operation(118, "groups", tuple[()], list[GroupView], again=True)
CHANGE_CONTROLLERS: Final = _operation(119, "change_controllers", tuple[int, int, str], None)
"""Id of the controller that goes, or 0; of the one that comes, or 0; its host:port."""
CHANGE_REPLICAS: Final = _operation(120, "change_replicas", tuple[str, int, ReplicaChange], GroupView)
"""Group, and one replica of it."""

# -- name servers ----------------------------------------------------------------------------------------------------
REGISTER: Final = _operation(80, "register", tuple[Registration], None, again=True)
HEARTBEAT: Final = _operation(81, "heartbeat", tuple[str, int, int], bool, again=True)
UNREGISTER: Final = _operation(82, "unregister", tuple[str, int], None, again=True)
ROUTES: Final = _operation(83, "routes", tuple[()], Routes, again=True)
WATCH_ROUTES: Final = _operation(84, "watch_routes", tuple[()], Routes, stream=True)
