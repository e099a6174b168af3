"""Finding messages: by topic, key, id and time, what became of one, and the way it took."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zlib import crc32

from domain.message import StoredMessage

MAX_QUERY_MESSAGES: Final = 1000


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Messages of a topic, the newest first.

    `key` is one of the message's keys; None = any message.  `from_ms` (inclusive) and `to_ms` (exclusive) bound the
    store time.  `cursor` goes on where an earlier answer ended: its `next`.
    """

    topic: str
    key: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 32
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """One answer: the messages and the cursor that goes on, or None where nothing is left."""

    messages: list[StoredMessage]
    next: str | None


class ConsumptionState(StrEnum):
    """What became of a message for one group."""

    NOT_YET = "not yet"  # not delivered, or waiting to be delivered again
    IN_FLIGHT = "in flight"
    CONSUMED = "consumed"
    FILTERED = "filtered"  # the group's filter does not want it
    DEAD_LETTERED = "dead-lettered"


@dataclass(frozen=True, slots=True)
class MessageConsumer:
    """A group that reads the message's topic.  `attempts`: deliveries so far, as far as still known."""

    group: str
    state: ConsumptionState
    attempts: int


class HopKind(StrEnum):
    """What happened to a message on its way."""

    STORED = "stored"  # it came into a queue
    DELIVERED = "delivered"  # a consumer was handed it
    ACKNOWLEDGED = "acknowledged"
    RETRIED = "retried"  # given back, or moved to the retry topic
    DEAD_LETTERED = "dead-lettered"


@dataclass(frozen=True, slots=True)
class MessageHop:
    """One step of a message that is traced (`Topic.trace`).

    Topic, queue and offset are where it was stored at first, whatever it was moved to since.  `group` and `attempt`:
    whose consumer, on which delivery.  `detail`: why, in words.
    """

    kind: HopKind
    time_ms: int
    topic: str
    queue_id: int
    queue_offset: int
    group: str = ""
    attempt: int = 0
    detail: str = ""


def is_traced(message_id: bytes, share: float) -> bool:
    """Whether a message belongs to the share of its topic that is traced: with all its hops, or with none.

    One without an id is not: nobody could ask for it.
    """
    return bool(message_id) and crc32(message_id) < share * 2**32
