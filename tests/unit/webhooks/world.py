"""One subscription over a store in memory, with a sink that answers as it is told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import LATEST_POSITION
from entrepot.domain.topic import Topic
from entrepot.gateway.events.subscriptions.record import StateRecord, Subscription, SubscriptionRecord
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.access_tokens import AccessTokens
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.delivery_context import DeliveryContext
from entrepot.gateway.events.webhooks.handshake import Handshake
from entrepot.gateway.events.webhooks.settlement import Asked, Settlement
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.settings import WebhookSettings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import message, pop, settled
from tests.support.waiting import PATIENCE_SECONDS

SINK = "https://sink.example/hook"
OK = Answer(200)


class Sink:
    """Implements what deliverers ask of `SinkClient`. Answers of `told` come first, then 200; `bodies` is what came.
    While `gate` is clear, requests wait."""

    def __init__(self) -> None:
        self.told: list[Answer | Exception] = []
        self.bodies: list[bytes] = []
        self.under_way = self.most_under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout_seconds: float, tls: object
    ) -> Answer:
        self.bodies.append(body or b"")
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for _ in range(3):  # others may begin meanwhile
                await asyncio.sleep(0)
            await self.gate.wait()
        finally:
            self.under_way -= 1
        answer = self.told.pop(0) if self.told else OK
        if isinstance(answer, Exception):
            raise answer
        return answer


class Jitter(Random):
    """Randomness that is a number."""

    share = 0.0

    def random(self) -> float:
        return self.share


class World:
    """The store, the subscription and what belongs to it."""

    def __init__(self, settings: WebhookSettings, record: SubscriptionRecord) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.subscriptions = Subscriptions(self.store, 10)
        self.sink = Sink()
        self.jitter = Jitter()
        self.circuit = Circuit(settings.circuit_failures, settings.circuit_seconds, settings.circuit_max_seconds)
        self._record = record
        client = cast("SinkClient", self.sink)
        self.context = DeliveryContext(
            self.store,
            self.clock,
            self.subscriptions,
            client,
            AccessTokens(client, self.clock),
            Handshake(self.subscriptions, client, settings, self.clock),
            settings,
            asyncio.Semaphore(settings.max_requests),
            self.jitter,
            Incidents(self.clock),
        )
        self.subscription: Subscription
        self.leased: LeasedConsumer
        self.settlement: Settlement

    async def open(self) -> None:
        await self.store.topology.put_topic(Topic(self._record.topic, queues=1))
        await self.subscriptions.start()
        self.subscription = await self.subscriptions.create(self._record, LATEST_POSITION)
        self.leased = LeasedConsumer(self.store, self.clock, self.subscription.feed, self.subscription.group)
        self.settlement = Settlement(self.context, self.leased, self.subscription)

    async def close(self) -> None:
        await self.leased.close()
        self.subscriptions.close()
        await self.store.close()

    @property
    def state(self) -> StateRecord:
        return self.subscriptions.state(self.subscription)

    async def put_state(self, **fields: Any) -> None:
        assert await self.subscriptions.put_state(self.subscription, StateRecord(**fields))

    async def feed(self, *bodies: str, key: str = "") -> None:
        """Let events wait for the sink."""
        fields: Any = {"message_group": key, "born_time_ms": self.clock.now_ms()}
        made = [message(self.subscription.feed, each, **fields) for each in bodies]
        assert await settled(self.store.messages.append(made)) is None

    async def take(self, count: int = 32) -> list[Ticket]:
        return await self.leased.ask(PopRequest(self.leased.topic, self.leased.group, count))

    async def settle(self, tickets: list[Ticket], answer: Answer, **asked: Any) -> None:
        """Settle what came as the answer to the events of one request; the store knows when this returns."""
        fields = {"authorization": None, "at": 0.0, "took_seconds": 0.25} | asked
        await self.settlement.settle(tickets, answer, Asked(self.subscription, self.circuit, **fields))
        await self.leased.settle()

    async def waiting(self) -> int:
        """Events that are not settled, whether they can be had or not."""
        status = await self.store.topology.group_status(self.subscription.group)
        if found := [each.lag for each in status.progress if each.topic == self.subscription.feed]:
            return sum(found)
        [bounds] = await self.store.messages.bounds(self.subscription.feed)  # nothing was read so far
        return bounds.max_offset - bounds.min_offset

    async def left(self, count: int = 0) -> None:
        """Return when so many events wait."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (waiting := await self.waiting()) != count:
            assert time.monotonic() < deadline, f"{waiting} events wait, not {count}"
            await asyncio.sleep(0)

    async def dead_letters(self) -> list[tuple[str, str]]:
        """Body and reason of each."""
        try:
            found = await pop(self.store, dead_letter_topic(self.subscription.group), "inspector", 100)
        except EntrepotError:
            return []
        reason = SystemProperty.DEAD_LETTER_REASON
        return [(each.message.body.decode(), str(each.message.system.get(reason))) for each in found]


@asynccontextmanager
async def world(settings: WebhookSettings | None = None, **fields: Any) -> AsyncIterator[World]:
    """A world for the length of a block; `fields`: those of the subscription's record."""
    record = SubscriptionRecord("s", "default", "t", SINK, 0, **{"handshake": "off", **fields})
    made = World(settings or WebhookSettings(), record)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def bodies_of(tickets: Sequence[Ticket]) -> list[str]:
    return [each.message.body.decode() for each in tickets]
