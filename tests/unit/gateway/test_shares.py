"""The shares of a gateway over a store that fails, with little credit, and under a random load."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Deliveries, Delivery, Receipt
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.passed_over import Untaken
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.member import MAX_HELD
from entrepot.gateway.mqtt.shares.share import KEEP_SECONDS
from entrepot.gateway.mqtt.shares.shares import Shares
from tests.support.clock import ManualClock
from tests.support.mqtt.share_member import KeepingMember
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, append_all, bodies, eventually, message, pop, settled
from tests.support.waiting import until


class FailingStore(MemoryStore):
    """Refuses what it is told to, by the name of the call, so many times."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.own = self.consumption
        self.consumption = replaced(
            self.own,
            pop=self.pop,
            acknowledge=self.acknowledge,
            change_invisible_duration=self.change_invisible_duration,
        )
        self.failures: dict[str, list[Code]] = {}
        self.calls: Counter[str] = Counter()
        self.pops: list[PopRequest] = []
        self.popping = 0
        self.when_popped: Callable[[], None] = lambda: None

    def _fail(self, call: str) -> None:
        self.calls[call] += 1
        if self.failures.get(call):
            raise EntrepotError(self.failures[call].pop(0), "it fails")

    async def pop(self, request: PopRequest) -> Deliveries:
        self.pops.append(request)
        self._fail("pop")
        self.popping += 1
        try:
            popped = await self.own.pop(request)
            await self._answered(request, popped)
        finally:
            self.popping -= 1
        self.when_popped()
        return popped

    async def _answered(self, request: PopRequest, popped: Sequence[Delivery]) -> None:
        """The answer is under way; what it brings is given back where nobody wants it any more."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            found = [delivery.receipt_handle for delivery in popped]
            await self.own.change_invisible_duration(request.topic, request.group, found, 0, release=True, suspend=True)
            raise

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> list[EntrepotError | None]:
        self._fail("acknowledge")
        return await self.own.acknowledge(topic, group, receipts, may_wait=may_wait)

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
        self._fail("release" if release else "renew")
        return await self.own.change_invisible_duration(
            topic, group, receipts, invisible_ms, release=release, suspend=suspend, reason=reason
        )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> FailingStore:
    store = FailingStore(clock)
    await store.topology.put_topic(Topic("t", queues=2))
    return store


def open_shares(store: MemoryStore, clock: ManualClock) -> Shares:
    return Shares(
        store, clock, lambda name: ConsumerGroup(name, max_attempts=100), lambda: {"mqtt"}, Traffic(), Incidents(clock)
    )


@pytest.fixture
async def shares(store: FailingStore, clock: ManualClock) -> AsyncIterator[Shares]:
    opened = open_shares(store, clock)
    yield opened
    store.consumption.release_waiting()
    await opened.close()


async def lag(store: MemoryStore, group: str = "w") -> int:
    return sum(each.lag for each in (await store.topology.group_status(group)).progress)


async def no_lag(store: MemoryStore) -> None:
    async def is_settled() -> bool:
        return await lag(store) == 0

    await eventually(is_settled)


# -- a store that fails --------------------------------------------------------------------------------------------


async def test_acknowledgements_of_one_tick_are_one_batch(store: FailingStore, shares: Shares):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", *(str(n) for n in range(50)))
    await until(lambda: len(member.held) == 50, "the messages")
    member.acknowledge()
    await no_lag(store)
    assert store.calls["acknowledge"] == 1
    assert member.flushes < 20


async def test_an_acknowledgement_that_fails_is_tried_again(store: FailingStore, shares: Shares):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", "1")
    await until(lambda: member.held, "the message")
    store.failures["acknowledge"] = [Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN]
    member.acknowledge()
    await no_lag(store)
    assert store.calls["acknowledge"] == 3


async def test_an_acknowledgement_is_given_up_when_the_lease_is_over(
    store: FailingStore, shares: Shares, clock: ManualClock
):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", "1")
    await until(lambda: member.held, "the message")
    store.failures["acknowledge"] = [Code.UNAVAILABLE] * 1000
    member.acknowledge()
    await until(lambda: store.calls["acknowledge"] == 2, "another try")
    clock.advance(31_000)
    await append(store, "t", "2")  # the store looks again
    await until(lambda: len(member.held) == 2, "the message again")
    tries = store.calls["acknowledge"]
    store.failures.clear()
    member.acknowledge()
    await no_lag(store)
    assert store.calls["acknowledge"] == tries + 1
    assert sorted((ticket.message.body, ticket.attempt) for ticket in member.taken) == [(b"1", 1), (b"1", 2), (b"2", 1)]


async def test_a_renewal_that_fails_is_tried_again(store: FailingStore, shares: Shares, clock: ManualClock):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", "1")
    await until(lambda: member.held, "the message")
    store.failures["renew"] = [Code.UNAVAILABLE, Code.REQUEST_TIMEOUT]
    clock.advance(10_000)
    await until(lambda: shares.renewed == 1, "the renewal")
    clock.advance(25_000)
    assert await pop(store, "t", "w") == []


async def test_pops_go_on_after_refusals(store: FailingStore, shares: Shares):
    store.failures["pop"] = [Code.UNAVAILABLE, Code.TOO_MANY_REQUESTS, Code.REQUEST_TIMEOUT]
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", "1")
    await until(lambda: member.held, "the message")


async def test_a_store_that_keeps_none_waiting_is_not_asked_all_the_time(store: FailingStore, shares: Shares):
    store.consumption.release_waiting()
    await shares.join("w", "t/#", KeepingMember())
    await until(lambda: len(store.pops) == 3, "some pops")
    for _ in range(1000):
        await asyncio.sleep(0)
    assert len(store.pops) == 3


async def test_a_topic_that_went_and_came_again_is_read(store: FailingStore, shares: Shares):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await append(store, "t", "1")
    await until(lambda: member.held, "the message")
    await store.topology.delete_topic("t")
    member.acknowledge()
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "2")
    await until(lambda: len(member.taken) == 2, "the message of the new topic")


# -- credit --------------------------------------------------------------------------------------------------------


async def test_no_more_is_popped_than_there_is_credit_for(store: FailingStore, shares: Shares):
    await append(store, "t", *(str(n) for n in range(40)))
    await store.topology.put_group(ConsumerGroup("w"))
    members = [KeepingMember(limit=3), KeepingMember(limit=2)]
    for member in members:
        await shares.join("w", "t/#", member)
    await until(lambda: sum(len(each.held) for each in members) == 5, "what there is credit for")
    status = await store.topology.group_status("w")
    assert sum(each.in_flight for each in status.progress) == 5


async def test_topics_do_not_use_the_same_credit(store: FailingStore, shares: Shares):
    await store.topology.put_group(ConsumerGroup(shares.group_name("w", "#")))
    for name in "uv":
        await store.topology.put_topic(Topic(name, queues=1))
    for name in "tuv":
        await append(store, name, *(f"{name}{n}" for n in range(10)))
    member = KeepingMember(limit=4)
    await shares.join("w", "#", member)
    for count in range(4, 31):
        await until(lambda count=count: len(member.taken) == count, "what there is credit for")
        status = await store.topology.group_status(shares.group_name("w", "#"))
        assert sum(each.in_flight for each in status.progress) == 4
        member.acknowledge(1)
        await until(lambda count=count: store.calls["acknowledge"] == count - 3, "the acknowledgement")
        shares.has_room("w", "#", member)


async def test_what_is_kept_of_a_message_group_goes_back_with_what_was_before_it(store: FailingStore, shares: Shares):
    """The first one's credit falls while a pop is under way."""
    await store.topology.put_group(ConsumerGroup("w", fifo=True))
    first, second = KeepingMember(limit=5), KeepingMember(limit=0)
    for member in (first, second):
        await shares.join("w", "t/#", member)
    store.when_popped = lambda: setattr(first, "limit", 2)
    sent = [replace(message("t", f"a{n}"), message_group="a") for n in range(5)]
    assert await append_all(store, *sent) == [None] * 5
    await until(lambda: len(first.held) == 2, "what there is credit for")
    assert (await store.topology.group_status("w")).progress[0].in_flight == 5
    second.limit = 10
    shares.leave("w", "t/#", first)
    shares.has_room("w", "t/#", second)
    while len(second.taken) < 5:
        await until(lambda: second.held, "another message")
        second.acknowledge()
        shares.has_room("w", "t/#", second)
    assert second.bodies == [f"a{n}" for n in range(5)]


