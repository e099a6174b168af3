"""Operations of the wire that are not a method of a port: appending, streams, the broker as a whole, replicas,
controllers and name servers.  Those of the ports are in `store_rows`.

An operation has a number, and the types of its arguments and its result.  `RAW` is bytes in a form of their own
(`message_batch`), or nothing.  An idempotent operation may be repeated when its answer was lost.  Numbers are fixed for
ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from entrepot.domain.backups import BackupStatus
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange, KeyValueEvent
from entrepot.domain.ports.cluster import LogCondition
from entrepot.domain.position import Position
from entrepot.domain.replication.control import (
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
from entrepot.domain.replication.greeting import Greeting
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member, Promise
from entrepot.domain.route import BrokerInfo, Registration, Routes
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.authentication import Role
from entrepot.protocols.wire.operation import ANYBODY, BROKERS, CONTROLLERS, ELECTORS, GATEWAYS, PARTS
from entrepot.protocols.wire.operation import Operation as Operation
from entrepot.protocols.wire.values import Codec

RAW: Final = None
Outcomes = list[EntrepotError | None]


def _operation(
    number: int,
    name: str,
    arguments: Any,
    result: Any,
    *,
    again: bool = False,
    stream: bool = False,
    callers: frozenset[Role] = PARTS,
) -> Operation:
    return Operation(
        number,
        name,
        None if arguments is RAW else Codec(arguments),
        None if result is RAW else Codec(result),
        again,
        stream,
        callers,
    )


LEAVES: Final = "the broker leaves: the message was not taken"
"""Refusal of messages by a broker that is about to leave, or to stop being master."""
NOT_HERE: Final = "is not available here"
"""Last words of a refusal of an unknown operation, as from a replica that is not master: nothing was done."""

# -- the store: appending and streams; the other operations of its ports are `store_rows` -----------------------------
APPEND: Final = _operation(1, "append", RAW, Outcomes | None, callers=ANYBODY)
APPEND_HALF: Final = _operation(2, "append_half", RAW, Outcomes | None)
APPEND_MISSING: Final = _operation(3, "append_missing", RAW, Outcomes | None, callers=ANYBODY)
"""An APPEND repeated at a later master than the one that lost the answer: it stores what it does not have."""
TAIL: Final = _operation(15, "tail", tuple[str, int, int | Position | None], tuple[int, bytes], stream=True)
WATCH_AVAILABLE: Final = _operation(26, "watch_available", tuple[str, str], None, stream=True)
WATCH_KEY_VALUES: Final = _operation(43, "watch", tuple[str], list[KeyValueEvent], stream=True)


# -- the broker as a whole -------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Definitions:
    """A broker's topics, groups and namespaces: at first all, then changes.  `deleted`: deletions by gateways, as
    `topic/NAME`, `group/NAME`, `namespace/NAME`, with their revision. `namespaces`: all of them."""

    info: BrokerInfo
    topics: list[Topic] = field(default_factory=list)
    gone_topics: list[str] = field(default_factory=list)
    groups: list[ConsumerGroup] = field(default_factory=list)
    gone_groups: list[str] = field(default_factory=list)
    namespaces: dict[str, int] | None = None
    deleted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drainage:
    """The remaining contents of a broker without new messages.  `unsettled`: messages that groups have not settled.
    `waiting`: messages that wait for their time, or the end of their transaction.  `unread`: messages in queues that no
    group reads; they do not delay it.  `key_values`: those that another broker is to take over."""

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
WATCH_DEFINITIONS: Final = _operation(70, "watch_definitions", tuple[()], Definitions, stream=True, callers=ANYBODY)
BACKUP: Final = _operation(104, "backup", tuple[bool], BackupStatus, again=True, callers=GATEWAYS)
"""The broker's backup of itself; True: a new run is to start."""
TIME: Final = _operation(103, "time", tuple[()], tuple[int, bool], again=True, callers=ANYBODY)
"""Time of a broker's clock, in epoch milliseconds; True where its controllers say that most clocks
agree with it."""
DRAINAGE: Final = _operation(72, "drainage", tuple[Readers], Drainage, again=True)
SET_DRAINING: Final = _operation(73, "set_draining", tuple[bool], None, again=True)
SEAL_KEY_VALUES: Final = _operation(74, "seal_key_values", tuple[int], int, again=True)
KEEP_KEY_VALUES: Final = _operation(75, "keep_key_values", tuple[bool, int], None, again=True)
LEAVE: Final = _operation(76, "leave", tuple[Readers], None)
READERS: Final = _operation(78, "readers", tuple[()], Readers, again=True)
IMPORT_KEY_VALUES: Final = _operation(77, "import_key_values", tuple[list[KeyValueChange], bool], None, again=True)


