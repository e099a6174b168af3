"""SharePump: the pops of one topic for one share, while a member here has credit for messages.

It is cancelled with the last member; claimed messages are then released at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from entrepot.domain.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.share import Share

WAIT_MS: Final = 5_000
"""Longest wait of a pop for messages, in milliseconds."""
FIRST_BATCH: Final = 8
BATCH_STEP: Final = 4
LARGEST_BATCH: Final = MAX_POP_MESSAGES
"""Most messages of one pop. The first pops are small, so that gateways sharing a group get their turn. They grow with
each second full pop in a row, so that a long backlog is not read in small pieces."""

log = structlog.get_logger(__name__)


class SharePump:
    """The pump; `request` makes the pop of so many messages, `ensure_group` returns the group, created if needed.
    `sort_out` removes popped messages that are not to be delivered. `on_end` is called at the end of the pump."""

    def __init__(
        self,
        share: Share,
        leased: LeasedConsumer,
        request: Callable[[int], PopRequest],
        ensure_group: Callable[[], Awaitable[ConsumerGroup]],
        sort_out: Callable[[list[Ticket]], list[Ticket]],
        traffic: Traffic,
        on_end: Callable[[SharePump], None],
    ) -> None:
        self.share, self.leased = share, leased
        self._request = request
        self._ensure_group = ensure_group
        self._sort_out = sort_out
        self._traffic = traffic
        self._is_idle = True
        self._batch, self._full = FIRST_BATCH, 0
        self._on_end = on_end
        self.has_failed = False
        share.pumping += 1
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.share.pumping -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EntrepotError):  # else the topic is gone
            self.has_failed = True
            log.error("a share's topic is not read any more", topic=self.leased.topic, exc_info=error)
        self._on_end(self)

    async def _run(self) -> None:
        """Run until no member is left, or the topic is gone."""
        while (reservation := await self.share.reserve(self._batch, is_idle=self._is_idle)) is not None:
            try:
                await self._pass_on(reservation.count)
            finally:
                reservation.end()
            if not self._is_idle:
                await asyncio.sleep(0)  # others waiting for the same come first

    def _size_next(self, count: int) -> None:
        """Set the size of the next pop, after one of `count` messages."""
        if count < self._batch:
            self._batch, self._full = FIRST_BATCH, 0
            return
        self._full += 1
        if not self._full % 2:
            self._batch = min(self._batch + BATCH_STEP, LARGEST_BATCH)

    async def _pass_on(self, count: int) -> None:
        """Pop and hand out; nothing here refers to the messages while the next pop waits."""
        try:
            self.leased.follow(await self._ensure_group())
        except EntrepotError as refusal:
            self._is_idle = True
            await self.leased.refused(refusal)
            return
        tickets = await self.leased.pop(self._request(count))
        self._is_idle = not tickets
        self._size_next(len(tickets))
        if tickets and self.share.has_members:
            self._traffic.count_out(self.leased.topic, self.leased.group, tickets, "mqtt")
        self.share.hand_out(self._sort_out(tickets))
