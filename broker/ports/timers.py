"""`domain.ports.Timers`: scheduled messages (`broker.store.pending`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import structlog

from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.store.pending import PendingOp, encode_pending
from entrepot.broker.store.record import (
    KEPT_KINDS,
    RecordKind,
)
from entrepot.broker.store.record_trailer import Origin
from entrepot.domain.acceptance import is_for_later
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, CorruptedError, EntrepotError, StorageFullError, StoreFailedError
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.timing import TimedMessage, TimerCursor

MAX_DELIVERED_AT_ONCE: Final = 500
"""Timers delivered in one go, before others get their turn."""

log = structlog.get_logger(__name__)


class Timers:
    """The scheduled messages of a broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._engine, self._registry = core.engine, core.registry

    def deliver_due(self) -> bool:
        """Store due messages into their queues, the earliest first; True if there are more."""
        now_ms = self._core.now_ms()
        due = self._engine.pending.timers.take_due(now_ms, MAX_DELIVERED_AT_ONCE)
        waiting = 0
        for at, (deliver_at_ms, offset) in enumerate(due):
            try:
                message = self.kept(offset)
            except CorruptedError:
                continue  # it stays, and its readers report it
            if message is None:
                self._engine.pending.timers.put_back([due[at]])  # not durable yet
                waiting += 1
                continue
            try:
                self.deliver(message, Origin(offset, deliver_at_ms), now_ms)
            except StorageFullError:
                self._engine.pending.timers.put_back(due[at:])
                break
            except StoreFailedError:
                raise
            except EntrepotError as error:  # it stays; the others are delivered
                log.error("a message cannot be delivered", topic=message.topic, at=offset, error=error.message)
        if due:
            self._core.commit.submit(Confirmation())
        return len(due) == MAX_DELIVERED_AT_ONCE and not waiting

    def kept(self, commit_log_offset: int) -> StoredMessage | None:
        """Return a pending message, or None until it is durable."""
        return self._engine.commit_log.message_at(commit_log_offset, KEPT_KINDS)

    def deliver(self, message: StoredMessage, origin: Origin, now_ms: int) -> None:
        """Deliver to its queue; if that is gone since, to another of the topic's; if the topic is gone, nowhere."""
        topic = self._registry.topics.get(message.topic)
        if topic is None or self._registry.topic_since(message.topic) > origin.commit_log_offset:
            payload = encode_pending(PendingOp.DROP, origin.commit_log_offset, origin.deliver_at_ms)
            self._engine.append_record(RecordKind.PENDING, payload, now_ms)
        else:
            message.queue_id %= topic.queues
            ends = self._core.tracer.ends_of((message,)) if self._registry.traced else None
            self._engine.append_kept(message, origin, now_ms)
            if ends:
                self._core.tracer.stored((message,), None, ends, now_ms)

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        found = self._find(topic, message_id, deliver_at_ms)
        payload = encode_pending(PendingOp.DROP, found.commit_log_offset, deliver_at_ms)
        await self._core.record(RecordKind.PENDING, payload)

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        if self.is_unconfirmed(message_id, deliver_at_ms):
            await self._core.commit.wait()
        found = self._find(topic, message_id, deliver_at_ms)
        origin, now_ms = Origin(found.commit_log_offset, deliver_at_ms), self._core.now_ms()
        message = replace(found, system={**found.system, SystemProperty.DELIVER_AT_MS: new_deliver_at_ms})
        if is_for_later(message, now_ms):
            self._engine.keep(RecordKind.TIMED, message, origin, now_ms)
        else:
            self.deliver(message, origin, now_ms)
        await self._core.commit.wait()

    def is_unconfirmed(self, message_id: bytes, deliver_at_ms: int) -> bool:
        """Return True if a message that is not confirmed yet may wait for that time."""
        confirmed = self._engine.confirmed_offset
        return any(offset >= confirmed for offset in self._engine.pending.timers.find(deliver_at_ms, message_id))

    def waits(self, topic: str, message_id: bytes, deliver_at_ms: int) -> bool:
        """True while a message waits for its time."""
        return self._pending(topic, message_id, deliver_at_ms) is not None

    def _pending(self, topic: str, message_id: bytes, deliver_at_ms: int) -> StoredMessage | None:
        for offset in self._engine.pending.timers.find(deliver_at_ms, message_id):
            message = self._waiting(offset)
            if message is not None and (message.topic, message.message_id) == (topic, message_id):
                return message
        return None

    def _find(self, topic: str, message_id: bytes, deliver_at_ms: int) -> StoredMessage:
        self.deliver_due()
        message = self._pending(topic, message_id, deliver_at_ms)
        if message is not None:
            return message
        raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no such message of topic {topic!r} waits for {deliver_at_ms}")

    def _waiting(self, commit_log_offset: int) -> StoredMessage | None:
        """Return a kept message, unless its topic is gone since."""
        message = self.kept(commit_log_offset)
        if message is None or message.topic not in self._registry.topics:
            return None
        return message if self._registry.topic_since(message.topic) <= commit_log_offset else None

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        self.deliver_due()
        await self._core.commit.wait()
        cursor = (0, 0) if after is None else (after.deliver_at_ms, after.commit_log_offset)
        found: list[TimedMessage] = []
        for deliver_at_ms, offset in self._engine.pending.timers.after(cursor):
            if len(found) >= limit:
                break
            message = self._waiting(offset)
            if message is not None and topic in (None, message.topic):
                found.append(TimedMessage(message, deliver_at_ms))
        return found
