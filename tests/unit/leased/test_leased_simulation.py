"""A leased consumer over a store that is slow, refuses, loses answers and is away, with pops cancelled anywhere.

Invariants: what is open here is with whoever popped it, and nobody else is given it while the store can be reached; no
renewal is asked for of what has ended; when all is quiet the store has leases for just what is open here; what was
acknowledged does not come again; after the end, nothing is held.  `ENTREPOT_TEST_SEED` tries a history again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from entrepot.domain.delivery import Deliveries
from entrepot.domain.ports import PopRequest, Store
from entrepot.gateway.messaging import settling
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer, Leases
from entrepot.gateway.messaging.settling import MAX_SETTLED, Settling
from entrepot.gateway.messaging.ticket import Ticket
from tests.support.seed import seeded
from tests.support.virtual_time import VirtualLoop, run_virtually
from tests.tiers.marks import scaled
from tests.unit.leased.simulated_store import TRAVELS, SimulatedStore

HISTORIES = scaled(60, 10_000)
STEPS = 120
LEASE_MS = 10_000
POPPERS = 3
SHORT_OUTAGE_SECONDS = 2.0
"""Leases outlive it; one of `LONG_OUTAGE_SECONDS` they do not."""
LONG_OUTAGE_SECONDS = 25.0
QUIET_SECONDS = 3.0
"""After so long without faults, all that was under way has come to its end, but leases that nobody knows of."""


class History:
    """`is_rough`: leases may end, so messages may come twice."""

    def __init__(self, rng: random.Random, *, is_rough: bool) -> None:
        self.rng, self.is_rough = rng, is_rough
        self.loop = cast("VirtualLoop", asyncio.get_running_loop())
        self.store = SimulatedStore(rng, self.loop)
        self.store.fault_rate = rng.choice((0.0, 0.05, 0.3)) if is_rough else rng.choice((0.0, 0.02))
        self.store.available = dict.fromkeys(range(200), 0.0)
        self.store.on_handed, self.store.on_renewal = self._handed, self._renewal
        self.consumer = LeasedConsumer(
            cast("Store", self.store), self.loop, "t", "g", lease_ms=LEASE_MS, on_end=self._ended
        )
        self.hand: dict[Ticket, None] = {}
        """What somebody here was given and has not settled."""
        self.tickets: dict[str, Ticket] = {}
        self.acknowledged: set[int] = set()
        self.poppers: list[asyncio.Task[None]] = []
        self.violations: list[str] = []
        self.calm_until = 0.0

    # -- what is watched -----------------------------------------------------------------------------------------

    def _handed(self, number: int) -> None:
        if not self.is_rough:
            if number in self.acknowledged:
                self.violations.append(f"{number} comes again, though it was acknowledged")
            if any(ticket.message.queue_offset == number for ticket in self.hand):
                self.violations.append(f"{number} is given away, though it is held")

    def _renewal(self, handles: Sequence[str]) -> None:
        if not all(self.tickets[handle].is_open for handle in handles):
            self.violations.append("a renewal of what has ended")

    def _ended(self, tickets: Sequence[Ticket], is_back: bool) -> None:
        for ticket in tickets:
            self.hand.pop(ticket, None)

    def _check(self) -> None:
        assert not self.violations
        assert set(self.consumer.leases.held) == set(self.hand), "what is open is with nobody"

    def _check_quiet(self) -> None:
        self._check()
        at_store = set(self.store.leases) - self.store.unheard
        here = {ticket.receipt_handle for ticket in self.hand}
        if self.is_rough:  # a lease that has just ended may not be known here yet
            here &= at_store
        assert at_store == here, f"the store has leases for {at_store - here} that nobody holds"
        if not self.is_rough:
            assert self.acknowledged <= self.store.done, "the store knows nothing of an acknowledgement"

    # -- what happens --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            for _ in range(STEPS):
                await self._step()
                self._check()
            await self._come_to_rest()
            self._check_quiet()
            self._begin_popping()  # some are cut short by the end
            await asyncio.sleep(self.rng.choice(TRAVELS))
            closing = asyncio.ensure_future(self.consumer.close())
            await asyncio.sleep(self.rng.choice(TRAVELS))
            if self.rng.random() < 0.5:  # else they end by themselves, and what they bring goes back
                self._cancel_all()
            await asyncio.gather(closing, *self.poppers, return_exceptions=True)
            await self.consumer.settle()
            assert not self.hand
            self._check_quiet()
        finally:
            self._cancel_all()

    async def _step(self) -> None:
        rng = self.rng
        actions: tuple[Callable[[], object], ...] = (self._begin_popping, self._cancel_some, self._settle, self._settle)
        for _ in range(rng.randint(1, 3)):
            rng.choice(actions)()
        if rng.random() < 0.05 and (self.is_rough or self.loop.time() >= self.calm_until):
            self.store.is_away = True
            await asyncio.sleep(rng.random() * (LONG_OUTAGE_SECONDS if self.is_rough else SHORT_OUTAGE_SECONDS))
            self.store.is_away = False
            self.calm_until = self.loop.time() + LEASE_MS / 1000  # several in a row a lease does not outlive
        if rng.random() < 0.4:
            for _ in range(rng.randint(0, 6)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.7, 4.0, 12.0)))

    def _begin_popping(self) -> None:
        self.poppers = [task for task in self.poppers if not task.done()]
        if len(self.poppers) < POPPERS:
            self.poppers.append(self.loop.create_task(self._pop()))

    async def _pop(self) -> None:
        request = PopRequest("t", "g", self.rng.randint(1, 32), self.rng.choice((0, 1000, 5000)))
        try:
            tickets = await self.consumer.pop(request)
        except Exception as error:
            self.violations.append(repr(error))
            return
        for ticket in tickets:
            self.hand[ticket] = None
            self.tickets[ticket.receipt_handle] = ticket

    def _cancel_some(self) -> None:
        for task in self.poppers:
            if self.rng.random() < 0.5:
                task.cancel()

    def _cancel_all(self) -> None:
        for task in self.poppers:
            task.cancel()

    def _settle(self) -> None:
        some = [ticket for ticket in self.hand if self.rng.random() < 0.3]
        way = self.rng.randrange(6)
        if way <= 1:
            self.acknowledged.update(ticket.message.queue_offset for ticket in some)
            self.consumer.acknowledge(some)
        elif way == 2:
            self.consumer.release(some)
        elif way == 3:
            self.consumer.release(some, self.rng.choice((0, 300)), suspend=True)
        elif way == 4:
            self.consumer.reject(some)
        else:
            self.consumer.acknowledge(some)
            self.acknowledged.update(ticket.message.queue_offset for ticket in some)
            self.consumer.release(some)  # what has ended is not ended again
        assert not any(ticket.is_open for ticket in some)

    async def _come_to_rest(self) -> None:
        self._cancel_all()
        self.store.fault_rate, self.store.is_away = 0.0, False
        await self.consumer.settle()
        await asyncio.sleep(QUIET_SECONDS + (LEASE_MS / 1000 if self.is_rough else 0))
        self.store.claim(0, 0)  # what is over is


def search(purpose: str, histories: int) -> None:
    rng = seeded(purpose)
    for number in range(histories):
        seed = rng.randrange(1 << 62)
        try:
            run_virtually(one(seed, is_rough=number % 2 == 1))
        except Exception as failure:
            raise AssertionError(f"history {number}, random.Random({seed}): {failure}") from failure


async def one(seed: int, *, is_rough: bool) -> None:
    await History(random.Random(seed), is_rough=is_rough).run()


@pytest.mark.scaled
@pytest.mark.timeout(900)
def test_nothing_is_stranded_or_given_twice() -> None:
    search("leased", HISTORIES)


# -- planted faults ------------------------------------------------------------------------------------------------


async def loses_what_comes_at_a_cancel(self: LeasedConsumer, request: PopRequest) -> list[Ticket]:
    """The pop goes on without whoever asked."""
    leased = replace(request, invisible_ms=LEASE_MS)
    return self.take(await asyncio.shield(asyncio.ensure_future(self._store.consumption.pop(leased))))


async def keeps_what_nobody_took(self: LeasedConsumer, request: PopRequest) -> list[Ticket]:
    tickets = await ASK(self, request)
    await asyncio.sleep(0)
    return tickets


def renews_what_has_ended(self: LeasedConsumer, tickets: Sequence[Ticket], is_back: bool) -> None:
    for ticket in tickets:
        ticket.is_open = False
    self._on_end(tickets, is_back)


async def renews_once(self: Leases, due: list[Ticket]) -> None:
    await RENEW(self, due)
    for ticket in due:
        self.held.pop(ticket, None)


def takes_after_the_end(self: LeasedConsumer, deliveries: Deliveries) -> list[Ticket]:
    is_closed, self._is_closed = self._is_closed, False
    try:
        return TAKE(self, deliveries)
    finally:
        self._is_closed = is_closed


def forgets_what_was_refused(self: Settling, batch: list[Ticket], outcomes: Any) -> list[Ticket]:
    return []


ASK, RENEW, TAKE = LeasedConsumer.ask, Leases._renew_batch, LeasedConsumer.take
FAULTS: dict[str, tuple[type, str, Any]] = {
    "a pop lost at cancel": (LeasedConsumer, "ask", loses_what_comes_at_a_cancel),
    "a pause before the hand-over": (LeasedConsumer, "ask", keeps_what_nobody_took),
    "a renewal after release": (LeasedConsumer, "_end", renews_what_has_ended),
    "a lease renewed once": (Leases, "_renew_batch", renews_once),
    "a pop that ends after the end": (LeasedConsumer, "take", takes_after_the_end),
    "a settle whose answer was lost": (Settling, "_worth_again", forgets_what_was_refused),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises(AssertionError, match="history"):
        search(fault, 40 * HISTORIES)


# -- the end with much in the hand -----------------------------------------------------------------------------------


async def stop_with(count: int) -> tuple[SimulatedStore, Counter[int]]:
    loop = cast("VirtualLoop", asyncio.get_running_loop())
    store = SimulatedStore(seeded(), loop)
    store.travels = (0.0, 0.01)
    store.available = dict.fromkeys(range(count), 0.0)
    consumer = LeasedConsumer(cast("Store", store), loop, "t", "g", lease_ms=LEASE_MS)
    while consumer.held < count:
        await consumer.pop(PopRequest("t", "g", 1000, 0))
    await asyncio.sleep(2 * LEASE_MS / 1000)  # they are renewed, in batches
    assert store.calls <= 20 * count / MAX_SETTLED
    store.calls, store.fault_rate = 0, 0.05
    await consumer.close()
    assert consumer.is_idle
    return store, Counter(store.available)


def test_ten_thousand_held_messages_are_others_when_a_consumer_ends() -> None:
    store, available = run_virtually(stop_with(10_000))
    assert not store.leases
    assert set(available) == set(range(10_000))
    assert store.calls < 100
    assert settling.MAX_SETTLED == 1000
