"""Half messages, pending until their producer ends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.transaction import HalfMessage, TransactionEnd, check_after_ms
from tests.support.stores.model_store.messages import Messages
from tests.support.stores.model_store.state import State, as_message, as_stored
from tests.support.stores.model_store.timers import Timers


@dataclass(slots=True)
class _Half:
    message: StoredMessage
    due_ms: int
    checks: int = 0


class Transactions:
    """Implements `domain.ports.Transactions`.  Half messages by topic and transaction id, in order of arrival."""

    def __init__(
        self,
        state: State,
        messages: Messages,
        timers: Timers,
        *,
        check_after_ms: int,
        check_interval_ms: int,
        max_checks: int,
    ) -> None:
        self._state = state
        self._messages = messages
        self._timers = timers
        self._check_after_ms = check_after_ms
        self._check_interval_ms = check_interval_ms
        self._max_checks = max_checks
        self._halves: dict[tuple[str, str], _Half] = {}

    @property
    def count(self) -> int:
        """Number of waiting half messages."""
        return len(self._halves)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        self._expire()
        refusals = self._messages.refusals(messages)
        for index, message in enumerate(messages):
            if refusals[index] is None:
                refusals[index] = self._keep(message)
        return self._messages.confirmation(refusals)

    def _keep(self, message: Message) -> EntrepotError | None:
        name = message.system_text(SystemProperty.TRANSACTION_ID)
        if not name:
            return EntrepotError(Code.BAD_REQUEST, "a half message has a transaction id")
        if (message.topic, name) in self._halves:
            return EntrepotError(Code.BAD_REQUEST, f"a half message of transaction {name!r} is waiting already")
        now = self._state.clock.now_ms()
        stored = as_stored(message, commit_log_offset=self._state.next_place(), store_time_ms=now)
        self._halves[message.topic, name] = _Half(stored, now + check_after_ms(message, self._check_after_ms))
        return None

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        self._expire()
        outcomes = [self._end(end) for end in ends]
        self._state.announce_soon()
        return outcomes

    def _end(self, end: TransactionEnd) -> EntrepotError | None:
        half = self._halves.pop((end.topic, end.transaction_id), None)
        if half is None:
            return EntrepotError(Code.INVALID_TRANSACTION_ID, f"no transaction {end.transaction_id!r} is waiting")
        if end.commit:
            self._timers.accept(as_message(half.message, further_queues=half.message.further_queues))
        return None

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        self._expire()
        now = self._state.clock.now_ms()
        due = [half for half in self._halves.values() if half.due_ms <= now and half.message.topic in topics]
        taken = due[: max(max_messages, 0)]
        for half in taken:
            half.checks += 1
            half.due_ms = now + self._check_interval_ms
        return [half.message for half in taken]

    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        self._expire()
        found = [
            HalfMessage(half.message, half.due_ms, half.checks)
            for half in self._halves.values()
            if topic in (None, half.message.topic) and half.message.commit_log_offset > after
        ]
        return sorted(found, key=lambda half: half.message.commit_log_offset)[:limit]

    def _expire(self) -> None:
        """Roll back half messages that are due again after the last check."""
        now = self._state.clock.now_ms()
        self._halves = {
            key: half for key, half in self._halves.items() if half.checks < self._max_checks or half.due_ms > now
        }

    def drop_topic(self, topic: str) -> None:
        self._halves = {key: half for key, half in self._halves.items() if key[0] != topic}
