"""The search for messages: by topic, key, id and time, with their state per group and their trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zlib import crc32

from entrepot.domain.message import StoredMessage

MAX_QUERY_MESSAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """A query for messages of a topic, the newest first.  `key` is one of the message's keys; None = any message.
    `from_ms` (inclusive) and `to_ms` (exclusive) bound the store time.  `cursor` continues an earlier answer: its
    `next`."""

    topic: str
    key: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 32
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """One answer: the messages and the cursor to continue, or None at the end."""

    messages: list[StoredMessage]
    next: str | None


class ConsumptionState(StrEnum):
    """States of a message for one group."""

    NOT_YET = "not yet"  # not delivered, or waiting to be delivered again
    IN_FLIGHT = "in flight"
    CONSUMED = "consumed"
    FILTERED = "filtered"  # the group's filter does not match it
    DEAD_LETTERED = "dead-lettered"


@dataclass(frozen=True, slots=True)
class MessageConsumer:
    """A group that reads the message's topic.  `attempts`: deliveries so far, as far as still known."""

    group: str
    state: ConsumptionState
    attempts: int


class HopKind(StrEnum):
    """Kinds of events on a message's way."""

    STORED = "stored"  # it came into a queue
    DELIVERED = "delivered"  # handed to a consumer
    ACKNOWLEDGED = "acknowledged"
    RETRIED = "retried"  # given back, or moved to the retry topic
    DEAD_LETTERED = "dead-lettered"


_FAILURES: Final = frozenset((HopKind.RETRIED, HopKind.DEAD_LETTERED))


@dataclass(frozen=True, slots=True)
class MessageHop:
    """One step of a traced message (`Topic.trace`), or a failed attempt of any.  Topic, queue and offset are its first
    place, wherever it was moved since.  `group` and `attempt`: the consumer's group and the delivery.  `detail`: the
    reason in words.  `consumer`: who got a delivery, in words, where the gateway told."""

    kind: HopKind
    time_ms: int
    topic: str
    queue_id: int
    queue_offset: int
    group: str = ""
    attempt: int = 0
    detail: str = ""
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """The mastership that wrote a record of a broker's log.  `epoch`: 0 for a log without replicas.  `replica`: id of
    the master then, 0 likewise.  `dropped_hops`: hops that the broker had no room for since its start.  `broker`: its
    name; empty for a store in this process."""

    epoch: int = 0
    replica: int = 0
    dropped_hops: int = 0
    broker: str = ""


RESENT: Final = "sent again from the dead letters"
MOVED: Final = "moved to the retry topic"
"""Details of RETRIED hops that are moves, not the ends of attempts."""


def is_failure(kind: HopKind, attempt: int) -> bool:
    """True for the hops of failed attempts, which are kept without tracing too.  A second delivery tells that the one
    before it failed."""
    return kind in _FAILURES or (kind is HopKind.DELIVERED and attempt > 1)


def is_traced(message_id: bytes, share: float) -> bool:
    """True if the message is in the traced share of its topic: with all its hops, or with none.  A message without an
    id is not: it could not be found."""
    return bool(message_id) and crc32(message_id) < share * 2**32