async def test_a_member_of_endless_credit_holds_no_more_than_the_limit(store: FailingStore, shares: Shares):
    await store.topology.put_group(ConsumerGroup("w"))
    member = KeepingMember(limit=65_535)
    await append(store, "t", *(str(n) for n in range(MAX_HELD + 20)))
    await shares.join("w", "t/#", member)
    await until(lambda: len(member.held) == MAX_HELD, "its limit")
    status = await store.topology.group_status("w")
    assert sum(each.in_flight for each in status.progress) == MAX_HELD
    member.acknowledge(20)
    await until(lambda: len(member.taken) == MAX_HELD + 20, "the rest")


async def test_idle_topics_do_not_starve_a_busy_one(store: FailingStore, shares: Shares):
    for n in range(30):
        await store.topology.put_topic(Topic(f"idle{n}", queues=1))
    member = KeepingMember(limit=2)
    await shares.join("w", "#", member)
    await until(lambda: store.popping == 31, "all topics are asked")
    for count in range(0, 40, 2):
        await append(store, "t", str(count), str(count + 1))
        while len(member.taken) < count + 2 or member.held:
            await until(lambda: member.held, "more")
            member.acknowledge()
            shares.has_room("w", "#", member)
    assert len(member.taken) == 40


async def test_what_nobody_has_credit_for_is_given_back(store: FailingStore, shares: Shares):
    """Several topics wait with the same little credit, and all have a message at once."""
    for n in range(4):
        await store.topology.put_topic(Topic(f"u{n}", queues=1))
    member = KeepingMember(limit=1)
    await shares.join("w", "#", member)
    await until(lambda: store.popping == 5, "all topics are asked")
    confirmation = store.messages.append([message(f"u{n}", str(n)) for n in range(4)])
    assert await settled(confirmation) is None
    group = shares.group_name("w", "#")

    async def given_back() -> bool:
        return sum(each.in_flight for each in (await store.topology.group_status(group)).progress) == 1

    assert KEEP_SECONDS < 5
    await until(lambda: member.held, "one of them")
    await eventually(given_back)
    while len(member.taken) < 4:
        await until(lambda: member.held, "another of them")
        member.acknowledge()
        shares.has_room("w", "#", member)
    assert sorted(member.bodies) == ["0", "1", "2", "3"]


