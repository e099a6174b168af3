"""A store that gives out leases, whose every delay, refusal and lost answer is somebody's choice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, cast

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Deliveries, Delivery, Receipt, handle_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import REJECTED, PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.settling import MAX_SETTLED
from tests.support.stores.single import single_delivery
from tests.support.virtual_time import VirtualLoop

BUSY = EntrepotError(Code.TOO_MANY_REQUESTS, "not now")
ENDED = EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the lease is over")
TRAVELS = (0.0, 0.0, 0.0, 0.001, 0.05, 0.6)
"""Seconds that a request or an answer may be under way."""
LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Lease:
    number: int
    ends: float


class SimulatedStore:
    """One topic, one group, and the ports it has: topology and consumption.  Messages are numbers, which are their
    queue offsets.  `on_handed` is told of each that is given to somebody, `on_renewal` of the handles of each renewal
    that is asked for."""

    def __init__(self, rng: random.Random, loop: VirtualLoop) -> None:
        self.rng, self._loop = rng, loop
        self.topology = self.consumption = self
        self.travels: Sequence[float] = TRAVELS
        self._handles = count()
        self.available: dict[int, float] = {}
        """From when on each can be had."""
        self.leases: dict[str, Lease] = {}
        self.unheard: set[str] = set()
        """Of pops whose answers were lost: nobody has them until their leases end."""
        self.done: set[int] = set()
        self.dead: set[int] = set()
        self.is_away = False
        self.fault_rate = 0.0
        self.calls = 0
        self.on_handed: Callable[[int], None] = lambda number: None
        self.on_renewal: Callable[[Sequence[str]], None] = lambda handles: None

    def topic(self, name: str) -> Topic | None:
        return Topic(name, queues=1)

    def group(self, name: str) -> ConsumerGroup | None:
        return None

    # -- popping -------------------------------------------------------------------------------------------------

    async def pop(self, request: PopRequest) -> Deliveries:
        assert request.invisible_ms is not None
        end = self._loop.time() + request.wait_ms / 1000
        await self._travel()
        while not (found := self.claim(request.max_messages, request.invisible_ms / 1000)):
            if self._loop.time() >= end:
                return Deliveries()
            await asyncio.sleep(LOOK_SECONDS)
        try:
            await self._travel()
        except asyncio.CancelledError:  # what the port promises of a pop that is cancelled
            for handle in found:
                self._end(handle, self._loop.time())
            raise
        except EntrepotError:
            self.unheard.update(found)
            raise
        given = [_delivery(self.leases[handle].number, handle) for handle in found if handle in self.leases]
        return Deliveries.of_singles(given)

    def claim(self, most: int, seconds: float) -> list[str]:
        """What can be had is somebody's from now on."""
        now = self._loop.time()
        for handle, lease in list(self.leases.items()):
            if lease.ends <= now:
                self._end(handle, now)
        found = []
        for number in [number for number, at in self.available.items() if at <= now][:most]:
            del self.available[number]
            handle = str(next(self._handles))
            self.leases[handle] = Lease(number, now + seconds)
            self.on_handed(number)
            found.append(handle)
        return found

    def _end(self, handle: str, at: float) -> None:
        self.available[self.leases.pop(handle).number] = at
        self.unheard.discard(handle)

    async def _travel(self) -> None:
        await asyncio.sleep(self.rng.choice(self.travels))
        if self.is_away:
            raise EntrepotError(Code.UNAVAILABLE, "the broker is away")
        if self.rng.random() < self.fault_rate:
            raise EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")

    # -- settling ------------------------------------------------------------------------------------------------

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        return await self._settle(receipts, lambda lease: self.done.add(lease.number))

    async def reject(
        self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED
    ) -> list[EntrepotError | None]:
        return await self._settle(receipts, lambda lease: self.dead.add(lease.number))

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        reason: str = "",
    ) -> list[EntrepotError | None]:
        seconds = (invisible_ms or 0) / 1000
        if release:
            return await self._settle(receipts, lambda lease: self._give_back(lease, seconds))
        self.on_renewal([handle_of(receipt) for receipt in receipts])
        return await self._ask(receipts, lambda handle: self._renew(handle, seconds))

    def _give_back(self, lease: Lease, seconds: float) -> None:
        self.available[lease.number] = self._loop.time() + seconds

    def _renew(self, handle: str, seconds: float) -> None:
        self.leases[handle].ends = self._loop.time() + seconds

    def _settle(
        self, receipts: Sequence[Receipt], settle: Callable[[Lease], None]
    ) -> Coroutine[Any, Any, list[EntrepotError | None]]:
        return self._ask(receipts, lambda handle: settle(self.leases.pop(handle)))

    async def _ask(self, receipts: Sequence[Receipt], change: Callable[[str], None]) -> list[EntrepotError | None]:
        assert len(receipts) <= MAX_SETTLED
        self.calls += 1
        await self._travel()
        now, outcomes = self._loop.time(), list[EntrepotError | None]()
        for handle in map(handle_of, receipts):
            lease = self.leases.get(handle)
            if lease is None or lease.ends <= now:
                outcomes.append(ENDED)
            elif self.rng.random() < self.fault_rate:
                outcomes.append(BUSY)
            else:
                outcomes.append(change(handle))
        await self._travel()
        return outcomes


def _delivery(number: int, handle: str) -> Delivery:
    return single_delivery(cast("StoredMessage", _Message(number)), handle, 1)


@dataclass(slots=True)
class _Message:
    queue_offset: int
