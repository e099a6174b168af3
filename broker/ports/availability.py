"""AvailabilityWatch: tells a client that pops over several brokers when to pop here again.

It tells too often rather than too seldom: on every arrival, release or due time, whoever gets the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.topic import Topic

if TYPE_CHECKING:
    from entrepot.broker.ports.core import BrokerCore


class AvailabilityWatch:
    """A watch of one topic and group; to be closed with `close`."""

    def __init__(self, core: BrokerCore, topic: str, group: str, callback: Callable[[], None]) -> None:
        self._core = core
        self._topic, self._group = topic, group
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None
        self._is_told = self._is_closed = False
        self._stop = core.polling.watch(topic, group, self._woken)
        if (found := core.registry.topics.get(topic)) is not None:
            core.follow(found)
        self._arm()

    def close(self) -> None:
        self._is_closed = True
        self._stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _woken(self) -> None:
        """Tell once for several wakes in one tick."""
        if not self._is_told:
            self._is_told = True
            self._core.loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_told = False
        if self._is_closed:
            return
        self._callback()
        self._arm()

    def _arm(self) -> None:
        """Tell when the messages now in flight come back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        topic, group = self._definitions()
        if topic is None or group is None:
            return
        now_ms = self._core.now_ms()
        due = self._core.consumption.next_due(topic, group, now_ms)
        if due is not None:
            self._timer = self._core.loop.call_later(max(due - now_ms, 1) / 1000, self._tell)

    def _definitions(self) -> tuple[Topic | None, ConsumerGroup | None]:
        registry = self._core.registry
        return registry.topics.get(self._topic), registry.groups.get(self._group)
