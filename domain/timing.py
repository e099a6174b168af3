"""Delivery timestamps: messages that wait for their time (RocketMQ: delay and timed messages, recall)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.message import StoredMessage

MAX_DELAY_MS: Final = 400 * 24 * 3600 * 1000
"""Latest delivery timestamp, from now on."""


@dataclass(frozen=True, slots=True)
class TimerCursor:
    """Where a listing goes on: behind the message with this time and place in the log."""

    deliver_at_ms: int
    commit_log_offset: int


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A message that waits.  Its queue offset is not known before it is delivered, and 0 until then."""

    message: StoredMessage
    deliver_at_ms: int
