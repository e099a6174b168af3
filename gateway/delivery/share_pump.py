"""SharePump: one topic of one share, asked for messages as long as somebody here has credit for them.

A pop under way is never cancelled, for what it claimed meanwhile would be with nobody until its lease ends: it is let
finish, and what it brings when nobody is left goes back at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.message import Delivery
from domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from gateway.delivery.leases import Leases, Ticket
from gateway.delivery.share import Share
from gateway.messaging.traffic import Traffic

WAIT_MS: Final = 5_000
"""How long a pop waits for messages; as long may one outlive the last member."""
FIRST_BATCH: Final = 8
BATCH_STEP: Final = 4
LARGEST_BATCH: Final = MAX_POP_MESSAGES
"""Messages of one pop.  They are few, so that gateways which share a group come to their turn; they grow by a step with
each pop that brought as many as it asked for, so that a long backlog is not read in small pieces."""
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
"""Between these, doubled each time, a pump waits while the store refuses, or answers a long poll empty at once as one
does that is ending."""
MAX_UNSETTLED: Final = 10_000
"""Acknowledgements and releases the store was not told of yet: beyond it nothing more is asked for."""

log = structlog.get_logger(__name__)


class SharePump:
    """`request` says how so many messages are popped.  `ensure_group` gives the group, made where it is not there.
    `sort_out` takes out of what was popped what is not to be delivered.  `on_end` is called when there is nothing more
    to ask for."""

    def __init__(
        self,
        store: Store,
        share: Share,
        leases: Leases,
        request: Callable[[int], PopRequest],
        ensure_group: Callable[[], Awaitable[ConsumerGroup]],
        sort_out: Callable[[list[Ticket]], list[Ticket]],
        traffic: Traffic,
        on_end: Callable[[SharePump], None],
    ) -> None:
        self.share, self.leases = share, leases
        self._store = store
        self._request = request
        self._ensure_group = ensure_group
        self._sort_out = sort_out
        self._traffic = traffic
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._is_idle = True
        self._batch = FIRST_BATCH
        self._on_end = on_end
        self.has_failed = False
        self.is_popping = False
        """Whether it must not be cancelled."""
        share.pumping += 1
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.share.pumping -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            self.has_failed = True
            log.error("a share's topic is not read any more", topic=self.leases.topic, exc_info=error)
        self._on_end(self)

    async def _run(self) -> None:
        """Until nobody is a member, or the topic is gone."""
        while (reservation := await self.share.reserve(self._batch, is_idle=self._is_idle)) is not None:
            try:
                if self.leases.unsettled >= MAX_UNSETTLED:
                    reservation.end()
                    await self._pause()
                    continue
                is_refused = not await self._pop(reservation.count)
            except EntrepotError as refusal:
                reservation.end()
                if refusal.code == Code.TOPIC_NOT_FOUND and self._store.topic(self.leases.topic) is None:
                    return
                self._note(refusal)
                is_refused = True
            finally:
                reservation.end()
            if is_refused:
                await self._pause()

    async def _pop(self, count: int) -> bool:
        """Pop once and hand out; False if the long poll was answered before its time though there is nothing."""
        self.leases.follow(await self._ensure_group())
        loop = asyncio.get_running_loop()
        asked = loop.time()
        self.is_popping = True
        try:
            deliveries = await self._store.pop(self._request(count))
        finally:
            self.is_popping = False
        self._is_idle = not deliveries
        is_full = len(deliveries) >= self._batch
        self._batch = min(self._batch + BATCH_STEP, LARGEST_BATCH) if is_full else FIRST_BATCH
        if not deliveries:
            return loop.time() - asked >= WAIT_MS / 2000
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._hand_out(deliveries)
        await asyncio.sleep(0)  # who waits for the same beside this one comes first
        return True

    def _hand_out(self, deliveries: list[Delivery]) -> None:
        tickets = self._sort_out(self.leases.take(deliveries))
        if self.share.has_members:
            self._traffic.count_out(self.leases.topic, self.leases.group, deliveries, "mqtt")
        self.share.hand_out(tickets)

    def _note(self, refusal: EntrepotError) -> None:
        if self._pause_seconds == FIRST_PAUSE_SECONDS and refusal.code != Code.TOO_MANY_REQUESTS:
            log.warning(
                "a share's topic cannot be read now",
                topic=self.leases.topic,
                group=self.leases.group,
                problem=refusal.message,
            )

    async def _pause(self) -> None:
        """Others have their turn; what is asked for too often is asked for less often."""
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)
