"""Groups of all kinds over a topic that goes cold bit by bit, with restarts: whatever happens, what was acknowledged
never comes again, all the rest comes, and the order of message groups holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.broker import Broker
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import QUEUES, TOPIC, known, opened
from tests.support.waiting import until

STEPS = 24
GROUPS = (
    ConsumerGroup("plain", start="earliest", max_attempts=500, invisible_seconds=30),
    ConsumerGroup("fifo", start="earliest", max_attempts=500, invisible_seconds=30, fifo=True),
    ConsumerGroup(
        "tagged",
        start="earliest",
        max_attempts=500,
        invisible_seconds=30,
        filter=FilterExpression(FilterKind.TAG, "t1"),
    ),
)
Place = tuple[int, int]


def place_of(delivery: Delivery) -> Place:
    return delivery.message.queue_id, delivery.message.queue_offset


@dataclass
class Reader:
    """What a group was given, and has settled."""

    group: ConsumerGroup
    held: list[Delivery] = field(default_factory=list)
    done: set[Place] = field(default_factory=set)

    def take(self, deliveries: list[Delivery], bodies: dict[Place, bytes], in_order: dict[str, list[Place]]) -> None:
        now: set[Place] = set()
        for delivery in deliveries:
            place, name = place_of(delivery), delivery.message.message_group
            assert place not in self.done, f"{self.group.name}: {place} was acknowledged, and comes again"
            assert delivery.message.body == bodies[place]
            if self.group.fifo and name:
                before = in_order[name][: in_order[name].index(place)]
                assert set(before) <= self.done | now, f"{place} of {name} came before {set(before) - self.done}"
            now.add(place)
        self.held += deliveries

    async def settle(self, store: Broker, some: list[Delivery]) -> None:
        outcomes = await store.consumption.acknowledge("factory", self.group.name, some)
        for delivery, outcome in zip(some, outcomes, strict=True):
            if outcome is None:
                self.done.add(place_of(delivery))
        self.held = [each for each in self.held if each not in some]


class World:
    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.random, self.clock = directory, Random(seed), ManualClock()
        self.readers = [Reader(group) for group in GROUPS]
        self.bodies: dict[Place, bytes] = {}
        self.tags: dict[Place, str] = {}
        self.in_order: dict[str, list[Place]] = {}
        self.count = 0
        self.store: Broker

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._stack = AsyncExitStack()
        await self._open()
        await self.store.topology.put_topic(replace(TOPIC, retention_seconds=600))
        for group in GROUPS:
            await self.store.topology.put_group(group)
        try:
            yield
        finally:
            await self._stack.aclose()

    async def _open(self) -> None:
        self.store = await self._stack.enter_async_context(opened(self.directory, self.clock))

    async def publish(self) -> None:
        messages = []
        for number in range(self.count, self.count + self.random.randrange(1, 80)):
            queue_id = self.random.randrange(QUEUES)
            tag, body = f"t{number % 3}", b"%08d" % number + bytes(self.random.choice([10, 3000]))
            messages.append(
                Message(
                    "factory",
                    body,
                    queue_id=queue_id,
                    message_id=b"m%d" % number,
                    message_group=f"{queue_id}/{number % 5}" if number % 4 else "",
                    tag=tag,
                    filter_hash=filter_hash("", tag),
                )
            )
        bounds = {each.queue_id: each.max_offset for each in await self.store.messages.bounds("factory")}
        assert not any(await append_all(self.store, *messages))
        for message in messages:
            place = message.queue_id, bounds[message.queue_id]
            bounds[message.queue_id] += 1
            self.bodies[place], self.tags[place] = message.body, message.tag
            self.in_order.setdefault(message.message_group, []).append(place)
        self.count += len(messages)

    async def pop(self) -> None:
        reader = self.random.choice(self.readers)
        request = PopRequest("factory", reader.group.name, self.random.choice([1, 7, 32, 200]))
        reader.take(list(await self.store.consumption.pop(request)), self.bodies, self.in_order)

    async def settle(self) -> None:
        reader = self.random.choice(self.readers)
        count = self.random.randrange(len(reader.held) + 1)
        some = reader.held[:count] if reader.group.fifo else self.random.sample(reader.held, count)
        if reader.group.fifo or self.random.random() < 0.7:
            await reader.settle(self.store, some)
        else:
            await self.store.consumption.change_invisible_duration("factory", reader.group.name, some, 0, release=True)
            reader.held = [each for each in reader.held if each not in some]

    async def wait(self) -> None:
        self.clock.advance(self.random.choice([1_000, 40_000]))

    async def go_cold(self) -> None:
        """All that is there now leaves the disk."""
        queues = [self.store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
        ends = [queue.visible_offset for queue in queues]
        self.clock.advance(700_000)
        await until(lambda: [queue.min_offset for queue in queues] >= ends, "all has left the disk")

    async def restart(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        await self._open()
        for reader in self.readers:
            reader.held.clear()  # handles of before are of another epoch
        await known(self.store)

    async def drain(self, reader: Reader) -> None:
        reader.held.clear()
        self.clock.advance(60_000)
        for _ in range(10_000):
            request = PopRequest("factory", reader.group.name, 200)
            deliveries = list(await self.store.consumption.pop(request))
            if not deliveries:
                return
            reader.take(deliveries, self.bodies, self.in_order)
            await reader.settle(self.store, list(reader.held))


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 60)])
async def test_nothing_is_lost_and_nothing_settled_comes_again(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(
        "entrepot.broker.ports.thawing.PAGE", 3 + 1000 * (seed % 2)
    )  # small ones: much is missed on the way
    world = World(tmp_path, seed)
    async with world.running():
        await world.publish()
        acts = [world.publish, world.pop, world.pop, world.pop, world.settle, world.settle, world.wait]
        for step in range(STEPS):
            if step % 12 == 11:
                await world.go_cold()
            elif step % 17 == 16:
                await world.restart()
            else:
                await world.random.choice(acts)()
        for reader in world.readers:
            await world.drain(reader)
            wanted = set(world.bodies)
            if reader.group.name == "tagged":
                wanted = {place for place, tag in world.tags.items() if tag == "t1"}
            assert reader.done == wanted, f"{reader.group.name} lacks {sorted(wanted - reader.done)[:10]}"
