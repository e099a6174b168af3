"""Expiry: messages of queues whose time is over, also before they were there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from entrepot.domain.clock import Clock
from entrepot.domain.delivery import Delivery
from entrepot.domain.ports import PopRequest
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.expiry import ARRIVAL_MS, SERVED_MS, Expiry
from entrepot.gateway.amqp.virtual_hosts.presence import ConsumerPresence
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.deaths import DeathReason
from entrepot.protocols.amqp.mapping import to_message
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import pop
from tests.support.waiting import until


class WallClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class CountingStore(MemoryStore):
    """Counts how often is looked for what is over."""

    looks = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.own = self.consumption
        self.consumption = replaced(self.own, pop=self.pop)

    async def pop(self, request: PopRequest) -> Sequence[Delivery]:
        self.looks += request.expired_only
        return await self.own.pop(request)


class Graves(DeadLetters):
    """What is buried, without a letter."""

    def __init__(self) -> None:
        self.buried: list[bytes] = []

    async def bury(self, queue: Queue, tickets: Sequence[Ticket], reason: DeathReason) -> None:
        assert reason is DeathReason.EXPIRED
        self.buried += [ticket.message.body for ticket in tickets]
        acknowledge_all(tickets)


async def test_a_message_that_comes_after_its_time_is_taken_out() -> None:
    clock, graves = WallClock(), Graves()
    store = CountingStore(clock)
    definitions = Definitions(store)
    await definitions.start()
    feeds = QueueFeeds(store, clock, lambda queue, tickets, since_ms: tickets)
    expiry = Expiry(store, definitions, feeds, graves, clock, member_named(store, clock))
    vhost = definitions.vhost("/")
    assert vhost is not None
    wanted = declared_queue("q", "/", durable=True, arguments={})
    queue, _ = await definitions.declare_queue(vhost, wanted, gateway="g", connection="", now_ms=1)
    await expiry.start()
    try:
        looked = store.looks
        now_ms = clock.now_ms()
        expiry.expect(vhost, queue, now_ms + 1)
        await until(lambda: store.looks > looked, "it was looked for it")
        publish = Publish("", "q", False, ContentHeader.of(expiration="1"), b"late")
        store.messages.append([to_message(publish, ((queue.topic, 0),), "", 0, now_ms)])
        await until(lambda: graves.buried == [b"late"], "it is taken out")
        assert ARRIVAL_MS >= 20_000, "a broker may be away for a while"
    finally:
        await expiry.close()
        await feeds.close()
        definitions.close()


async def test_a_consumer_that_waits_elsewhere_is_served_first() -> None:
    """A message that expires as it comes is left to it for a moment; a second look takes it out."""
    clock, graves = ManualClock(), Graves()
    store = MemoryStore(clock)
    definitions = Definitions(store)
    await definitions.start()
    feeds = QueueFeeds(store, clock, lambda queue, tickets, since_ms: tickets)
    expiry = Expiry(store, definitions, feeds, graves, clock, member_named(store, clock))
    expiry.presence = ConsumersElsewhere()
    vhost = definitions.vhost("/")
    assert vhost is not None
    wanted = declared_queue("q", "/", durable=True, arguments={"x-message-ttl": 0})
    queue, _ = await definitions.declare_queue(vhost, wanted, gateway="g", connection="", now_ms=1)
    publish = Publish("", "q", False, ContentHeader.of(), b"fresh")
    store.messages.append([to_message(publish, ((queue.topic, 0),), "", 0, clock.now_ms())])
    assert await expiry._take_out(queue) == clock.now_ms() + SERVED_MS
    await feeds.of(queue).leased.settle()
    [delivered] = await pop(store, queue.topic, queue.group)
    assert delivered.attempt == 1, "it was free for others, and no attempt counts"
    await store.consumption.change_invisible_duration(
        queue.topic, queue.group, [delivered], 0, release=True, suspend=True
    )
    clock.advance(SERVED_MS)
    await expiry._take_out(queue)
    assert graves.buried == [b"fresh"]
    await feeds.close()
    definitions.close()


class ConsumersElsewhere(ConsumerPresence):
    """One consumer of each queue, at another gateway."""

    def __init__(self) -> None: ...

    def elsewhere(self, queue: Queue) -> int:
        return 1


async def test_looks_for_delayed_messages_are_few_and_cut_the_queue() -> None:
    clock, graves, cut = ManualClock(), Graves(), list[str]()
    store = MemoryStore(clock)
    definitions = Definitions(store)
    await definitions.start()
    feeds = QueueFeeds(store, clock, lambda queue, tickets, since_ms: tickets)
    expiry = Expiry(store, definitions, feeds, graves, clock, member_named(store, clock))
    vhost = definitions.vhost("/")
    assert vhost is not None
    wanted = declared_queue("q", "/", durable=True, arguments={"x-max-length": 1})
    queue, _ = await definitions.declare_queue(vhost, wanted, gateway="g", connection="", now_ms=1)
    await expiry.start()
    try:
        expiry.cut = lambda queue: cut.append(queue.name)
        for number in range(10_000):
            expiry.expect_arrival(vhost, queue, clock.now_ms() + number * 360)
        assert 64 < len(expiry._delayed) < 1_000
        cut.clear()
        clock.advance(3_700_000)  # the last look may be late
        expiry._some.set()
        await until(lambda: cut, "it is looked at")
        assert not expiry._delayed
    finally:
        await expiry.close()
        await feeds.close()
        definitions.close()
