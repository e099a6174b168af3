"""Transactions: how a half message ends (RocketMQ: EndTransaction)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.message import Message, SystemProperty

MAX_CHECK_AFTER_MS: Final = 99_999_999_999
"""Longest silence that a half message may ask for; longer ones count as none."""


def check_after_ms(message: Message, otherwise: int) -> int:
    """Silence of a half message's producer after which it is asked: what it says itself, or else."""
    said = message.time_ms(SystemProperty.CHECK_AFTER_MS)
    return otherwise if said is None or said > MAX_CHECK_AFTER_MS else said


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Commit (it is delivered) or roll back (it never is) the half message with this TRANSACTION_ID."""

    topic: str
    transaction_id: str
    commit: bool
