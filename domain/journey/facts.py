"""Facts: what was found of a message, before it is told as a journey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from entrepot.domain.journey.model import LaneKind
from entrepot.domain.message import Place, StoredMessage
from entrepot.domain.query import MessageConsumer, MessageHop


@dataclass(frozen=True, slots=True)
class Storage:
    """Place of a record in the log.

    `epoch`, `replica`: mastership that wrote it, 0 without replicas.  `holders`, `lacking`: replicas that have it by
    now, and that do not, in words.  `dropped_hops`: hops that the broker had no room for since its start.  `problem`:
    reason why this is not known, or empty.
    """

    broker: str = ""
    epoch: int = 0
    replica: int = 0
    holders: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    dropped_hops: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of one place of the message for a group that reads its topic."""

    place: Place
    consumer: MessageConsumer


@dataclass(frozen=True, slots=True)
class Receiver:
    """Use of a consumer group, in words for people."""

    kind: LaneKind
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tiering:
    """The table of a tiered topic.  `is_uploaded`: it has the message.  `problem`: why uploads have stopped."""

    table: str
    is_uploaded: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Ingested:
    """A batch of a Spark job whose offsets include the message.  `version`: of the table, empty where the format
    has none."""

    table: str
    format: str
    batch: int
    version: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class JourneyFacts:
    """All that was found of one message.

    `copies`: the other messages with its id; those of another message with the same id are told apart.  `hops`: all
    hops of the id.  `storages`: by offset in the log, of the message and its copies.  `gateway`: name of the gateway
    that made the id, if known.  `traced`: topics with tracing on.  `receivers`: what groups stand for, by name.
    `tiering`: by place.  `is_gone`: the message is made of a trace alone, and has its first place and time.  `silent`:
    brokers that did not answer, with the reason.
    """

    message: StoredMessage
    copies: tuple[StoredMessage, ...] = ()
    hops: tuple[MessageHop, ...] = ()
    readings: tuple[Reading, ...] = ()
    storages: Mapping[int, Storage] = field(default_factory=dict)
    gateway: str = ""
    traced: frozenset[str] = frozenset()
    receivers: Mapping[str, Receiver] = field(default_factory=dict)
    tiering: Mapping[Place, Tiering] = field(default_factory=dict)
    ingested: tuple[Ingested, ...] = ()
    is_gone: bool = False
    silent: Mapping[str, str] = field(default_factory=dict)