# -- replicas --------------------------------------------------------------------------------------------------------
class StoreSeed(NamedTuple):
    """The initial values of a new replica's store, equal for all of a group.  `begin`: present start of the log."""

    store_id: str
    handle_key: str
    segment_size_bytes: int
    begin: int


class SlaveStatus(NamedTuple):
    """A slave in its master's view.  `acknowledged`: end of its synced log.  `is_following`: it is connected.
    `is_in_sync`: it is in the in-sync set. `behind_seconds`: age of the oldest record that it lacks; None if
    unknown."""

    acknowledged: int
    is_following: bool
    is_in_sync: bool
    behind_seconds: float | None


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica in its own view.  `last`: epoch and run of its log's last bytes.  `slaves`: those of a master, by
    replica id.  `problem`: reason why it is neither an open master nor a slave that follows one.  `begin`,
    `segment_size`: those of its log, or 0. `tokens`: those of its last runs."""

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
    """Reason why these would not replace its master, as far as a replica can tell; it goes on without them."""


REPLICATE: Final = _operation(90, "replicate", Greeting, RAW, stream=True, callers=BROKERS)
"""Items: one byte, 0 a welcome, 1 a run: u64 offset, u64 confirmed, records."""
HAVE: Final = _operation(91, "have", tuple[int, int, int], None, callers=BROKERS)
"""A slave's acknowledgement: replica id, number of the stream, end of its synced log."""
SEED: Final = _operation(92, "seed", tuple[()], StoreSeed, again=True, callers=BROKERS)
FENCE: Final = _operation(
    93, "fence", tuple[int, str], tuple[FenceAnswer | None, Promise | None], again=True, callers=ELECTORS
)
APPOINT: Final = _operation(94, "appoint", tuple[Appointment], None, again=True, callers=ELECTORS)
REPLICA_STATUS: Final = _operation(95, "replica_status", tuple[()], ReplicaStatus, again=True)
QUIESCE: Final = _operation(96, "quiesce", tuple[int, float], bool, callers=ELECTORS)
"""Stop taking messages for some seconds, until a replica has all; True if it has."""
PART: Final = _operation(102, "part", tuple[int], None, again=True, callers=BROKERS)
"""A slave's goodbye to its master, which then leaves the set at once."""
FETCH_LOG: Final = _operation(98, "fetch_log", tuple[str, tuple[int, int], int], RAW, again=True, callers=ELECTORS)
"""Confirmed records of a group from an offset on, as a run; the logs agree before it, by the start (epoch, run)."""
LOG_CHECKSUMS: Final = _operation(99, "log_checksums", tuple[int, int], list[int], again=True, callers=ELECTORS)
"""CRC-32C of each MiB of the confirmed log between two offsets of one segment; the last may be shorter."""
CHECK_LOG: Final = _operation(100, "check_log", tuple[int, int], bool, again=True, callers=ELECTORS)
"""Check the records between two offsets of one segment, and heal corrupted ones; True if all are whole then."""
REPLICA_HEALTH: Final = _operation(
    101, "replica_health", tuple[()], tuple[ReplicaStatus, ReplicaStatus | None], again=True
)
"""A replica in its own view, and its master, if it follows one that answers."""