async def test_the_definition_of_the_named_group_is_that_of_its_filtered_ones(store: FailingStore, shares: Shares):
    await store.topology.put_group(ConsumerGroup("w", max_attempts=3, fifo=True, invisible_seconds=77))
    await shares.join("w", "t/+", KeepingMember())
    made = store.topology.group(shares.group_name("w", "t/+"))
    assert made is not None
    assert (made.max_attempts, made.fifo, made.invisible_seconds) == (3, True, 77)


async def test_what_is_handed_out_is_counted(store: FailingStore, clock: ManualClock):
    traffic = Traffic()
    shares = Shares(store, clock, ConsumerGroup, set, traffic, Incidents(clock))
    member = KeepingMember(quick=True)
    await shares.join("w", "t/#", member)
    await append(store, "t", "1", "22")
    await until(lambda: len(member.taken) == 2, "the messages")
    flow = traffic.outgoing["t", "w"]
    assert (flow.messages, flow.size, shares.delivered) == (2, 3, 2)
    store.consumption.release_waiting()
    await shares.close()


# -- a random load -------------------------------------------------------------------------------------------------


class WatchedMember(KeepingMember):
    """Tells a ledger who has which message."""

    def __init__(self, name: str, limit: int, holders: dict[str, str]) -> None:
        super().__init__(name, limit)
        self.holders = holders

    def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
        for ticket in tickets:
            body = ticket.message.body.decode()
            assert body not in self.holders, f"{body} is with {self.holders[body]} and {self.name}"
            self.holders[body] = self.name
        return super().take(tickets)


