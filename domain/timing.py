"""Delivery timestamps: scheduled messages (RocketMQ: delay and timed messages, recall)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.domain.message import StoredMessage

MAX_DELAY_MS: Final = 400 * 24 * 3600 * 1000
"""Longest delay of a delivery timestamp, in milliseconds."""


@dataclass(frozen=True, slots=True)
class TimerCursor:
    """The place where a listing continues: after the message with this time and commit-log offset."""

    deliver_at_ms: int
    commit_log_offset: int


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A scheduled message.  Its queue offset is 0 until it is delivered."""

    message: StoredMessage
    deliver_at_ms: int
