"""LeasedConsumer: one consumer, in this process, of a consumer group on a topic.

It pops messages and holds each until it is acknowledged, released or dead-lettered. It renews their leases, so the
store gives them to no other consumer; a message whose lease ended all the same is forgotten. On close, all held
messages are released at once.

A pop may be cancelled at any moment: the store releases what it claimed (`domain.ports.Consumption.pop`), and an answer
is held here before anything else can happen. So a reader that wants no more messages cancels its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.delivery import Deliveries, MessageRun, Receipt
from entrepot.domain.errors import NOT_THERE, PASSING, UNANSWERED, Code, EntrepotError
from entrepot.domain.message import ordering_key
from entrepot.domain.ports import REJECTED, PopRequest, Store
from entrepot.gateway.messaging.settling import MAX_SETTLED, Endings, Outcomes, Settling, outcomes_of
from entrepot.gateway.messaging.ticket import Ticket

MIN_LEASE_MS: Final = 10_000
"""Shortest lease, if the group's invisible time is less: a slow disk must not end it before it is renewed."""
RENEWALS_PER_LEASE: Final = 3
"""Renewal is due after one lease divided by this: the rest is left for a store that is slow or away."""
TICK_SECONDS: Final = 0.25
"""Interval between looks for due leases, in seconds, while any message is held."""
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
"""Limit of the pauses, doubled each time, after a refusal or an early answer to a long poll (a store that ends)."""
MAX_UNSETTLED: Final = 10_000
"""Limit of ended messages that the store has not been told of; beyond it no more are popped."""
CLOSE_SECONDS: Final = 5.0
"""Longest time to release at the end, in seconds; the rest comes back when its lease ends."""

OnEnd = Callable[[Sequence[Ticket], bool], None]
"""Callback for tickets that ended; True if the store has their messages back."""

log = structlog.get_logger(__name__)


def _nothing(*_: object) -> None:
    """Default callback."""


class Leases:
    """The leases of held messages, each of `lease_ms`, renewed when they are due.

    `renews` is False where a client renews by itself; messages it does not renew are lost when their lease ends.
    `renew` asks the store.  `held`: open tickets, with the time at which each lease is due, in that order.
    """

    def __init__(
        self,
        clock: Clock,
        lease_ms: int,
        *,
        renews: bool,
        renew: Callable[[Sequence[Receipt], int], Awaitable[Outcomes]],
        on_lost: Callable[[Sequence[Ticket]], None],
        on_idle: Callable[[], None],
    ) -> None:
        self.lease_ms, self.renews = lease_ms, renews
        self.renewed = self.lost = 0
        self.held: dict[Ticket, int] = {}
        self._clock, self._renew, self._on_lost, self._on_idle = clock, renew, on_lost, on_idle
        self._again: list[Ticket] = []
        self._renewing: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return not self.held and not self._renewing

    def hold(self, tickets: list[Ticket], *, is_due: bool = False) -> None:
        """Hold tickets.  `is_due`: their leases are to be renewed at the next look."""
        now_ms = self._clock.now_ms()
        if is_due:
            self.held = {**dict.fromkeys(tickets, now_ms), **self.held}
        else:
            self.held.update(dict.fromkeys(tickets, now_ms + self._due_after_ms))
        if tickets and self._ticking is None:
            self._tick_later()

    @property
    def _due_after_ms(self) -> int:
        return self.lease_ms // RENEWALS_PER_LEASE if self.renews else self.lease_ms

    def prolong(self, tickets: Sequence[Ticket]) -> None:
        """Postpone the leases that the client has renewed."""
        due_ms = self._clock.now_ms() + self._due_after_ms
        for ticket in tickets:
            if self.held.pop(ticket, None) is not None:
                self.held[ticket] = due_ms

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        self.renew_due()
        if self.held:
            self._tick_later()

    def renew_due(self) -> None:
        """Renew due leases, or lose their messages where the client renews by itself."""
        now_ms = self._clock.now_ms()
        found = dict.fromkeys(ticket for ticket in self._again if ticket.is_open)
        self._again.clear()
        for ticket, at_ms in self.held.items():
            if at_ms > now_ms:
                break
            found[ticket] = None
        due, next_ms = list(found), now_ms + self._due_after_ms
        if not self.renews:
            self._lose(due)
            return
        for ticket in due:  # to the end of the order, with the next time
            del self.held[ticket]
            self.held[ticket] = next_ms
        for start in range(0, len(due), MAX_SETTLED):
            task = background().start("renewal of leases", self._renew_batch(due[start : start + MAX_SETTLED]))
            self._renewing.add(task)
            task.add_done_callback(self._renewed)

    async def _renew_batch(self, due: list[Ticket]) -> None:
        tickets = [ticket for ticket in due if ticket.is_open]  # a ticket may have ended since
        asked_ms, lease_ms = self._clock.now_ms(), self.lease_ms
        outcomes = await outcomes_of(lambda receipts: self._renew(receipts, lease_ms), tickets) if tickets else ()
        for ticket, refusal in zip(tickets, outcomes, strict=True):
            if not ticket.is_open:
                continue
            if refusal is None:
                ticket.lease_ends_ms = asked_ms + lease_ms
                self.renewed += 1
            elif refusal.code in PASSING:
                self._again.append(ticket)
            else:  # the lease has ended: another consumer may have the message now
                self._lose((ticket,))

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing.discard(task)
        self._on_idle()

    def _lose(self, tickets: Sequence[Ticket]) -> None:
        self.lost += len(tickets)
        self._on_lost(tickets)

    async def settled(self) -> None:
        """Return when no renewal is under way."""
        if self._renewing:
            await asyncio.wait(set(self._renewing))

    def stop(self) -> None:
        """Look for due leases no more."""
        if self._ticking is not None:
            self._ticking.cancel()


