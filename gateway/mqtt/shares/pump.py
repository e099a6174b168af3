"""SharePump: the pops of one topic for one share, while a member here has credit for messages.

It is cancelled with the last member; claimed messages are then released at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from entrepot.domain.callbacks import hand_over
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.gateway.messaging.incidents import Incidents, Outcome
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

PART: Final = "mqtt share"
"""The part of incidents of shares."""

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
        incidents: Incidents,
        on_end: Callable[[SharePump], None],
    ) -> None:
        self.share, self.leased = share, leased
        self._request = request
        self._ensure_group = ensure_group
        self._sort_out = sort_out
        self._traffic = traffic
        self._incidents = incidents
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
            log.error("a share stopped reading a topic", topic=self.leased.topic, exc_info=error)
        self._on_end(self)

    async def _run(self) -> None:
        """Run until no member is left, or the topic is gone."""
        while (reservation := await self.share.reserve(self._batch, is_idle=self._is_idle)) is not None:
            try:
                await self._pass_on(reservation.count)
            except EntrepotError:  # the topic is gone
                raise
            except Exception as fault:  # noqa: BLE001 - whatever it was, later messages are to be read
                await self._rest_after(fault)
            finally:
                reservation.end()
            if not self._is_idle:
                await asyncio.sleep(0)  # others waiting for the same come first

    async def _rest_after(self, fault: Exception) -> None:
        """Tell of an error of our own, and pause as after a refusal of the store. Raises TOPIC_NOT_FOUND once the topic
        is gone."""
        reason = f"a pop failed: {type(fault).__name__}: {fault}"
        self._incidents.note(PART, Outcome.SET_ASIDE, reason, place=self.leased.topic, fault=fault)
        self._is_idle = True
        await self.leased.refused(EntrepotError(Code.INTERNAL_ERROR, reason))

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
        self.share.hand_out(self._wanted(tickets))

    def _wanted(self, tickets: list[Ticket]) -> list[Ticket]:
        """Count popped messages, and return those to deliver. One that fails is set aside."""
        counted: list[Ticket] = []
        wanted: list[Ticket] = []

        def count(some: list[Ticket]) -> None:
            if self.share.has_members:
                self._traffic.count_out(self.leased.topic, self.leased.group, some, "mqtt")
            counted.extend(some)

        def sort_out(some: list[Ticket]) -> None:
            wanted.extend(self._sort_out(some))

        failed = (*hand_over(tickets, count), *hand_over(counted, sort_out)) if tickets else ()
        for ticket, fault in failed:
            self.share.set_aside((ticket,), fault)
        return wanted
