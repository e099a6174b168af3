"""Transactions: half messages, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from domain.confirmation import Confirmation
from domain.errors import EntrepotError
from domain.message import Message, StoredMessage
from domain.transaction import TransactionEnd


class Transactions(Protocol):
    """Half messages (RocketMQ's transactional messages): kept, and delivered only if their producer commits."""

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        """Keep messages that wait for their end; each has a TRANSACTION_ID of its own.  Refusals as `append`, and
        BAD_REQUEST for an id that is missing or waiting already."""
        ...

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Commit or roll back; durable when this returns.  INVALID_TRANSACTION_ID where none of that id is waiting
        (any more)."""
        ...

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        """Half messages whose producer has been silent for too long: ask one of its kind, and end them as it says.
        Each is given out again after the check interval, and expires after the last check: it is rolled back."""
        ...
