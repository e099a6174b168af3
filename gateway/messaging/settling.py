"""Settling: tells the store, in batches, of deliveries that have ended here.

All that end in one tick of the event loop are one call; those that end during a call go with the next one. Failed ones
are retried as long as the lease lives; after that the message belongs to another consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.delivery import Receipt
from entrepot.domain.errors import NOT_THERE, PASSING, Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.ticket import Ticket

MAX_SETTLED: Final = 1000
"""Deliveries of one call to the store."""
RETRY_SECONDS: Final = 0.2
"""Pause before the next try, in seconds."""
ENDED: Final = frozenset({Code.INVALID_RECEIPT_HANDLE, *NOT_THERE})
"""Refusals because there is nothing (any more) to settle."""

Outcomes = Sequence[EntrepotError | None]
Tell = Callable[[Sequence[Receipt]], Awaitable[Outcomes]]
"""Function that tells the store of deliveries; one outcome for each."""

log = structlog.get_logger(__name__)


class Settling:
    """Tickets of one topic and group that ended the same way; `on_idle` is called when the store knows of all."""

    def __init__(self, tell: Tell, clock: Clock, on_idle: Callable[[], None]) -> None:
        self._tell, self._clock, self._on_idle = tell, clock, on_idle
        self._waiting: list[Ticket] = []
        self._under_way = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def unsettled(self) -> int:
        """Messages that the store has not answered for."""
        return len(self._waiting) + self._under_way

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def add(self, tickets: Sequence[Ticket]) -> None:
        self._waiting += tickets
        if self._task is None and self._waiting:
            self._task = background().keep("settling of messages", self._run)
            self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        while self._waiting:
            batch = self._waiting[:MAX_SETTLED]
            del self._waiting[:MAX_SETTLED]
            self._under_way = len(batch)
            try:
                again = self._worth_again(batch, await outcomes_of(self._tell, batch))
            finally:  # after a fault of ours the leases of the batch end
                self._under_way = 0
            if again:
                self._waiting += again
                await asyncio.sleep(RETRY_SECONDS)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if self._waiting and not task.cancelled():
            self.add(())
        else:
            self._on_idle()

    def _worth_again(self, batch: list[Ticket], outcomes: Outcomes) -> list[Ticket]:
        """Return the tickets to retry: refused for now, and the lease lives. Log those that are given up."""
        now_ms, again, given_up = self._clock.now_ms(), [], 0
        for ticket, refusal in zip(batch, outcomes, strict=True):
            if refusal is None or refusal.code in ENDED:
                continue
            if refusal.code in PASSING and now_ms < ticket.lease_ends_ms:
                again.append(ticket)
            else:
                given_up += 1
                problem = refusal.message
        if given_up:
            consumer = batch[0].consumer
            log.warning(
                "messages could not be settled",
                topic=consumer.topic,
                group=consumer.group,
                messages=given_up,
                problem=problem,
            )
        return again

    async def settled(self) -> None:
        """Return when the store knows of all endings so far, or cannot be told while the leases live."""
        while self._task is not None:
            await asyncio.wait((self._task,))


class Endings:
    """All that ended here in some way and that the store is still to be told of; `on_idle` as of `Settling`."""

    def __init__(self, store: Store, clock: Clock, topic: str, group: str, on_idle: Callable[[], None]) -> None:
        self._store, self._clock, self._place, self._on_idle = store, clock, (topic, group), on_idle
        self.acknowledgements = Settling(self._acknowledge, clock, on_idle)
        self.releases = Settling(self._release(0, suspend=False, reason=""), clock, on_idle)
        self._others: dict[object, Settling] = {}
        """Unusual endings, by kind, as long as there are any."""

    @property
    def unsettled(self) -> int:
        """Messages that the store has not answered for."""
        others = sum(each.unsettled for each in self._others.values()) if self._others else 0
        return self.acknowledgements.unsettled + self.releases.unsettled + others

    @property
    def is_idle(self) -> bool:
        return self.acknowledgements.is_idle and self.releases.is_idle and not self._others

    def releases_after(self, delay_ms: int | None, *, suspend: bool, reason: str) -> Settling:
        """Return the settling of releases that are not usual."""
        return self._other((delay_ms, suspend, reason), self._release(delay_ms, suspend=suspend, reason=reason))

    def rejections(self, reason: str) -> Settling:
        """Return the settling of dead letters with a reason."""

        def reject(receipts: Sequence[Receipt]) -> Awaitable[Outcomes]:
            return self._store.consumption.reject(*self._place, receipts, reason)

        return self._other(reason, reject)

    def _acknowledge(self, receipts: Sequence[Receipt]) -> Awaitable[Outcomes]:
        """Acknowledge lazily, with the store's next sync, as no client waits for the answer."""
        return self._store.consumption.acknowledge(*self._place, receipts, may_wait=True)

    def _release(self, delay_ms: int | None, *, suspend: bool, reason: str) -> Tell:
        def release(receipts: Sequence[Receipt]) -> Awaitable[Outcomes]:
            return self._store.consumption.change_invisible_duration(
                *self._place, receipts, delay_ms, release=True, suspend=suspend, reason=reason
            )

        return release

    def _other(self, kind: object, tell: Tell) -> Settling:
        found = self._others.get(kind)
        if found is None:

            def told() -> None:
                del self._others[kind]
                self._on_idle()

            found = self._others[kind] = Settling(tell, self._clock, told)
        return found

    async def settled(self) -> None:
        """Return as `Settling.settled`, for all of them."""
        for each in (self.acknowledgements, self.releases, *self._others.values()):
            await each.settled()


async def outcomes_of(tell: Tell, tickets: Sequence[Ticket]) -> Outcomes:
    """Return each ticket's outcome; a failure of the whole call is the outcome of all."""
    try:
        return await tell(tickets)
    except EntrepotError as refusal:
        return [refusal] * len(tickets)