class ReadOffer(NamedTuple):
    """The offer of a slave to answer reads.  `confirmed`: confirmed end of its store then.  `zone`: its zone.
    `topics`: all of them, if wanted.  `keeps_up`: it follows its master, and has derived nearly all of the confirmed
    log."""

    store_id: str
    number: int
    replica: int
    confirmed: int
    zone: str = ""
    topics: tuple[Topic, ...] = ()
    keeps_up: bool = False


WATCH_READS: Final = _operation(97, "watch_reads", tuple[bool], ReadOffer, stream=True, callers=ANYBODY)
"""An item once a slave answers reads (with all topics, if wanted), and at each change of `keeps_up`.  It ends when the
slave stops answering reads."""

# -- controllers -----------------------------------------------------------------------------------------------------
RAFT: Final = _operation(110, "raft", RAW, None, callers=CONTROLLERS)
"""Messages of one controller to another (`broker.controller.peers`)."""
CONTROLLER: Final = _operation(111, "controller", tuple[()], ControllerView, again=True)
ATTACH: Final = _operation(112, "attach", tuple[GroupShape, Report], Order, stream=True, callers=BROKERS)
"""Orders for a replica; the stream ends where it is refused, or the controller stops."""
REPORT: Final = _operation(113, "report", tuple[str, Report], ReportAnswer, again=True, callers=BROKERS)
OBEYED: Final = _operation(114, "obeyed", tuple[str, int, OrderAnswer], None, again=True, callers=BROKERS)
"""The answer of a replica, by its id, to an order."""
CHANGE_SET: Final = _operation(115, "change_set", tuple[str, SetChange], Appointment, again=True, callers=BROKERS)
"""The appointment decided then: the proposed one, or another in its way."""
ELECT: Final = _operation(117, "elect", tuple[str, int, list[int], bool], Appointment)
"""Group, next master or 0, lost replicas, unclean."""
GROUPS: Final = _operation(118, "groups", tuple[()], list[GroupView], again=True)
CHANGE_CONTROLLERS: Final = _operation(119, "change_controllers", tuple[int, int, str], None)
"""Id of the controller to remove, or 0; of the one to add, or 0; its host:port."""
CLOCK: Final = _operation(
    116, "clock", tuple[str, int, int, int], bool | None, again=True, callers=BROKERS | CONTROLLERS
)
"""Group of a replica (empty: of a controller), its number, what its clock says in epoch milliseconds, and by how many
its system's is ahead of that. True: most clocks agree with it; None: of an earlier version, or by one that does not
lead."""
CHANGE_REPLICAS: Final = _operation(120, "change_replicas", tuple[str, int, ReplicaChange], GroupView)
"""Group, and one replica of it."""

# -- name servers ----------------------------------------------------------------------------------------------------
REGISTER: Final = _operation(80, "register", tuple[Registration], None, again=True, callers=BROKERS)
HEARTBEAT: Final = _operation(81, "heartbeat", tuple[str, int, int], bool, again=True, callers=BROKERS)
UNREGISTER: Final = _operation(82, "unregister", tuple[str, int], None, again=True, callers=BROKERS)
ROUTES: Final = _operation(83, "routes", tuple[()], Routes, again=True, callers=ANYBODY)
WATCH_ROUTES: Final = _operation(84, "watch_routes", tuple[()], Routes, stream=True, callers=ANYBODY)
"""All routes at each change, for gateways of an earlier version."""
REGISTER_CHANGE: Final = _operation(85, "register_change", tuple[Registration, int], bool, again=True, callers=BROKERS)
"""Changes since the version with which the broker registered before; False: it is to register all."""
WATCH_ROUTE_CHANGES: Final = _operation(86, "watch_route_changes", tuple[()], Routes, stream=True, callers=ANYBODY)
"""All routes, then what changed since the item before."""
