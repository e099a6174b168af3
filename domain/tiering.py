"""The object store of cold messages: where it is, how far topics are on their way, which tables become topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from domain.topic import QueueBounds, Topic


@dataclass(frozen=True, slots=True)
class TierAddress:
    """Where an object store is.  Credentials are none of it: the environment of whoever opens it has them.

    The names are those of the settings `tier.*`; empty: its provider's.
    """

    url: str
    endpoint: str = ""
    region: str = ""
    allow_http: bool = False


@dataclass(frozen=True, slots=True)
class ColdSegment:
    """A file of a table: `rows` messages of queues of a topic.

    `table`: path of the table in the object store.  `path`: of the file in the table.  `size` in bytes.
    """

    address: TierAddress
    table: str
    path: str
    size: int
    rows: int


class ColdRows(NamedTuple):
    """Rows of a segment, a table of Arrow.  `behind`: the place behind all that was looked at, queue and offset.

    `corrupted`: place of the first row that has nothing but its place, or None: such are not in `rows`.
    """

    rows: Any
    behind: tuple[int, int]
    corrupted: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A tiered topic of one broker.

    `table`: path of its table in the object store.  `uploaded`: by queue, the offset up to which the table has it;
    queues of which nothing was uploaded are not there.  `lag_messages`: what only the disk has.  `segments`, `bytes`:
    of the table.  `problem`: why it does not go on, empty where it does.  `address`: of the object store.  `missing`:
    messages within the table that are nowhere: they left the disk without it.
    """

    topic: str
    table: str
    uploaded: tuple[tuple[int, int], ...]
    lag_messages: int
    segments: int
    bytes: int
    problem: str = ""
    address: TierAddress | None = None
    missing: int = 0


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A topic that is to go on in the table which a lost broker has left.

    `table`: its path, None where there is one alone.  `tier_seconds`: age up to which messages stay in the object
    store, None: as the topic's definition says.  `is_forced`: also where the table was written a moment ago.
    `broker` is the one that is to have it, and `revision` that of the definition: a gateway with several brokers says
    both, others leave them.
    """

    topic: str
    table: str | None = None
    tier_seconds: int | None = None
    is_forced: bool = False
    broker: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """A table of another cluster that is to be read as a topic, or a topic of that kind that is to go further.

    `url`: of the object store, with `endpoint`, `region` and `allow_http` as in the settings of a tier.  `table`: path
    in it, None where there is one alone.  `name`: of the topic, None: that of the table's.  The rest as in a
    `RestoreRequest`.
    """

    url: str
    table: str | None = None
    name: str | None = None
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    broker: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class TableTopic:
    """A topic with the table that its cold messages are in.  `queues`: those of its broker."""

    topic: Topic
    table: str
    queues: list[QueueBounds]


class TierTables(Protocol):
    """Tables that become topics.

    Both raise BAD_REQUEST for what makes no sense, PRECONDITION_FAILED for what cannot be as things are,
    TOPIC_NOT_FOUND where there is no such table, and UNAVAILABLE where the object store is away.
    """

    async def restore(self, request: RestoreRequest) -> TableTopic:
        """Have a topic go on in a table, which no other broker writes from then on."""
        ...

    async def attach(self, request: AttachRequest) -> TableTopic:
        """Have a table as a topic that can be read, as far as it goes now."""
        ...


@runtime_checkable
class Tiered(Protocol):
    """A store whose brokers may have a tier."""

    @property
    def tables(self) -> TierTables: ...
