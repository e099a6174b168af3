"""Renewals and settlements that the store does not take at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from entrepot.domain.delivery import Receipt
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging import settling as module
from entrepot.gateway.messaging.leased_consumer import MIN_LEASE_MS, RENEWALS_PER_LEASE, LeasedConsumer
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, pop
from tests.support.waiting import until

DUE_MS = MIN_LEASE_MS // RENEWALS_PER_LEASE


class HesitantStore(MemoryStore):
    """Refuses so many renewals and acknowledgements, and answers none of the others before `may_answer`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock)
        self.own = self.consumption
        self.consumption = replaced(
            self.own, change_invisible_duration=self.change_invisible_duration, acknowledge=self.acknowledge
        )
        self.refusals: list[Code] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def _answer(self) -> None:
        await self.may_answer.wait()
        if self.refusals:
            raise EntrepotError(self.refusals.pop(0), "not now")

    async def change_invisible_duration(
        self, topic: str, group: str, receipts: Sequence[Receipt], invisible_ms: int | None, **more: bool
    ) -> Sequence[EntrepotError | None]:
        await self._answer()
        return await self.own.change_invisible_duration(topic, group, receipts, invisible_ms, **more)  # type: ignore[arg-type]

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> Sequence[EntrepotError | None]:
        await self._answer()
        return await self.own.acknowledge(topic, group, receipts, may_wait=may_wait)


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HesitantStore]:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    made = HesitantStore()
    await made.topology.put_topic(Topic("t", queues=1))
    await append(made, "t", "a", "b", "c")
    yield made
    await made.close()


async def consumer_of(store: HesitantStore) -> LeasedConsumer:
    consumer = LeasedConsumer(store, store.clock, "t", "g")
    assert len(await consumer.ask(PopRequest("t", "g", 10))) == 3
    return consumer


async def test_a_renewal_that_is_refused_for_now_is_tried_at_the_next_look(store: HesitantStore) -> None:
    consumer = await consumer_of(store)
    store.clock.advance(DUE_MS)
    store.refusals = [Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN]
    for _ in range(2):
        consumer.leases.renew_due()
        await consumer.settle()
    assert (consumer.leases.renewed, store.refusals) == (0, [])
    consumer.leases.renew_due()
    await consumer.settle()
    assert consumer.leases.renewed == 3
    consumer.leases.renew_due()  # none is due
    await consumer.settle()
    assert (consumer.leases.renewed, consumer.leases.lost) == (3, 0)
    store.clock.advance(MIN_LEASE_MS - 1)
    assert await pop(store, "t") == [], "the leases live"
    await consumer.close()


async def test_a_lease_that_is_over_is_lost_at_once(store: HesitantStore) -> None:
    consumer = await consumer_of(store)
    store.clock.advance(MIN_LEASE_MS + 1)
    assert len(await pop(store, "t")) == 3
    consumer.leases.renew_due()
    await consumer.settle()
    assert (consumer.leases.lost, consumer.leases.renewed, consumer.held) == (3, 0, 0)
    await consumer.close()


async def test_what_is_under_way_to_the_store_is_not_settled_yet(store: HesitantStore) -> None:
    consumer = await consumer_of(store)
    store.may_answer.clear()
    consumer.acknowledge(list(consumer.leases.held)[:2])
    assert (consumer._endings.unsettled, consumer.held, consumer.is_idle) == (2, 3, False)
    await until(lambda: not consumer._endings.acknowledgements._waiting, "the store is asked")
    assert (consumer._endings.unsettled, consumer.held, consumer.is_idle) == (2, 3, False)
    store.refusals = [Code.STORAGE_FULL]
    store.may_answer.set()
    await consumer.settle()
    assert (consumer._endings.unsettled, consumer.held, store.refusals) == (0, 1, [])
    consumer.acknowledge(list(consumer.leases.held))
    await consumer.settle()
    assert consumer.is_idle
    await consumer.close()
