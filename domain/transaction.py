"""Transactions: how a half message ends (RocketMQ: EndTransaction)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Commit (it is delivered) or roll back (it never is) the half message with this TRANSACTION_ID."""

    topic: str
    transaction_id: str
    commit: bool
