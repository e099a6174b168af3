"""Transactions: how a half message ends (RocketMQ: EndTransaction)."""

from __future__ import annotations

from dataclasses import dataclass

from domain.message import Message, SystemProperty


def check_after_ms(message: Message, otherwise: int) -> int:
    """How long the producer of a half message may be silent before it is asked: what it says itself, or else."""
    text = message.system_text(SystemProperty.CHECK_AFTER_MS)
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 12 else otherwise


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Commit (it is delivered) or roll back (it never is) the half message with this TRANSACTION_ID."""

    topic: str
    transaction_id: str
    commit: bool
