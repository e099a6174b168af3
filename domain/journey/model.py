"""Journey: the hops of a message, and its lanes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JourneyKind(StrEnum):
    """Kinds of hops.  The values are those of REST."""

    TAKEN_IN = "takenIn"  # a door of a gateway got it
    BRIDGED_IN = "bridgedIn"  # a bridge brought it from another broker
    SCHEDULED = "scheduled"  # it had to wait for its delivery time
    STORED = "stored"  # it is in the log
    QUEUED = "queued"  # another queue has it too: of an AMQP queue, or of a subscription
    CONFIRMED = "confirmed"  # its producer was told
    DELIVERED = "delivered"  # an attempt began
    FAILED = "failed"  # an attempt ended, and not well
    MOVED = "moved"  # to the group's retry topic, out of the way of newer messages
    ACKNOWLEDGED = "acknowledged"
    DEAD_LETTERED = "deadLettered"
    RESENT = "resent"  # from the dead letters
    TIERED = "tiered"  # an object store has it
    INGESTED = "ingested"  # a Spark job wrote it to a table


class LaneKind(StrEnum):
    """Kinds of lanes.  The values are those of REST."""

    DOOR = "door"
    LOG = "log"
    GROUP = "group"
    AMQP = "amqp"
    WEBHOOK = "webhook"
    BRIDGE = "bridge"
    TIER = "tier"


@dataclass(frozen=True, slots=True)
class Lane:
    """One receiver, or one part of the system.  `id` names it in hops; `name` and `detail` are for people."""

    id: str
    kind: LaneKind
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class JourneyHop:
    """One step.  `time_ms`: None where the time is not known.  `is_known`: False for a step that may have been, of
    which nothing is kept; `detail` says why.  `outcome`: the end of an attempt, in words.  Topic, queue and offset: the
    place in the log that the step is about; the topic is empty where it is about none."""

    kind: JourneyKind
    time_ms: int | None
    lane: str
    topic: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    group: str = ""
    attempt: int = 0
    door: str = ""
    client: str = ""
    gateway: str = ""
    broker: str = ""
    epoch: int = 0
    outcome: str = ""
    detail: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Journey:
    """All hops: those with a time in its order, then the others, then what is not known.  `lanes`: in the order of
    their first hop."""

    hops: tuple[JourneyHop, ...]
    lanes: tuple[Lane, ...]

    @property
    def unknown(self) -> int:
        """Hops of which nothing is kept."""
        return sum(not hop.is_known for hop in self.hops)
