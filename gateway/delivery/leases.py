"""Leases: what the members of a share hold of one topic, until each message is settled.

A lease is renewed while it is held, so the store gives no held message to another consumer; one that the store ended
all the same is forgotten.  Acknowledgements, releases and renewals go to the store in batches: those of one tick of the
event loop together, and those that come while a batch is under way with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import structlog

from domain.clock import Clock
from domain.consumer_group import ConsumerGroup
from domain.errors import Code, EntrepotError
from domain.message import Delivery, StoredMessage, ordering_key
from domain.ports import Store

MAX_SETTLED: Final = 1000
"""Receipt handles of one call to the store."""
MIN_LEASE_MS: Final = 10_000
"""A lease is the group's invisible time, but not less: a slow disk must not end it before it is renewed."""
RENEWALS_PER_LEASE: Final = 3
"""A lease is renewed when this part of it is over: the others are left for a store that is slow or away."""
RETRY_SECONDS: Final = 0.2
"""How long what the store could not take now waits for its next try, while the lease lives."""
PASSING: Final = frozenset(
    {Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN, Code.REQUEST_TIMEOUT, Code.TOO_MANY_REQUESTS, Code.STORAGE_FULL}
)
"""Refusals that may be otherwise later."""

Outcomes = Sequence[EntrepotError | None]
log = structlog.get_logger(__name__)


