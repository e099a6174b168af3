"""Random histories over two brokers and two gateways: nothing lost, nothing made up, twice only where that is allowed.

The seed is printed; `ENTREPOT_TEST_SEED` tries one again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import ROUND_ROBIN, Message
from entrepot.domain.ports import PopRequest
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld, sender_over
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.stores.steps import message, pop
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.tiers.marks import scaled

DISTURBANCES = scaled(3, 60)
MESSAGES = scaled(20, 100)
"""At least, in a history: on a slow machine there are fewer."""
LAST_LOOKS = scaled(10, 40)
INVISIBLE_MS = 800


@dataclass
class Seen:
    """What producers and consumers were told."""

    sent: set[bytes] = field(default_factory=set)
    confirmed: set[bytes] = field(default_factory=set)
    refused: set[bytes] = field(default_factory=set)
    delivered: Counter[bytes] = field(default_factory=Counter)
    acknowledged: set[bytes] = field(default_factory=set)
    open: set[bytes] = field(default_factory=set)
    """An acknowledgement was asked for, and never answered."""
    wrong: list[str] = field(default_factory=list)
    last: dict[str, int] = field(default_factory=dict)
    is_fifo: bool = False

    def deliver(self, delivery: Delivery) -> None:
        body = delivery.message.body
        self.delivered[body] += 1
        if body not in self.sent:
            self.wrong.append(f"{body!r} was never sent")
        if body in self.refused:
            self.wrong.append(f"{body!r} was refused, and delivered")
        if body in self.acknowledged:
            self.wrong.append(f"{body!r} was acknowledged, and delivered again")
        key = delivery.message.message_group if self.is_fifo else ""
        if key and body not in self.acknowledged | self.open:
            number = int(body.decode().rpartition("-")[2])
            if number < self.last.get(key, -1):
                self.wrong.append(f"{body!r} was delivered behind {self.last[key]} of its group")
            self.last[key] = number


class History:
    def __init__(self, world: BrokerWorld, rng: random.Random, is_fifo: bool) -> None:
        self.world, self.rng, self.seen = world, rng, Seen(is_fifo=is_fifo)
        self.loop = asyncio.get_running_loop()
        self.is_producing = True
        self.answers = 0

    async def produce(self, store: RemoteStore, name: str) -> None:
        """Batches with and without keys; only an answer counts."""
        sender, number = sender_over(store, self.world.clock), 0
        while self.is_producing:
            batch: list[Message] = []
            for _ in range(self.rng.randint(1, 5)):
                number += 1
                key = f"{name}{self.rng.randrange(4)}" if self.rng.random() < 0.5 else ""
                body = f"{name}-{number}"
                batch.append(message("t", body, ROUND_ROBIN, message_group=key))
                self.seen.sent.add(body.encode())
            for each in batch:  # each by itself: its outcome is its own
                sender.send([each], lambda failure, refusals, each=each: self._sent(each, failure, refusals))  # type: ignore[misc]
            await asyncio.sleep(self.rng.random() * 0.05)
        await asyncio.wait_for(sender.settle(), PATIENCE_SECONDS)

    def _sent(self, sent: Message, failure: EntrepotError | None, refusals: object) -> None:
        self.answers += 1
        if failure is not None:
            if failure.code != Code.OUTCOME_UNKNOWN:
                self.seen.wrong.append(f"{sent.body!r}: failed with {failure.code}")
        elif refusals is None:
            self.seen.confirmed.add(sent.body)
        else:
            self.seen.refused.add(sent.body)

    async def consume(self, store: RemoteStore, settler: RemoteStore, stop: asyncio.Event) -> None:
        """Pop through one store, settle through another."""
        while not stop.is_set():
            count = self.rng.randint(1, 8)
            until_s = self.loop.time() + INVISIBLE_MS / 2000
            try:
                found = await store.consumption.pop(
                    PopRequest("t", "g", count, self.rng.choice((0, 50, 300)), INVISIBLE_MS)
                )
            except EntrepotError as error:
                if error.code not in (Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN, Code.REQUEST_TIMEOUT):
                    self.seen.wrong.append(f"a pop failed with {error.code}")
                await asyncio.sleep(0.01)
                continue
            if len(found) > count:
                self.seen.wrong.append(f"{len(found)} messages instead of {count}")
            for delivery in found:  # what follows one that is not settled is left: in FIFO groups it may not pass it
                if self.loop.time() > until_s:
                    break
                self.seen.deliver(delivery)
                if self.rng.random() > 0.97 or not await self._acknowledge(settler, delivery):
                    break

    async def _acknowledge(self, settler: RemoteStore, delivery: Delivery) -> bool:
        body = delivery.message.body
        try:
            [outcome] = await settler.consumption.acknowledge("t", "g", [delivery.receipt_handle])
        except EntrepotError as error:
            outcome = error
        if outcome is None:
            self.seen.acknowledged.add(body)
        elif outcome.code == Code.OUTCOME_UNKNOWN:
            self.seen.open.add(body)
        elif outcome.code not in (Code.UNAVAILABLE, Code.INVALID_RECEIPT_HANDLE):
            self.seen.wrong.append(f"{body!r}: acknowledging failed with {outcome.code}")
        return outcome is None

    async def disturb(self) -> None:
        """Stop and serve, cut connections."""
        for _ in range(DISTURBANCES):
            served = self.rng.choice(self.world.brokers)
            await asyncio.sleep(self.rng.random() * 0.4)
            if self.rng.random() < 0.5:
                served.cut()
            else:
                await served.stop()
                await asyncio.sleep(self.rng.random() * 0.3)
                await served.serve()

    async def run(self) -> None:
        stores, stop = self.world.stores, asyncio.Event()
        producing = [asyncio.create_task(self.produce(store, name)) for store, name in zip(stores, "ab", strict=True)]
        consuming = [
            asyncio.create_task(self.consume(store, settler, stop))
            for store, settler in zip(stores * 2, [*stores, *reversed(stores)], strict=True)
        ]
        await asyncio.wait_for(self.disturb(), 4 * PATIENCE_SECONDS)
        self.is_producing = False
        await asyncio.wait_for(asyncio.gather(*producing), PATIENCE_SECONDS)
        await until(lambda: all(len(store.cluster.ready) == 2 for store in stores), "all are back")
        wanted = self.seen.confirmed
        await until(
            lambda: wanted <= self.seen.acknowledged | self.seen.open,
            lambda: f"never settled: {sorted(wanted - self.seen.acknowledged - self.seen.open)[:20]}",
            2 * PATIENCE_SECONDS,
        )
        stop.set()
        await asyncio.wait_for(asyncio.gather(*consuming), PATIENCE_SECONDS)
        for _ in range(LAST_LOOKS):  # what was refused or unknown may be left: there is nothing confirmed in it
            for delivery in await pop(stores[0], "t", wait_ms=50):
                self.seen.deliver(delivery)


@pytest.mark.scaled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fifo", [False, True])
async def test_a_random_history(world: BrokerWorld, store: RemoteStore, other: RemoteStore, fifo: bool):
    await world.topic(queues=2)
    await store.topology.put_group(ConsumerGroup("g", fifo=fifo, max_attempts=1000))
    await world.agree()
    history = History(world, seeded(str(fifo)), fifo)
    await history.run()
    seen = history.seen
    tell(
        f"two brokers that come and go, {fifo=}",
        rounds=DISTURBANCES,
        messages=len(seen.confirmed),
        lost=len(seen.confirmed - seen.delivered.keys()),
        phantom=len(seen.delivered.keys() - seen.sent),
        faults=DISTURBANCES,
    )
    assert seen.wrong == []
    assert len(seen.confirmed) > MESSAGES
    assert history.answers == len(seen.sent), "every message had one answer"
    assert seen.delivered.keys() >= seen.confirmed, "lost"
    assert len(seen.acknowledged) > MESSAGES
