"""Transactions: half messages and their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.transaction import HalfMessage, TransactionEnd


class Transactions(Protocol):
    """Half messages (RocketMQ's transactional messages): stored, and delivered only if their producer commits."""

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        """Store half messages; each has a TRANSACTION_ID of its own.  Refusals as `append`, and BAD_REQUEST for an id
        that is missing or waiting already."""

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Commit or roll back; durable when this returns.  INVALID_TRANSACTION_ID for an id that is not waiting (any
        more)."""

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        """Return half messages whose producer has been silent for too long, to ask a producer of the topic about.  Each
        is returned again after the check interval; after the last check it expires and is rolled back."""

    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        """Return the waiting half messages of one topic or all, the oldest of each broker first; `after`: only those
        with a greater commit-log offset."""
