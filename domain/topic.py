"""Topic: a named, partitioned, append-only stream of messages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from entrepot.domain.errors import Code, EntrepotError, FieldError

MAX_QUEUES = 1024
MAX_INCARNATION = (1 << 53) - 1
"""Greatest number of an incarnation: those of JSON's readers stay whole up to here."""
Placement = tuple[tuple[str, int], ...]
"""Brokers by name, each with its number of queues of a topic."""


class TopicType(StrEnum):
    """Types of topics (RocketMQ's `message.type`).  NORMAL accepts any message.  In a PRIORITY topic the queue is the
    message's priority, and the highest queue is popped first."""

    NORMAL = "NORMAL"
    PRIORITY = "PRIORITY"


class Cleanup(StrEnum):
    """Treatments of old messages (RocketMQ's `cleanup.policy`).

    DELETE: dropped by age and size.  CONSUMED: kept until every group of the topic has settled them, however old
    (queues of AMQP applications).  COMPACT: the last message per key is kept for ever, and replaced ones are removed in
    time; every message needs a key (`message.compaction_key`), and an empty body deletes the key.
    """

    DELETE = "DELETE"
    CONSUMED = "CONSUMED"
    COMPACT = "COMPACT"


class Confirm(StrEnum):
    """Disks that confirm a message of a topic, where its broker has replicas.

    RULE: those of the broker's rule.  ASYNC: the master's alone.  Bytes that the others lack when it is lost are lost,
    and are never delivered before the others have them.
    """

    RULE = "RULE"
    ASYNC = "ASYNC"


class Permission(StrEnum):
    """Rights of clients on a topic."""

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
    """The definition of a topic.

    `queues` may grow at any time, and shrink at the tail once every group has settled the removed queues.
    `write_queues` (None = all) is the number of queues for new messages: lower it first, drain, then lower `queues`.
    `retention_seconds` and `retention_bytes`: None for the store's default.  `max_message_bytes`: the longest body.
    `max_backlog`: lag of the slowest group at which new messages are refused (TOO_MANY_REQUESTS).  None means no own
    limit.  `trace`: the share of its messages, 0 to 1, that are traced hop by hop (`domain.query`).  `confirm`: the
    disks that confirm a message.  `tier_seconds`: age up to which messages stay in the object store, where the broker
    has one; None: none go there.  Only with DELETE.

    With several brokers, `queues` and `write_queues` are those of each of them, later ones included; `placement`
    instead names the brokers that have the topic, each with its own count.  `revision` orders the definitions that
    brokers have of one topic: the highest applies.  0 is that of a store by itself.  `made_at` sets a topic apart from
    earlier ones of its name at one broker, which gives it; 0: not known (`Topology.made_at`).
    """

    name: str
    queues: int = 4
    type: TopicType = TopicType.NORMAL
    permission: Permission = Permission.READ_WRITE
    retention_seconds: int | None = None
    retention_bytes: int | None = None
    write_queues: int | None = None
    cleanup: Cleanup = Cleanup.DELETE
    max_message_bytes: int | None = None
    max_backlog: int | None = None
    trace: float = 0.0
    placement: Placement = ()
    revision: int = field(default=0, compare=False)
    confirm: Confirm = Confirm.RULE
    tier_seconds: int | None = None
    made_at: int = field(default=0, compare=False)

    @property
    def writable_queues(self) -> int:
        """Number of the queues for new messages, from 0 on."""
        return self.queues if self.write_queues is None else self.write_queues

    def __post_init__(self) -> None:
        if not 1 <= self.queues <= MAX_QUEUES:
            raise FieldError("queues", f"must be 1 to {MAX_QUEUES}, not {self.queues}")
        if self.write_queues is not None and not 1 <= self.write_queues <= self.queues:
            raise FieldError("write_queues", f"must be 1 to {self.queues}, not {self.write_queues}")
        self._check_placement()
        for name in ("retention_seconds", "retention_bytes", "max_message_bytes", "max_backlog", "tier_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise FieldError(name, f"must be positive, not {value}")
        if not 0 <= self.trace <= 1:
            raise FieldError("trace", f"must be a share from 0 to 1, not {self.trace}")
        if self.tier_seconds is not None and self.cleanup is not Cleanup.DELETE:
            raise FieldError("tier_seconds", f"needs cleanup DELETE: a {self.cleanup} topic stays on the broker's disk")

    def _check_placement(self) -> None:
        for name, queues in self.placement:
            if not 1 <= queues <= MAX_QUEUES:
                raise EntrepotError(
                    Code.BAD_REQUEST, f"placement: queues must be 1 to {MAX_QUEUES}, not {queues} on {name!r}"
                )
        if len(dict(self.placement)) < len(self.placement):
            raise EntrepotError(Code.BAD_REQUEST, "placement: names a broker twice")

    def queues_on(self, broker: str) -> int:
        """Return the number of its queues on a broker."""
        return dict(self.placement).get(broker, 0) if self.placement else self.queues


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """The ids of a topic's queues.  `readable`: all of them.  `writable`: those for ordering keys, the same for every
    gateway, even while a broker is away.  `preferred`: the best of these at the moment for a message without a key."""

    readable: Sequence[int]
    writable: Sequence[int]
    preferred: Sequence[int]


@lru_cache(maxsize=4096)
def own_queues(queues: int, writable: int) -> TopicQueues:
    """Return the queues of a store that has all of them."""
    return TopicQueues(range(queues), range(writable), range(writable))


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """The readable part of a message queue: offsets `min_offset` (inclusive) to `max_offset` (exclusive).  `may_lag`:
    it is a slave's view; the queue may go on.  `is_pending`: it may have earlier messages that are not known yet, as
    its object store is away; `min_offset` is 0 then, where a read is refused.  `incarnation`: of the topic, for readers
    of offsets that outlive it: another number where it was made anew (`incarnation_of`); 0: not known."""

    queue_id: int
    min_offset: int
    max_offset: int
    may_lag: bool = False
    is_pending: bool = False
    incarnation: int = field(default=0, compare=False)

    @property
    def first(self) -> int:
        """The first readable offset, for whoever begins there.  Raises UNAVAILABLE while it is not known."""
        self.check_known()
        return self.min_offset

    def check_known(self) -> None:
        """Raise UNAVAILABLE while the first readable offset is not known."""
        if self.is_pending:
            raise EntrepotError(Code.UNAVAILABLE, f"the cold messages of queue {self.queue_id} cannot be read yet")


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic with the bounds of each of its queues."""

    topic: Topic
    queues: list[QueueBounds] = field(default_factory=list)


def incarnation_of(table: str) -> int:
    """Return the number of a topic's incarnation, by the path of its table, which names the store and the place in its
    log where the topic was made.  A topic that continues in another store has the same."""
    digest = hashlib.blake2b(table.rpartition("/")[2].encode(), digest_size=8).digest()
    return int.from_bytes(digest) % MAX_INCARNATION + 1


def is_another_making(known: int, number: int) -> bool:
    """True if two numbers (`Topic.made_at`) are both known, and of different makings of a topic."""
    return 0 not in (known, number) and known != number
