"""Messages that are consumed, refused, given back and run out of time, in any order, against a model: each ends once,
acknowledged or as one dead letter whose `x-death` says why."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.amqp.virtual_hosts.counting import Counting
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.expiry import Expiry
from entrepot.gateway.amqp.virtual_hosts.queue_feeds import QueueFeeds
from entrepot.gateway.amqp.virtual_hosts.routing import Routing
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.deaths import deaths_of
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.model_store import MemoryStore
from tests.tiers.marks import scaled

TTL_MS = 1000
LEASE_MS = 10_000


class World:
    """One gateway's queues over a store whose time stands still."""

    async def open(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        topology = Topology(self.store, TopicsSettings())
        self.sender = Sender(self.store, topology, self.clock)
        self.definitions = Definitions(self.store)
        self.routing = Routing(self.store, Routes(self.store, topology, []), keeps_topics=False)
        self.tasks: set[asyncio.Task[None]] = set()
        self.dead_letters = DeadLetters(self.definitions, self.routing, self.sender, self.clock, self._spawn)
        self.feeds = QueueFeeds(self.store, self.clock, self.dead_letters.sort_out)
        self.expiry = Expiry(
            self.store,
            self.definitions,
            self.feeds,
            self.dead_letters,
            self.clock,
            member_named(self.store, self.clock),
        )
        await self.definitions.start()
        vhost = self.definitions.vhost("/")
        assert vhost is not None
        self.vhost: Vhost = vhost
        await self.definitions.declare_exchange(vhost, Exchange("dlx", ExchangeType.FANOUT), "g")
        self.queue = await self._declare("q", **{"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "dlx"})
        self.dead = await self._declare("dead")
        await self.definitions.bind(vhost, Binding("dlx", "dead", ""))

    async def _declare(self, name: str, **arguments: object) -> Queue:
        wanted = declared_queue(name, "/", durable=True, arguments=arguments)
        queue, _ = await self.definitions.declare_queue(
            self.vhost, wanted, gateway="g", connection="g/1", now_ms=self.clock.now_ms()
        )
        return queue

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        return task

    async def publish(self, number: int, expiration: int | None) -> None:
        header = ContentHeader.of(expiration=None if expiration is None else str(expiration))
        publish = Publish("", "q", False, header, b"%d" % number)
        message = self.routing.message(self.vhost, publish, ("q",), self.clock.now_ms())
        assert message is not None
        await self.sender.send_and_wait([message])

    async def look(self) -> None:
        await self.expiry._take_out(self.queue)

    async def get(self) -> Ticket | None:
        return await self.feeds.of(self.queue).get()

    async def end(self, ticket: Ticket, *, is_released: bool) -> None:
        if is_released:
            ticket.release()
        else:
            ticket.acknowledge()
        await self.settle()

    async def settle(self) -> None:
        if self.tasks:
            await asyncio.gather(*self.tasks)
            self.tasks.clear()
        await self.feeds.of(self.queue).leased.settle()

    async def dead_bodies(self) -> list[tuple[int, str]]:
        """Number and reason of every dead letter."""
        found = []
        for bounds in await self.store.messages.bounds(self.dead.topic):
            for message in await self.store.messages.read(self.dead.topic, bounds.queue_id, 0, 10_000):
                (death,) = deaths_of(ContentHeader(origin_of(message)[2]).headers or {})
                assert (death["queue"], death["count"]) == ("q", 1)
                found.append((int(message.body), str(death["reason"])))
        return found

    async def close(self) -> None:
        await self.settle()
        await self.feeds.close()
        self.definitions.close()


class DeadLetterMachine(RuleBasedStateMachine):
    """`ends`: of each message that is not over by an act, when its time is; `held`: tickets of consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.run(self.world.open())
        self.ends: dict[int, int] = {}
        self.held: dict[int, tuple[Ticket, int]] = {}
        self.acknowledged: set[int] = set()
        self.rejected: set[int] = set()
        self.count = 0

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        self.run(self.world.settle())

    @rule(expiration=st.sampled_from([None, 0, 300, 5000]))
    def publish(self, expiration: int | None) -> None:
        self.run(self.world.publish(self.count, expiration))
        lives = TTL_MS if expiration is None else min(TTL_MS, expiration)
        self.ends[self.count] = self.world.clock.now_ms() + lives
        self.count += 1

    @rule(ms=st.sampled_from([1, 299, 300, 700, 1000]))
    def pass_time(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule()
    def look(self) -> None:
        self.run(self.world.look())
        self.settle()

    @rule()
    def get(self) -> None:
        ticket = self.run(self.world.get())
        self.settle()
        if ticket is None:
            return
        number, now = int(ticket.message.body), self.world.clock.now_ms()
        assert number not in self.acknowledged | self.rejected
        assert self.ends[number] > now, "its time was over"
        self.held[number] = ticket, now + LEASE_MS

    def _one(self, choice: int) -> tuple[int, Ticket, bool]:
        number = sorted(self.held)[choice % len(self.held)]
        ticket, until = self.held.pop(number)
        return number, ticket, until > self.world.clock.now_ms()

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 9))
    def acknowledge(self, choice: int) -> None:
        number, ticket, is_ours = self._one(choice)
        self.run(self.world.end(ticket, is_released=False))
        if is_ours:
            self.acknowledged.add(number)

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 9))
    def reject(self, choice: int) -> None:
        number, ticket, is_ours = self._one(choice)
        if is_ours:
            self.run(self.world.dead_letters.reject([(self.world.queue, ticket)]))
            self.settle()
            self.rejected.add(number)

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 9))
    def release(self, choice: int) -> None:
        _, ticket, _ = self._one(choice)
        self.run(self.world.end(ticket, is_released=True))

    @invariant()
    def each_ends_once(self) -> None:
        dead = self.run(self.world.dead_bodies())
        assert max(Counter(number for number, _ in dead).values(), default=1) == 1, dead
        for number, reason in dead:
            assert number not in self.acknowledged
            assert (reason == "rejected") == (number in self.rejected)
            if reason == "expired":
                assert self.ends[number] <= self.world.clock.now_ms()
        assert self.rejected <= {number for number, _ in dead}

    def teardown(self) -> None:
        """When all time is over nothing is left: what was not acknowledged is dead."""
        for ticket, _ in self.held.values():
            self.run(self.world.end(ticket, is_released=True))
        self.world.clock.advance(LEASE_MS + 10_000)
        self.look()
        self.each_ends_once()
        dead = {number for number, _ in self.run(self.world.dead_bodies())}
        assert dead | self.acknowledged == set(range(self.count))
        assert self.run(Counting(self.world.store).counts(self.world.queue)) == (0, 0)
        self.run(self.world.close())
        self.loop.close()


TestDeadLetters = DeadLetterMachine.TestCase
TestDeadLetters.settings = settings(stateful_step_count=scaled(30, 50))
