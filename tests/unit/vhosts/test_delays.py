"""Delayed messages that wait for their time: routed by one gateway, by another where it ends, and later where the store
cannot take them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.message import Message
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions, waiting_group, waiting_topic
from entrepot.gateway.amqp.virtual_hosts.delays import Delays
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import append_all, bodies, pop
from tests.support.waiting import PATIENCE_SECONDS, until

DELAYED = Exchange("late", ExchangeType.DELAYED, arguments={"x-delayed-type": "direct"})


@dataclass
class Gateway:
    """One gateway's part; `send` may be replaced."""

    store: MemoryStore
    definitions: Definitions
    vhost: Vhost
    routing: Routing
    sender: Sender
    clock: ManualClock
    delays: Delays = field(init=False)
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        incidents = self.sender.incidents
        self.delays = Delays(self.store, self.definitions, self.routing, incidents, self.clock, self._send)

    async def _send(self, vhost: Vhost, messages: list[Message]) -> Refusals:
        return await self.send(vhost, messages)

    async def send(self, vhost: Vhost, messages: list[Message]) -> Refusals:
        self.sent += messages
        return await self.sender.send_and_wait(messages)

    async def publish(self, key: str, delay_ms: int) -> None:
        publish = Publish("late", key, False, ContentHeader.of(headers={"x-delay": delay_ms}), b"m")
        message = self.routing.message(self.vhost, publish, (), self.clock.now_ms())
        assert message is not None
        await append_all(self.store, message)

    async def close(self) -> None:
        await self.delays.close()
        self.definitions.close()


async def opened(store: MemoryStore, clock: ManualClock) -> Gateway:
    definitions = Definitions(store)
    await definitions.start()
    vhost = definitions.vhost("/")
    assert vhost is not None
    topology = Topology(store, TopicsSettings())
    routing = Routing(store, Routes(store, topology, []), keeps_topics=False)
    return Gateway(store, definitions, vhost, routing, Sender(store, topology, clock), clock)


Open = Callable[[], Awaitable[Gateway]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def gateway(clock: ManualClock) -> AsyncIterator[Open]:
    store, gateways = MemoryStore(clock), list[Gateway]()

    async def one_more() -> Gateway:
        gateways.append(await opened(store, clock))
        return gateways[-1]

    yield one_more
    for each in gateways:
        await each.close()


async def declare(one: Gateway, *queues: str) -> None:
    await one.definitions.declare_exchange(one.vhost, DELAYED, "g")
    for name in queues:
        wanted = declared_queue(name, "/", durable=True, arguments={})
        await one.definitions.declare_queue(one.vhost, wanted, gateway="g", connection="", now_ms=1)
        await one.definitions.bind(one.vhost, Binding("late", name, "k"))


async def found(one: Gateway, queue: str) -> list[str]:
    of = one.vhost.queues[queue]
    return bodies(await pop(one.store, of.topic, of.group))


async def arrive(one: Gateway, clock: ManualClock) -> None:
    """Let the time come; a call lets the store see it."""
    clock.advance(1001)
    await one.store.messages.bounds(waiting_topic("default"))


async def test_it_is_routed_when_its_time_comes(gateway: Open, clock: ManualClock) -> None:
    one = await gateway()
    await declare(one, "q")
    await one.delays.start()
    await one.publish("k", 1000)
    await one.publish("nobody", 1000)
    await one.publish("later", 1000)
    assert await found(one, "q") == [] and not one.sent
    await one.definitions.bind(one.vhost, Binding("late", "q", "later"))
    await arrive(one, clock)
    await until(lambda: len(one.sent) == 2, "two are routed")
    assert await found(one, "q") == ["m", "m"]
    await one.delays.close()
    assert await pop(one.store, waiting_topic("default"), waiting_group("default")) == [], "all are settled"


@cases("code", [Code.UNAVAILABLE, Code.TOO_MANY_REQUESTS, Code.STORAGE_FULL, Code.TOPIC_NOT_FOUND])
async def test_what_cannot_be_taken_now_is_routed_again(monkeypatch: pytest.MonkeyPatch, code: Code) -> None:
    monkeypatch.setattr("entrepot.gateway.amqp.virtual_hosts.delays.AGAIN_MS", 1)
    clock = ManualClock()
    one = await opened(MemoryStore(clock), clock)
    await declare(one, "q", "other")
    send, refused = one.send, [0]

    async def refuse(vhost: Vhost, messages: list[Message]) -> Refusals:
        refused[0] += 1
        if refused[0] > 3:
            return await send(vhost, messages)
        return [EntrepotError(code, "not now")] * len(messages)

    one.send = refuse  # type: ignore[method-assign]
    await one.delays.start()
    await one.publish("k", 1000)
    await arrive(one, clock)
    for times in range(1, 4):
        await until(lambda times=times: refused[0] == times, "it was refused")  # type: ignore[misc]
        await arrive(one, clock)  # the pause before it is routed again is over
    await until(lambda: len(one.sent) == 1, "it is stored")
    assert await found(one, "q") == await found(one, "other") == ["m"]
    await one.close()


async def test_another_gateway_routes_what_one_held_when_it_ended(gateway: Open, clock: ManualClock) -> None:
    one, other = await gateway(), await gateway()
    await declare(one, "q")
    began, never = asyncio.Event(), asyncio.Event()

    async def hang(vhost: Vhost, messages: list[Message]) -> Refusals:
        began.set()
        await never.wait()
        return None

    one.send = hang  # type: ignore[method-assign]
    await one.delays.start()
    await one.publish("k", 1000)
    await arrive(one, clock)
    await asyncio.wait_for(began.wait(), PATIENCE_SECONDS)
    await other.delays.start()
    assert not other.sent
    await one.delays.close()
    await until(lambda: len(other.sent) == 1, "the other one has it")
    assert await found(other, "q") == ["m"]


async def test_a_binding_that_another_gateway_confirmed_counts(
    monkeypatch: pytest.MonkeyPatch, gateway: Open, clock: ManualClock
) -> None:
    one, other = await gateway(), await gateway()
    await declare(one, "q")
    catch_up = one.definitions.catch_up

    async def late_news() -> None:
        await other.definitions.bind(other.vhost, Binding("late", "q", "other"))
        await catch_up()

    monkeypatch.setattr(one.definitions, "catch_up", late_news)
    await one.delays.start()
    await one.publish("other", 1000)
    await arrive(one, clock)
    await until(lambda: len(one.sent) == 1, "it is routed")
    assert await found(one, "q") == ["m"]


async def test_it_ends_with_its_virtual_host(gateway: Open) -> None:
    one = await gateway()
    await one.store.topology.put_namespace("plant")
    plant = one.definitions.vhost("plant")
    assert plant is not None
    await one.delays.start()
    await one.definitions.declare_exchange(plant, DELAYED, "g")
    assert one.store.topology.topic(waiting_topic("plant")) is not None
    await one.definitions.clear(plant)
    await one.store.topology.delete_namespace("plant")
    assert one.store.topology.topic(waiting_topic("plant")) is None


async def test_an_exchange_from_before_there_was_a_place_to_wait(gateway: Open) -> None:
    one = await gateway()
    await declare(one)
    await one.store.topology.delete_topic(waiting_topic("default"))
    await one.delays.start()
    assert one.store.topology.topic(waiting_topic("default")) is not None
