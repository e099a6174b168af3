"""The state of a bridge to a RocketMQ cluster for people, and its counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.gateway.bridge.status import BridgeCounters, BridgeState


@dataclass(slots=True)
class RocketMqCounters(BridgeCounters):
    """Messages of one bridge since this process began, as `BridgeCounters`, and besides:

    `gone`: deleted at the cluster before they were carried.  `unknown`: sent to the cluster with an unknown outcome;
    they are sent again, so they may be there twice.
    """

    gone: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class CarriedTopic:
    """A topic that comes in.  `topic`: its name at the cluster.  `position`: sum of its queues' next offsets there, as
    far as this gateway has stored and confirmed what is before; `waiting`: messages behind that."""

    topic: str
    local_topic: str
    queues: int
    position: int
    waiting: int


@dataclass(frozen=True, slots=True)
class RocketMqBridgeStatus:
    """A bridge at a moment, run by the gateway `owner`; `last_error` is empty after no fault.  The state is exact if
    `is_here`, else as its owner last told; `topics` are those of the gateway that runs it."""

    name: str
    name_servers: Sequence[str]
    state: BridgeState
    since_ms: int
    owner: str
    is_here: bool
    last_error: str
    counters: RocketMqCounters
    topics: Sequence[CarriedTopic]
