"""The object store of cold messages: where it is, how far topics have come on their way into it, their segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


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

    `harmed`: place of the first row that has nothing but its place, None where there is none: such are not in `rows`.
    """

    rows: Any
    behind: tuple[int, int]
    harmed: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A tiered topic of one broker.

    `table`: path of its table in the object store.  `uploaded`: by queue, the offset up to which the table has it;
    queues of which nothing was uploaded are not there.  `lag_messages`: what only the disk has.  `segments`, `bytes`:
    of the table.  `problem`: why it does not go on, empty where it does.  `address`: of the object store.
    """

    topic: str
    table: str
    uploaded: tuple[tuple[int, int], ...]
    lag_messages: int
    segments: int
    bytes: int
    problem: str = ""
    address: TierAddress | None = None
