"""Transactions: the end of a half message (RocketMQ: EndTransaction)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.domain.message import Message, StoredMessage, SystemProperty

MAX_CHECK_AFTER_MS: Final = 99_999_999_999
"""Longest silence that a half message may ask for; longer ones are ignored."""


def check_after_ms(message: Message, otherwise: int) -> int:
    """Return the silence of a half message's producer before a check: its own value, or `otherwise`."""
    said = message.time_ms(SystemProperty.CHECK_AFTER_MS)
    return otherwise if said is None or said > MAX_CHECK_AFTER_MS else said


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of the half message with this TRANSACTION_ID: commit (it is delivered) or roll back (it never is)."""

    topic: str
    transaction_id: str
    commit: bool


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A half message that waits for its end.  `due_ms`: when its producer is asked next.  `checks`: times it was asked
    so far."""

    message: StoredMessage
    due_ms: int
    checks: int
