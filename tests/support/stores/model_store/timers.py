"""Scheduled messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from entrepot.domain.acceptance import is_for_later
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.timing import MAX_DELAY_MS, TimedMessage, TimerCursor
from tests.support.stores.model_store.state import State, as_message, as_stored

STEP_SECONDS = 0.05
"""Interval between checks of timers without calls."""


class Timers:
    """Implements `domain.ports.Timers`, and puts every message into its queue, at once or in time."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: list[TimedMessage] = []
        self._next_look: asyncio.TimerHandle | None = None
        state.catch_up = self.deliver_due

    @property
    def count(self) -> int:
        """Number of waiting messages."""
        return len(self._waiting)

    def refusal(self, message: Message) -> EntrepotError | None:
        """Return the refusal of an invalid delivery time, or None."""
        try:
            is_for_later(message, self._state.clock.now_ms())
        except EntrepotError as refusal:
            return refusal.with_traceback(None)
        return None

    def accept(self, message: Message) -> None:
        """Store an accepted message, or let it wait."""
        now = self._state.clock.now_ms()
        deliver_at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS) or 0
        if deliver_at_ms <= now:
            self._store(message)
            return
        stored = as_stored(message, commit_log_offset=self._state.next_place(), store_time_ms=now)
        self._waiting.append(TimedMessage(stored, deliver_at_ms))
        self._look_later()

    def _store(self, message: Message) -> None:
        """Store it in its queue, or in another of the topic's if that is gone."""
        queues = self._state.topics[message.topic].queues
        self._state.store(replace(message, queue_id=message.queue_id % queues))

    def deliver_due(self) -> None:
        """Store due messages, the earliest first."""
        now = self._state.clock.now_ms()
        due = [timed for timed in self._waiting if timed.deliver_at_ms <= now]
        if not due:
            return
        self._waiting = [timed for timed in self._waiting if timed.deliver_at_ms > now]
        for timed in sorted(due, key=_order):
            self._store(as_message(timed.message, further_queues=timed.message.further_queues))
        self._state.announce_soon()

    def drop_topic(self, topic: str) -> None:
        self._waiting = [timed for timed in self._waiting if timed.message.topic != topic]

    def _look_later(self) -> None:
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(STEP_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        self.deliver_due()
        if self._waiting:
            self._look_later()

    def close(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()

    # -- requests of clients -------------------------------------------------------------------------------------

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        self._waiting.remove(self._find(topic, message_id, deliver_at_ms))

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        timed = self._find(topic, message_id, deliver_at_ms)
        if new_deliver_at_ms > self._state.clock.now_ms() + MAX_DELAY_MS:
            raise EntrepotError(Code.ILLEGAL_DELIVERY_TIME, f"more than {MAX_DELAY_MS} ms ahead")
        self._waiting.remove(timed)
        system = {**timed.message.system, SystemProperty.DELIVER_AT_MS: new_deliver_at_ms}
        self.accept(as_message(timed.message, further_queues=timed.message.further_queues, system=system))
        self._state.announce_soon()

    def _find(self, topic: str, message_id: bytes, deliver_at_ms: int) -> TimedMessage:
        self.deliver_due()
        for timed in self._waiting:
            message = timed.message
            if (message.topic, message.message_id, timed.deliver_at_ms) == (topic, message_id, deliver_at_ms):
                return timed
        raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no such message of topic {topic!r} waits for {deliver_at_ms}")

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        self.deliver_due()
        found = [timed for timed in self._waiting if topic is None or timed.message.topic == topic]
        if after is not None:
            found = [timed for timed in found if _order(timed) > (after.deliver_at_ms, after.commit_log_offset)]
        return sorted(found, key=_order)[: max(limit, 0)]


def _order(timed: TimedMessage) -> tuple[int, int]:
    return timed.deliver_at_ms, timed.message.commit_log_offset
