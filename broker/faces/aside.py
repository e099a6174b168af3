"""`domain.ports.Timers` and `Transactions`: messages that are kept aside (`broker.store.aside`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

import structlog

from broker.faces.messages import MessageFace
from broker.retention.watermarks import DiskState
from broker.store.aside import AsideOp, encode_aside
from broker.store.record import (
    KEPT_KINDS,
    RecordKind,
)
from broker.store.record_trailer import Origin
from domain.acceptance import is_for_later, lacks_key
from domain.confirmation import Confirmation
from domain.errors import Code, CorruptedError, EntrepotError, StorageFullError, StoreFailedError
from domain.message import Message, StoredMessage, SystemProperty
from domain.timing import TimedMessage, TimerCursor
from domain.transaction import TransactionEnd

MAX_DELIVERED_AT_ONCE: Final = 500
"""Timers delivered in one go: then others get their turn."""

log = structlog.get_logger(__name__)


class AsideFace(MessageFace):
    """Timers and transactions."""

    # -- timers --------------------------------------------------------------------------------------------------

    def deliver_due(self) -> bool:
        """Store what is due into its queues, the earliest first; says whether there is more."""
        now_ms = self.now_ms()
        due = self.engine.aside.timers.take_due(now_ms, MAX_DELIVERED_AT_ONCE)
        waiting = 0
        for at, (deliver_at_ms, offset) in enumerate(due):
            try:
                message = self._kept(offset)
            except CorruptedError:
                continue  # it stays, and is told by whoever looks at it
            if message is None:
                self.engine.aside.timers.put_back([due[at]])  # not durable yet
                waiting += 1
                continue
            try:
                self._deliver(message, Origin(offset, deliver_at_ms), now_ms)
            except StorageFullError:
                self.engine.aside.timers.put_back(due[at:])
                break
            except StoreFailedError:
                raise
            except EntrepotError as error:  # it stays; the others are delivered
                log.error("a message cannot be delivered", topic=message.topic, at=offset, error=error.message)
        if due:
            self.commit.submit(Confirmation())
        return len(due) == MAX_DELIVERED_AT_ONCE and not waiting

    def _kept(self, commit_log_offset: int) -> StoredMessage | None:
        return self.engine.commit_log.message_at(commit_log_offset, KEPT_KINDS)

    def _deliver(self, message: StoredMessage, origin: Origin, now_ms: int) -> None:
        """Into its queue; where that is gone since, into another of the topic's; where the topic is, nowhere."""
        topic = self.registry.topics.get(message.topic)
        if topic is None or self.registry.topic_since(message.topic) > origin.commit_log_offset:
            payload = encode_aside(AsideOp.DROP, origin.commit_log_offset, origin.deliver_at_ms)
            self.engine.append_record(RecordKind.ASIDE, payload, now_ms)
        else:
            message.queue_id %= topic.queues
            ends = self.tracer.ends_of((message,)) if self.registry.traced else None
            self.engine.append_kept(message, origin, now_ms)
            if ends:
                self.tracer.stored((message,), None, ends, now_ms)

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        found = self._find(topic, message_id, deliver_at_ms)
        payload = encode_aside(AsideOp.DROP, found.commit_log_offset, deliver_at_ms)
        await self.record(RecordKind.ASIDE, payload)

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        found = self._find(topic, message_id, deliver_at_ms)
        origin, now_ms = Origin(found.commit_log_offset, deliver_at_ms), self.now_ms()
        message = replace(found, system={**found.system, SystemProperty.DELIVER_AT_MS: str(new_deliver_at_ms)})
        if is_for_later(message, now_ms):
            self.engine.keep(RecordKind.TIMED, message, origin, now_ms)
        else:
            self._deliver(message, origin, now_ms)
        await self.commit.wait()

    def _find(self, topic: str, message_id: bytes, deliver_at_ms: int) -> StoredMessage:
        self.deliver_due()
        for offset in self.engine.aside.timers.find(deliver_at_ms, message_id):
            message = self._waiting(offset)
            if message is not None and (message.topic, message.message_id) == (topic, message_id):
                return message
        raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no such message of topic {topic!r} waits for {deliver_at_ms}")

    def _waiting(self, commit_log_offset: int) -> StoredMessage | None:
        """A kept message, unless its topic is gone since."""
        message = self._kept(commit_log_offset)
        if message is None or message.topic not in self.registry.topics:
            return None
        return message if self.registry.topic_since(message.topic) <= commit_log_offset else None

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        self.deliver_due()
        await self.commit.wait()
        cursor = (0, 0) if after is None else (after.deliver_at_ms, after.commit_log_offset)
        found: list[TimedMessage] = []
        for deliver_at_ms, offset in self.engine.aside.timers.after(cursor):
            if len(found) >= limit:
                break
            message = self._waiting(offset)
            if message is not None and topic in (None, message.topic):
                found.append(TimedMessage(message, deliver_at_ms))
        return found

    # -- transactions --------------------------------------------------------------------------------------------

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        self._backlogs = {}
        if self.disk_state >= DiskState.REFUSE:
            return Confirmation([StorageFullError() for _ in messages]).settled_now()
        taken_at = perf_counter()
        keyed = [message for message in messages if self._has_needed_key(message)]
        found = iter(self.engine.append_half(keyed, self._queue_for, self.clock.now_ms()) or [None] * len(keyed))
        refusals = [next(found) if self._has_needed_key(message) else lacks_key() for message in messages]
        return self._submit(messages, refusals if any(refusals) else None, taken_at)

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        self.expire_transactions()
        await self.commit.wait()  # a half message that is to be read again must have been written
        outcomes = [self._end(end) for end in ends]
        await self.commit.wait()
        return outcomes

    def _end(self, end: TransactionEnd) -> EntrepotError | None:
        now_ms = self.now_ms()
        half = self.engine.aside.halves.waiting.get((end.topic, end.transaction_id))
        if half is None:
            return EntrepotError(Code.INVALID_TRANSACTION_ID, f"no transaction {end.transaction_id!r} is waiting")
        if not end.commit:
            self._roll_back(half.commit_log_offset, now_ms)
            return None
        try:
            message = self._kept(half.commit_log_offset)
            assert message is not None, "it is durable"
            origin = Origin(half.commit_log_offset, 0)
            if is_for_later(message, now_ms):
                self.engine.keep(RecordKind.TIMED, message, origin, now_ms)
            else:
                self._deliver(message, origin, now_ms)
        except EntrepotError as refusal:
            return refusal
        return None

    def _roll_back(self, commit_log_offset: int, now_ms: int) -> None:
        self.engine.append_record(RecordKind.ASIDE, encode_aside(AsideOp.DROP, commit_log_offset, 0), now_ms)

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        self.expire_transactions()
        await self.commit.wait()
        now_ms, wanted = self.now_ms(), frozenset(topics)
        taken: list[StoredMessage] = []
        for half in self.engine.aside.halves.due(now_ms):
            if len(taken) >= max_messages:
                break
            if half.key[0] not in wanted:
                continue
            message = self._kept(half.commit_log_offset)
            if message is not None:
                due_ms = now_ms + self.settings.transaction_check_interval_ms
                payload = encode_aside(AsideOp.CHECK, half.commit_log_offset, due_ms, half.checks + 1)
                self.engine.append_record(RecordKind.ASIDE, payload, now_ms)
                taken.append(message)
        await self.commit.wait()
        return taken

    def expire_transactions(self) -> None:
        """Roll back what was asked about often enough and is due again."""
        now_ms = self.now_ms()
        for half in self.engine.aside.halves.due(now_ms):
            if half.checks >= self.settings.transaction_max_checks:
                self._roll_back(half.commit_log_offset, now_ms)
