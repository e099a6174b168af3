"""The broker as its uploader sees it: `Source`, and what they tell each other."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Protocol

import msgspec

from entrepot.broker.tiered.marks import TableMark


class Work(StrEnum):
    """Kinds of work on a topic."""

    OPEN = "opened the table"
    UPLOAD = "uploaded messages"
    HOUSEKEEPING = "merged and cleaned the table"


class Caution(IntEnum):
    """Degrees of care in uploading a topic (`troubles.py`)."""

    NONE = 0
    SMALLER = 1
    PLAIN = 2  # in smaller parts, without columns for JSON bodies
    TINY = 3  # in much smaller parts, plain
    ALONE = 4  # message by message, plain
    SET_ASIDE = 5  # not at all


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """Work that an uploader begins. `ends`: about those of an upload, by queue of the broker."""

    topic: str
    root: str
    work: Work
    ends: dict[int, int] = {}


class QueueState(msgspec.Struct, frozen=True, array_like=True):
    """A queue of the broker: its confirmed messages, and the approximate bytes of the log per message. `given_up`: the
    first offset that the disk was let go of without an upload; -1: none."""

    queue_id: int
    min_offset: int
    end: int
    message_bytes: int
    given_up: int = -1


class TopicState(msgspec.Struct, frozen=True, array_like=True):
    """A tiered topic. `root`: of its table. `retention_ms`: age at which segments leave the table. `epoch`: of the
    broker that asks for the upload (`fence.epoch_of`). `mark`: the table as its store knows it. `keeps_house`: it is
    merged and cleaned."""

    name: str
    root: str
    retention_ms: int
    queues: list[QueueState]
    epoch: int = 0
    mark: TableMark | None = None
    caution: Caution = Caution.NONE
    keeps_house: bool = True


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """State of a topic: the table's end by queue of the broker; `problem`: what is wrong, or empty. `segments`,
    `bytes`: of the table. `missing`: lost messages within it. `is_stuck`: nothing is uploaded for that reason."""

    topic: str
    root: str
    ends: dict[int, int]
    problem: str = ""
    segments: int = 0
    bytes: int = 0
    missing: int = 0
    is_stuck: bool = False


class Source(Protocol):
    """The broker."""

    def states(self) -> list[TopicState]: ...

    def records(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> bytes:
        """Return a run of records (`protocols.wire.records`). Raises EntrepotError."""

    def heal(self, commit_log_offset: int) -> bool | None:
        """Have a corrupted record fetched from another replica. True: it is whole now; None: there is no replica."""

    def begins(self, begun: Begun) -> None:
        """Take note of work that is begun: if the process ends meanwhile, it is known by what."""

    def told(self, progress: Progress) -> None: ...