class ShareMember(Protocol):
    """A connection's membership in one share."""

    @property
    def credit(self) -> int:
        """How many messages it can be handed now (0: none)."""
        ...

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Send them; no more than `credit` in all before credit is asked again."""
        ...

    def flush(self) -> None:
        """Write what was taken; called once after a run of `take`."""
        ...

    def __hash__(self) -> int: ...


class Ticket:
    """One delivery in flight.  `acknowledge` and `release` end it; ending it again does nothing.

    `member` is who was handed it, set before `take`.  `message_group`: of a FIFO group, what is delivered in order.
    """

    __slots__ = ("attempt", "handle", "is_open", "lease_ends_ms", "leases", "member", "message", "message_group")

    member: ShareMember | None

    def __init__(self, delivery: Delivery, leases: Leases, lease_ends_ms: int) -> None:
        self.message: StoredMessage = delivery.message
        self.attempt = delivery.attempt
        self.handle = delivery.receipt_handle
        self.leases = leases
        self.member = None
        self.lease_ends_ms = lease_ends_ms
        self.message_group = ordering_key(delivery.message) if leases.is_fifo else ""
        self.is_open = True

    def acknowledge(self) -> None:
        """It was consumed."""
        if self.is_open:
            self.leases.acknowledge((self,))

    def release(self) -> None:
        """Give it back now: others can have it at once."""
        if self.is_open:
            self.leases.release((self,))


def acknowledge_all(tickets: Sequence[Ticket]) -> None:
    """Those that are open were consumed."""
    by_leases: dict[Leases, list[Ticket]] = {}
    for ticket in tickets:
        if ticket.is_open:
            by_leases.setdefault(ticket.leases, []).append(ticket)
    for leases, ended in by_leases.items():
        leases.acknowledge(ended)


class Leases:
    """The leases of one topic and group.  `on_end` is told of tickets that ended, and whether the store has them
    back."""

    def __init__(
        self, store: Store, clock: Clock, topic: str, group: str, on_end: Callable[[Sequence[Ticket], bool], None]
    ) -> None:
        self.topic, self.group = topic, group
        self.lease_ms = MIN_LEASE_MS
        self.is_fifo = False
        self.renewed = self.lost = 0
        self._clock = clock
        self._on_end = on_end
        self._held: dict[Ticket, int] = {}
        """What is open, with the time to renew it, in that order."""
        self._to_renew_again: list[Ticket] = []
        self._renewing: set[asyncio.Task[None]] = set()

        def acknowledge(handles: list[str]) -> Awaitable[Outcomes]:
            return store.acknowledge(topic, group, handles)

        def release(handles: list[str]) -> Awaitable[Outcomes]:
            return store.change_invisible_duration(topic, group, handles, 0, release=True)

        def renew(handles: list[str]) -> Awaitable[Outcomes]:
            return store.change_invisible_duration(topic, group, handles, self.lease_ms, release=False)

        self._acknowledgements = _Settling(acknowledge, clock)
        self._releases = _Settling(release, clock)
        self._renew_handles = renew

    @property
    def unsettled(self) -> int:
        """How many have ended here that the store has not been told of yet."""
        return self._acknowledgements.waiting + self._releases.waiting

    @property
    def held(self) -> int:
        """How many are open, or have ended and the store has not been told of it yet."""
        return len(self._held) + self.unsettled

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held, and the store knows everything."""
        return not self._held and not self._renewing and self._acknowledgements.is_idle and self._releases.is_idle

    def follow(self, group: ConsumerGroup) -> None:
        """Do from now on as the group is defined."""
        self.lease_ms = max(group.invisible_seconds * 1000, MIN_LEASE_MS)
        self.is_fifo = group.fifo

    def take(self, deliveries: Sequence[Delivery]) -> list[Ticket]:
        """Tickets for what was popped just now."""
        now_ms = self._clock.now_ms()
        tickets = [Ticket(delivery, self, now_ms + self.lease_ms) for delivery in deliveries]
        self._held.update(dict.fromkeys(tickets, now_ms + self.lease_ms // RENEWALS_PER_LEASE))
        return tickets

    def acknowledge(self, tickets: Sequence[Ticket]) -> None:
        """End open ones: they were consumed."""
        self._acknowledgements.add(tickets)
        self._end(tickets, False)

    def release(self, tickets: Sequence[Ticket]) -> None:
        """End open ones: they are given back."""
        self._releases.add(tickets)
        self._end(tickets, True)

    def _end(self, tickets: Sequence[Ticket], is_released: bool) -> None:
        held = self._held
        for ticket in tickets:
            ticket.is_open = False
            held.pop(ticket, None)
        self._on_end(tickets, is_released)

    # -- renewing ------------------------------------------------------------------------------------------------

    def renew_due(self) -> None:
        """Renew what is due; called now and then."""
        now_ms = self._clock.now_ms()
        due = [ticket for ticket in self._to_renew_again if ticket.is_open]
        self._to_renew_again.clear()
        for ticket, at_ms in self._held.items():
            if at_ms > now_ms:
                break
            due.append(ticket)
        for ticket in due:
            self._held.pop(ticket, None)  # it comes back, behind the others, with its next time
        for start in range(0, len(due), MAX_SETTLED):
            task = asyncio.get_running_loop().create_task(self._renew(due[start : start + MAX_SETTLED]))
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)

    async def _renew(self, tickets: list[Ticket]) -> None:
        asked_ms = self._clock.now_ms()
        next_ms = asked_ms + self.lease_ms // RENEWALS_PER_LEASE
        outcomes = await _outcomes(self._renew_handles, tickets)
        for ticket, refusal in zip(tickets, outcomes, strict=True):
            if not ticket.is_open:
                continue
            if refusal is None:
                ticket.lease_ends_ms = asked_ms + self.lease_ms
                self._held[ticket] = next_ms
                self.renewed += 1
            elif refusal.code in PASSING:
                self._held[ticket] = next_ms
                self._to_renew_again.append(ticket)
            else:  # the store has ended it: somebody else may have the message now
                self.lost += 1
                self._end((ticket,), True)

    async def settle_releases(self) -> None:
        """Return when all that was given back is there for others."""
        await self._releases.settle()

    async def settle(self) -> None:
        """Return when the store knows what has ended, or cannot be told while the leases live."""
        await self._acknowledgements.settle()
        await self._releases.settle()
        await asyncio.gather(*self._renewing, return_exceptions=True)


class _Settling:
    """Tells the store of ended tickets, a batch at a time."""

    def __init__(self, tell: Callable[[list[str]], Awaitable[Outcomes]], clock: Clock) -> None:
        self._tell = tell
        self._clock = clock
        self._waiting: list[Ticket] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def add(self, tickets: Sequence[Ticket]) -> None:
        self._waiting += tickets
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:MAX_SETTLED]
                del self._waiting[:MAX_SETTLED]
                outcomes = await _outcomes(self._tell, batch)
                again = self._worth_again(batch, outcomes)
                if again:
                    self._waiting += again
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._task = None

    def _worth_again(self, batch: list[Ticket], outcomes: Outcomes) -> list[Ticket]:
        """What the store could not take now, and whose lease lives.  The rest it does not know (any more)."""
        now_ms, again, given_up = self._clock.now_ms(), [], 0
        for ticket, refusal in zip(batch, outcomes, strict=True):
            if refusal is None or refusal.code == Code.INVALID_RECEIPT_HANDLE:
                continue
            if refusal.code in PASSING and now_ms < ticket.lease_ends_ms:
                again.append(ticket)
            else:
                given_up += 1
                problem = refusal.message
        if given_up:
            leases = batch[0].leases
            log.warning(
                "shared messages could not be settled",
                topic=leases.topic,
                group=leases.group,
                messages=given_up,
                problem=problem,
            )
        return again

    async def settle(self) -> None:
        while self._task is not None:
            await asyncio.wait((self._task,))


async def _outcomes(tell: Callable[[list[str]], Awaitable[Outcomes]], tickets: list[Ticket]) -> Outcomes:
    """Each ticket's outcome; what concerns the whole call is the outcome of all."""
    try:
        return await tell([ticket.handle for ticket in tickets])
    except EntrepotError as refusal:
        return [refusal] * len(tickets)
