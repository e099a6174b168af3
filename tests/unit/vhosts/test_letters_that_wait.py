"""Dead letters that the store cannot take now: the message is neither lost nor anybody else's until it can."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import entrepot.gateway.amqp.virtual_hosts.dead_letters as module
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.deaths import DeathReason
from entrepot.protocols.amqp.mapping import to_message
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append_all, bodies, pop
from tests.support.waiting import until


class FailingStore(MemoryStore):
    """Fails so many appends of dead letters: each message by itself, or the batch."""

    failing = 0
    code = Code.UNAVAILABLE
    is_whole = False

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.own = self.messages
        self.messages = replaced(self.own, append=self.append)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        if not self.failing or not messages:
            return self.own.append(messages)
        self.failing -= 1
        refusal = EntrepotError(self.code, "not now")
        if self.is_whole:
            raise refusal
        return Confirmation([refusal] * len(messages)).settled_now()


@cases("is_whole", [False, True])
@cases("code", [Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN, Code.STORAGE_FULL])
async def test_a_letter_that_is_refused_now_is_published_later(
    monkeypatch: pytest.MonkeyPatch, code: Code, is_whole: bool
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    clock = ManualClock()
    store = FailingStore(clock)
    definitions = Definitions(store)
    await definitions.start()
    vhost = definitions.vhost("/")
    assert vhost is not None
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queue, _ = await definitions.declare_queue(
        vhost, declared_queue("q", "/", durable=True, arguments=arguments), gateway="g", connection="", now_ms=1
    )
    dead, _ = await definitions.declare_queue(
        vhost, declared_queue("dead", "/", durable=True, arguments={}), gateway="g", connection="", now_ms=1
    )
    feeds = QueueFeeds(store, clock, lambda queue, tickets, since_ms: tickets)
    spawned: list[asyncio.Task[None]] = []

    def spawn(work: Any) -> asyncio.Task[None]:
        spawned.append(asyncio.ensure_future(work))
        return spawned[-1]

    topology = Topology(store, TopicsSettings())
    routing = Routing(store, Routes(store, topology, []), keeps_topics=False)
    sender = Sender(store, topology, clock)
    letters = DeadLetters(definitions, routing, sender, clock, spawn)
    publish = Publish("", "q", False, ContentHeader.of(), b"m")
    await append_all(store, to_message(publish, ((queue.topic, 0),), "", 0, clock.now_ms()))
    feed = feeds.of(queue)
    tickets = await feed.leased.ask(PopRequest(queue.topic, queue.group, 1, 0, 10_000))
    store.failing, store.code, store.is_whole = 3, code, is_whole
    await letters.bury(queue, tickets, DeathReason.REJECTED)
    assert tickets[0].is_open and letters.count == 0, "it is still in its queue"
    await until(lambda: letters.count == 1, "the letter was published")
    await asyncio.gather(*spawned)
    assert not tickets[0].is_open
    assert bodies(await pop(store, dead.topic, dead.group)) == ["m"]
    await feeds.close()
    definitions.close()