class RandomLoad:
    """Members of two gateways come, go, settle and release; messages are sent."""

    def __init__(self, store: FailingStore, gateways: list[Shares], random_: random.Random) -> None:
        self.store, self.gateways, self.random = store, gateways, random_
        self.holders: dict[str, str] = {}
        self.members: list[tuple[Shares, WatchedMember]] = []
        self.done: Counter[str] = Counter()
        self.sent: list[str] = []
        self.names = 0

    async def step(self) -> None:
        kind = self.random.choice(["send", "send", "join", "leave", "settle", "settle", "settle", "tick", "release"])
        if kind == "send":
            await self.send(self.random.randint(1, 12))
        elif kind == "join" and len(self.members) < 6:
            await self.join(self.random.randint(1, 9))
        elif kind == "leave" and self.members:
            self.leave(self.random.randrange(len(self.members)))
        elif kind == "settle" and self.members:
            gateway, member = self.random.choice(self.members)
            self.settle(gateway, member, self.random.randint(1, 6))
        elif kind == "release" and self.members:
            self.release(*self.random.choice(self.members))
        else:
            for _ in range(self.random.randint(1, 5)):
                await asyncio.sleep(0)

    async def send(self, count: int) -> None:
        names = [str(len(self.sent) + n) for n in range(count)]
        self.sent += names
        topics = [self.random.choice("tuv") for _ in names]
        sent = [replace(message(t, name), sub_topic=f"{t}/x") for t, name in zip(topics, names, strict=True)]
        assert await append_all(self.store, *sent) == [None] * count

    async def join(self, limit: int) -> None:
        self.names += 1
        member = WatchedMember(f"m{self.names}", limit, self.holders)
        gateway = self.random.choice(self.gateways)
        self.members.append((gateway, member))
        await gateway.join("w", "+/x", member)

    def leave(self, at: int) -> None:
        gateway, member = self.members.pop(at)
        for ticket in member.held:  # from now on others may have them
            del self.holders[ticket.message.body.decode()]
        gateway.leave("w", "+/x", member)

    def settle(self, gateway: Shares, member: WatchedMember, count: int) -> None:
        for ticket in member.acknowledge(count):
            body = ticket.message.body.decode()
            self.done[body] += 1
            del self.holders[body]
        gateway.has_room("w", "+/x", member)

    def release(self, gateway: Shares, member: WatchedMember) -> None:
        if member.held:
            ticket = member.held.pop(self.random.randrange(len(member.held)))
            del self.holders[ticket.message.body.decode()]
            ticket.release()
            gateway.has_room("w", "+/x", member)


@pytest.mark.parametrize("seed", range(6))
async def test_under_a_random_load_nothing_is_lost_and_nothing_is_with_two(
    store: FailingStore, clock: ManualClock, seed: int
):
    """The clock stands still: each delivery but the first is one that was given back."""
    print(f"seed {seed}")
    for name in "uv":
        await store.topology.put_topic(Topic(name, queues=2))
    gateways = [open_shares(store, clock), open_shares(store, clock)]
    load = RandomLoad(store, gateways, random.Random(seed))
    await load.join(5)
    for _ in range(600):
        await load.step()
    await load.join(50)

    def is_all_done() -> bool:
        for gateway, member in load.members:
            load.settle(gateway, member, 100)
        return len(load.done) == len(load.sent)

    await until(is_all_done, lambda: f"seed {seed}: {len(load.sent) - len(load.done)} messages are missing")
    assert set(load.done.values()) == {1}
    store.consumption.release_waiting()
    await asyncio.gather(*(gateway.close() for gateway in gateways))
    group = gateways[0].group_name("w", "+/x")
    for name in "tuv":
        assert bodies(await pop(store, name, group, count=100)) == []
    assert await lag(store, group) == 0
