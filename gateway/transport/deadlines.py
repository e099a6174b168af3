"""DeadlineWheel: one timer for the deadlines of all connections, to a quarter of a second.

The shortest belong to AMQP clients with a heartbeat of one second, which are looked at twice in each. A conversation
tells its deadline when asked. Data from the peer move it without touching the wheel, which looks again at the old time.
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Protocol

import structlog

from entrepot.domain.callbacks import call_each

TICK_SECONDS = 0.25
FARTHEST_TICKS = 1200
"""Farthest look, in ticks: a later deadline is looked at again then."""

log = structlog.get_logger(__name__)


class Timed(Protocol):
    """A conversation, as the wheel sees it."""

    def deadline(self) -> float:
        """Time to call `timed_out`; infinity for never."""

    def timed_out(self, now: float) -> None: ...


class DeadlineWheel:
    """Conversations by the tick of their next look."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, set[Timed]] = {}
        self._places: dict[Timed, int] = {}
        self._now_tick = int(loop.time() / TICK_SECONDS)
        self._timer = loop.call_later(TICK_SECONDS, self._turn)

    def add(self, conversation: Timed) -> None:
        self._place(conversation, conversation.deadline())

    def remove(self, conversation: Timed) -> None:
        tick = self._places.pop(conversation, None)
        if tick is not None and (slot := self._slots.get(tick)) is not None:
            slot.discard(conversation)

    def close(self) -> None:
        self._timer.cancel()

    def _place(self, conversation: Timed, deadline: float) -> None:
        far = self._now_tick + FARTHEST_TICKS
        tick = far if math.isinf(deadline) else min(max(int(deadline / TICK_SECONDS) + 1, self._now_tick + 1), far)
        self._slots.setdefault(tick, set()).add(conversation)
        self._places[conversation] = tick

    def _turn(self) -> None:
        self._timer = self._loop.call_later(TICK_SECONDS, self._turn)
        now = self._loop.time()
        tick = int(now / TICK_SECONDS)
        for passed in range(self._now_tick + 1, tick + 1):
            self._now_tick = passed
            looks = [partial(self._look, conversation, passed, now) for conversation in self._slots.pop(passed, ())]
            for fault in call_each(looks):
                log.error("a connection failed at its deadline", seldom="deadline", exc_info=fault)

    def _look(self, conversation: Timed, tick: int, now: float) -> None:
        if self._places.get(conversation) != tick:
            return  # an earlier call of this tick closed or moved it
        del self._places[conversation]
        deadline = now  # of one that fails to tell: it is asked again at the next tick
        try:
            deadline = conversation.deadline()
        finally:
            self._place(conversation, deadline)
        if deadline <= now:
            conversation.timed_out(now)
