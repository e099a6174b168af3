"""The object store of cold messages: its address, the upload of topics, and tables attached as topics."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from entrepot.domain.topic import QueueBounds, Topic

MAX_HOLES: Final = 1_000
"""Most holes that a topic's status names."""


@dataclass(frozen=True, slots=True)
class TierAddress:
    """The address of an object store, without credentials: they are in the environment of the process that opens it.
    The names are those of the settings `tier.*`; empty: its provider's default."""

    url: str
    endpoint: str = ""
    region: str = ""
    allow_http: bool = False


@dataclass(frozen=True, slots=True)
class ColdSegment:
    """A file of a table: `rows` messages of queues of a topic.  `table`: path of the table in the object store.
    `path`: that of the file in the table.  `size` in bytes."""

    address: TierAddress
    table: str
    path: str
    size: int
    rows: int


class ColdRows(NamedTuple):
    """Rows of a segment, an Arrow table.  `behind`: place (queue and offset) after all rows examined.  `corrupted`:
    place of the first row with nothing but its place, or None; `rows` has no such rows."""

    rows: Any
    behind: tuple[int, int]
    corrupted: tuple[int, int] | None


class Hole(NamedTuple):
    """Offsets of a queue, from `first` to before `end`, whose messages left the disk before they were uploaded."""

    first: int
    end: int


def joined(holes: Iterable[Hole]) -> tuple[Hole, ...]:
    """Return holes in order, with those that touch as one."""
    found: list[Hole] = []
    for hole in sorted(holes):
        if found and hole.first <= found[-1].end:
            found[-1] = Hole(found[-1].first, max(found[-1].end, hole.end))
        else:
            found.append(hole)
    return tuple(found)


def hole_from(holes: Sequence[Hole], offset: int) -> Hole | None:
    """Return the first hole that has an offset or lies after it, of holes in order."""
    at = bisect_right(holes, offset, key=lambda hole: hole.end)
    return holes[at] if at < len(holes) else None


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A tiered topic of one broker.

    `table`: path of its table in the object store.  `uploaded`: by queue, the offset up to which the table has it;
    queues without uploads are absent.  `lag_messages`: messages on the disk only.  `segments`, `bytes`: those of the
    table.  `problem`: what is wrong with it, or empty.  `address`: that of the object store.  `missing`: lost
    messages, which left the disk before their upload; `holes`: their world's queues and offsets, as far as known, the
    first `MAX_HOLES` of them.
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
    holes: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A request to continue a topic in the table of a lost broker.

    `table`: its path, None if there is only one.  `tier_seconds`: age up to which messages stay in the object store,
    None: as in the topic's definition.  `is_forced`: also if the table was written a moment ago.  `broker`: the broker
    that gets it, and `revision`: the definition's; only a gateway with several brokers sets both.
    """

    topic: str
    table: str | None = None
    tier_seconds: int | None = None
    is_forced: bool = False
    broker: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """A request to attach another cluster's table as a readable topic, or to advance such a topic.  `url`: that of the
    object store, with `endpoint`, `region` and `allow_http` as in the settings of a tier.  `table`: its path, None if
    there is only one.  `name`: that of the topic, None: the table's.  The rest as in `RestoreRequest`."""

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
    """A topic with the table of its cold messages.  `queues`: those of its broker."""

    topic: Topic
    table: str
    queues: list[QueueBounds]


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table that may be attached.  `table`: its path in the object store.  `topic`: the one its messages were written
    for, as they say themselves: the path may begin anywhere."""

    table: str
    topic: str


class TierTables(Protocol):
    """Tables that become topics.  All calls raise BAD_REQUEST (invalid request), PRECONDITION_FAILED (not possible
    now), TOPIC_NOT_FOUND (no such table) and UNAVAILABLE (the object store is away)."""

    async def restore(self, request: RestoreRequest) -> TableTopic:
        """Continue a topic in a table, which no other broker writes from then on."""

    async def look(self, request: AttachRequest) -> TableSeen:
        """Return the table that `attach` would take, and change nothing.  Raises FORBIDDEN for a place that the
        settings do not name, before anything is looked for there."""

    async def attach(self, request: AttachRequest) -> TableTopic:
        """Attach a table as a readable topic, up to its present end.  Raises FORBIDDEN as `look` does."""

    async def accept(self, topic: str) -> None:
        """Accept the table of a topic as the object store has it now, or that it has none; of "": all, and the object
        store itself.  Messages that only the former one had are lost."""


@runtime_checkable
class Tiered(Protocol):
    """A store whose brokers may have a tier."""

    @property
    def tables(self) -> TierTables: ...