class LeasedConsumer:
    """A consumer whose messages have leases of `lease_ms`; `renews`: see `Leases`.

    `consumer`: who it is, in words. `on_end` gets ended tickets. `on_idle` is called when nothing is held and the store
    knows everything.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        topic: str,
        group: str,
        *,
        lease_ms: int = MIN_LEASE_MS,
        renews: bool = True,
        consumer: str = "",
        on_end: OnEnd = _nothing,
        on_idle: Callable[[], None] = _nothing,
    ) -> None:
        self.topic, self.group = topic, group
        self.definition = ConsumerGroup(group, UNLIMITED_ATTEMPTS)  # until it is known
        self.unanswered = 0
        """Pops without an answer, except those of expired messages: their messages are hidden until the lease ends."""
        self.pauses = 0
        """Refusals of pops, and early answers: it asked for nothing for a while after each."""
        self._store, self._clock, self._consumer = store, clock, consumer
        self._on_end, self._on_idle = on_end, on_idle
        self._loop = asyncio.get_running_loop()
        self.leases = Leases(
            clock,
            lease_ms,
            renews=renews,
            renew=self._renew,
            on_lost=lambda tickets: self._end(tickets, True),
            on_idle=self._look_if_idle,
        )
        self._endings = Endings(store, clock, topic, group, self._look_if_idle)
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._resume_at = 0.0
        self._asking = 0
        self._is_closed = False

    # -- what is held --------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Messages that are open, or ended without an answer of the store."""
        return len(self.leases.held) + self._endings.unsettled

    @property
    def is_idle(self) -> bool:
        """True if nothing is held or asked for, and the store knows everything."""
        return self._endings.is_idle and self.leases.is_idle and not self._asking

    def follow(self, group: ConsumerGroup) -> None:
        """Take the group's definition."""
        self.leases.lease_ms = max(group.invisible_seconds * 1000, MIN_LEASE_MS if self.leases.renews else 0)
        self.definition = group

    def take(self, deliveries: Deliveries) -> list[Ticket]:
        """Hold popped messages; a closed consumer releases them and returns none."""
        ends_ms = self._clock.now_ms() + self.leases.lease_ms
        tickets = [
            Ticket(run, index, item, self, ends_ms)
            for run, items in deliveries.parts
            for index, item in enumerate(items)
        ]
        if self.definition.fifo:
            for ticket in tickets:
                with suppress(Exception):  # one that cannot be read fails alone, where it is handed out
                    ticket.message_group = ordering_key(ticket.message)
        self.leases.hold(tickets)
        if self._is_closed:
            self.release(tickets)
            return []
        return tickets

    def adopt(self, handles: Sequence[str], *, is_due: bool = False) -> list[Ticket]:
        """Hold the messages of receipt handles. `is_due`: the consumer that popped them no longer renews them."""
        ends_ms = self._clock.now_ms() + self.leases.lease_ms
        tickets = [Ticket(MessageRun((handle,), 0), 0, b"", self, ends_ms) for handle in handles]
        self.leases.hold(tickets, is_due=is_due)
        return tickets

    # -- popping -------------------------------------------------------------------------------------------------

    async def ask(self, request: PopRequest) -> list[Ticket]:
        """Pop once and hold the messages. Raises the store's refusal."""
        if self.leases.renews and request.invisible_ms is None:
            request = replace(request, invisible_ms=self.leases.lease_ms, consumer=self._consumer)
        elif self._consumer:
            request = replace(request, consumer=self._consumer)
        self._asking += 1
        try:
            deliveries = await self._store.consumption.pop(request)
            if not self.leases.renews and (group := self._store.topology.group(self.group)) is not None:
                self.follow(group)  # the group certainly exists only now
            if deliveries:
                self._pause_seconds = FIRST_PAUSE_SECONDS
            return self.take(deliveries)
        except EntrepotError as refusal:
            self.unanswered += refusal.code in UNANSWERED and not request.expired_only
            raise
        finally:
            self._asking -= 1
            self._look_if_idle()

    async def pop(self, request: PopRequest) -> list[Ticket]:
        """Pop and hold the messages; return none at the end of the time, or after a pause where the store fails. So it
        can be called again at once. Raises TOPIC_NOT_FOUND once the topic is gone."""
        await self._rest()
        asked = self._loop.time()
        try:
            tickets = await self.ask(request)
        except EntrepotError as refusal:
            await self.refused(refusal)
            return []
        if not tickets and self._loop.time() - asked < request.wait_ms / 2000:
            self._leave_alone()
            await self._rest()
        return tickets

    async def refused(self, refusal: EntrepotError) -> None:
        """Pause after a refusal, of a pop or of a call that it needs before. Raises TOPIC_NOT_FOUND once the topic is
        gone."""
        self._note(refusal)
        self._leave_alone()
        await self._rest()
        if refusal.code is Code.TOPIC_NOT_FOUND and self._store.topology.topic(self.topic) is None:
            raise refusal

    async def _rest(self) -> None:
        """Wait until the store may be asked again; after a cancelled pause, the next call waits for the rest."""
        if (left := self._resume_at - self._loop.time()) > 0:
            await asyncio.sleep(left)
        if self._endings.unsettled >= MAX_UNSETTLED:
            await self.settle()

    def _leave_alone(self) -> None:
        self.pauses += 1
        self._resume_at = self._loop.time() + self._pause_seconds
        self._pause_seconds = min(2 * self._pause_seconds, LONGEST_PAUSE_SECONDS)

    def _note(self, refusal: EntrepotError) -> None:
        """Log a refusal once while it lasts."""
        if self._pause_seconds == FIRST_PAUSE_SECONDS and refusal.code not in (*NOT_THERE, Code.TOO_MANY_REQUESTS):
            log.warning("a topic cannot be read now", topic=self.topic, group=self.group, problem=refusal.message)

    # -- ending --------------------------------------------------------------------------------------------------

    def acknowledge(self, tickets: Sequence[Ticket]) -> None:
        """End tickets: their messages were consumed."""
        self._settle(tickets, self._endings.acknowledgements, False)

    def release(
        self, tickets: Sequence[Ticket], delay_ms: int | None = 0, *, suspend: bool = False, reason: str = ""
    ) -> None:
        """End tickets: others get the messages after `delay_ms`, or by the group's retry policy for None. With
        `suspend` the delivery does not count as an attempt. `reason`: why it failed, in words."""
        if delay_ms == 0 and not suspend and not reason:
            self._settle(tickets, self._endings.releases, True)
        elif any(ticket.is_open for ticket in tickets):
            self._settle(tickets, self._endings.releases_after(delay_ms, suspend=suspend, reason=reason), True)

    def reject(self, tickets: Sequence[Ticket], reason: str = REJECTED) -> None:
        """End tickets: their messages become dead letters with the reason."""
        if any(ticket.is_open for ticket in tickets):
            self._settle(tickets, self._endings.rejections(reason), False)

    def forget(self, tickets: Sequence[Ticket]) -> None:
        """End tickets here only: another holder settles or renews them."""
        self._end([ticket for ticket in tickets if ticket.is_open], False)
        self._look_if_idle()

    def _settle(self, tickets: Sequence[Ticket], settling: Settling, is_back: bool) -> None:
        ended = [ticket for ticket in tickets if ticket.is_open]
        settling.add(ended)
        self._end(ended, is_back)

    def _end(self, tickets: Sequence[Ticket], is_back: bool) -> None:
        held = self.leases.held
        for ticket in tickets:
            ticket.is_open = False
            held.pop(ticket, None)
        if tickets:
            self._on_end(tickets, is_back)

    def _renew(self, receipts: Sequence[Receipt], lease_ms: int) -> Awaitable[Outcomes]:
        return self._store.consumption.change_invisible_duration(
            self.topic, self.group, receipts, lease_ms, release=False
        )

    def _look_if_idle(self) -> None:
        if self.is_idle:
            self._on_idle()

    # -- the end -------------------------------------------------------------------------------------------------

    async def settle_releases(self) -> None:
        """Return when all messages released without delay are available to others."""
        await self._endings.releases.settled()

    async def settle(self) -> None:
        """Return when the store knows all endings, or cannot be told while the leases live."""
        await self._endings.settled()
        await self.leases.settled()

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Release all messages, also those still to come, and return when the store knows. After `seconds` it gives up:
        the rest comes back when its lease ends."""
        self._is_closed = True
        self.leases.stop()
        self.release(list(self.leases.held))
        settling = self._loop.create_task(self.settle())
        _, late = await asyncio.wait((settling,), timeout=seconds)
        for task in late:
            task.cancel()
            log.info("held messages come back when their lease ends", topic=self.topic, group=self.group)
        self._on_end = self._on_idle = _nothing  # breaks the cycle of references with the owner
