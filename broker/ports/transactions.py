"""`domain.ports.Transactions`: half messages wait for their end (`broker.store.pending`)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.messages import Messages
from entrepot.broker.ports.timers import Timers
from entrepot.broker.store.pending import PendingOp, encode_pending
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_trailer import Origin
from entrepot.domain.acceptance import is_for_later
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.transaction import HalfMessage, TransactionEnd


class Transactions:
    """Half messages, and their commit or rollback."""

    def __init__(self, core: BrokerCore, messages: Messages, timers: Timers) -> None:
        self._core, self._timers = core, timers
        self._engine = core.engine
        self.append_half = messages.append_half

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        self.expire_transactions()
        await self._core.commit.wait()  # a half message must be written before it is read again
        outcomes = [self._end(end) for end in ends]
        await self._core.commit.wait()
        return outcomes

    def _end(self, end: TransactionEnd) -> EntrepotError | None:
        now_ms = self._core.now_ms()
        half = self._engine.pending.halves.waiting.get((end.topic, end.transaction_id))
        if half is None:
            return EntrepotError(Code.INVALID_TRANSACTION_ID, f"no transaction {end.transaction_id!r} is waiting")
        if not end.commit:
            self._roll_back(half.commit_log_offset, now_ms)
            return None
        try:
            message = self._timers.kept(half.commit_log_offset)
            assert message is not None, "it is durable"
            origin = Origin(half.commit_log_offset, 0)
            if is_for_later(message, now_ms):
                self._engine.keep(RecordKind.TIMED, message, origin, now_ms)
            else:
                self._timers.deliver(message, origin, now_ms)
        except EntrepotError as refusal:
            return refusal.with_traceback(None)
        return None

    def _roll_back(self, commit_log_offset: int, now_ms: int) -> None:
        self._engine.append_record(RecordKind.PENDING, encode_pending(PendingOp.DROP, commit_log_offset, 0), now_ms)

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        self.expire_transactions()
        await self._core.commit.wait()
        now_ms, wanted = self._core.now_ms(), frozenset(topics)
        taken: list[StoredMessage] = []
        for half in self._engine.pending.halves.due(now_ms):
            if len(taken) >= max_messages:
                break
            if half.key[0] not in wanted:
                continue
            message = self._timers.kept(half.commit_log_offset)
            if message is not None:
                due_ms = now_ms + self._core.settings.transaction_check_interval_ms
                payload = encode_pending(PendingOp.CHECK, half.commit_log_offset, due_ms, half.checks + 1)
                self._engine.append_record(RecordKind.PENDING, payload, now_ms)
                taken.append(message)
        await self._core.commit.wait()
        return taken

    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        self.expire_transactions()
        await self._core.commit.wait()
        wanted = (
            half
            for half in self._engine.pending.halves.waiting.values()
            if topic in (None, half.key[0]) and half.commit_log_offset > after
        )
        found: list[HalfMessage] = []
        for half in heapq.nsmallest(limit, wanted, key=lambda half: half.commit_log_offset):
            message = self._timers.kept(half.commit_log_offset)
            if message is not None:
                found.append(HalfMessage(message, half.due_ms, half.checks))
        return found

    def expire_transactions(self) -> None:
        """Roll back transactions that are due again after enough checks."""
        now_ms = self._core.now_ms()
        for half in self._engine.pending.halves.due(now_ms):
            if half.checks >= self._core.settings.transaction_max_checks:
                self._roll_back(half.commit_log_offset, now_ms)
