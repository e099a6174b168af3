"""The state of a bridge for people, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BridgeState(StrEnum):
    """The state of a bridge, as far as this gateway knows."""

    STANDBY = "standby"  # another gateway runs it, or none yet
    CONNECTING = "connecting"
    CONNECTED = "connected"
    BACK_OFF = "back-off"  # waiting before another try


@dataclass(slots=True)
class BridgeCounters:
    """Messages of one bridge since this process began.

    `received`: stored and acknowledged to the remote. `sent`: acknowledged by the remote. `refused_in`: refused by the
    store for good, dropped. `refused_out`: refused by the remote for good, dead letters now. `ignored`: matched by no
    rule (any more), expired, or came in by the same bridge. `connects`: established connections.
    """

    received: int = 0
    sent: int = 0
    refused_in: int = 0
    refused_out: int = 0
    ignored: int = 0
    connects: int = 0


@dataclass(frozen=True, slots=True)
class BridgeStatus:
    """A bridge at a moment, run by the gateway `owner`; `last_error` is empty after no fault. The state is exact if
    `is_here`, else as its owner last told."""

    name: str
    url: str
    version: int
    state: BridgeState
    since_ms: int
    owner: str
    is_here: bool
    last_error: str
    counters: BridgeCounters
