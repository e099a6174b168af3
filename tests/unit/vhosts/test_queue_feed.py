"""Who is handed what of a queue: in turn, by priority, within credit, and nothing that nobody has credit for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup, GroupStatus
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.names import queue_feed
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.amqp.feeds.queue_feed import QueueFeed
from entrepot.gateway.amqp.feeds.waiting import HALF_LIFE_MS
from entrepot.gateway.messaging.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append_all, bodies, handles, pop
from tests.support.waiting import until

TOPIC = queue_feed("default", "q")


class Together:
    """The room of a channel."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.takers: list[Taker] = []

    @property
    def room(self) -> int:
        return self.limit - sum(taker.held for taker in self.takers)

    def taker(self, credit: int) -> Taker:
        """One more consumer of the channel."""
        taker = Taker(credit)
        taker.shared_room = self
        self.takers.append(taker)
        return taker


class Taker:
    """A consumer that keeps what it is handed."""

    def __init__(self, credit: int, priority: int = 0) -> None:
        self.limit, self.priority, self.exclusive, self.since_ms = credit, priority, False, 0
        self.tickets: list[Ticket] = []

    @property
    def credit(self) -> int:
        return self.limit - sum(ticket.is_open for ticket in self.tickets)

    @property
    def held(self) -> int:
        return sum(ticket.is_open for ticket in self.tickets)

    is_narrow = False
    shared_room: Together | None = None

    def can_take(self, ticket: Ticket) -> bool:
        return True

    def take(self, tickets: Sequence[Ticket]) -> None:
        assert len(tickets) <= self.credit
        self.tickets += tickets

    def queue_gone(self) -> None:
        raise AssertionError("it is there")

    @property
    def bodies(self) -> list[str]:
        return [ticket.message.body.decode() for ticket in self.tickets]


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(ManualClock())
    await store.topology.put_topic(Topic(TOPIC, 1))
    await store.topology.put_group(ConsumerGroup("q", max_attempts=UNLIMITED_ATTEMPTS))
    return store


@pytest.fixture
async def feed(store: MemoryStore) -> AsyncIterator[QueueFeed]:
    feed = QueueFeed(store, ManualClock(), TOPIC, "q", lambda tickets, since_ms: tickets, lambda feed: None)
    yield feed
    await feed.close()


async def put(store: MemoryStore, *names: str) -> None:
    assert set(await append_all(store, *(Message(TOPIC, name.encode(), queue_id=0) for name in names))) == {None}


async def test_in_turn_and_within_credit(store: MemoryStore, feed: QueueFeed) -> None:
    await put(store, *"abcdefgh")
    one, two = Taker(3), Taker(2)
    feed.add(one)
    feed.add(two)
    await until(lambda: len(one.tickets) + len(two.tickets) == 5, "all credit is used")
    assert sorted(one.bodies + two.bodies) == list("abcde")
    assert one.bodies == sorted(one.bodies)
    one.tickets[0].acknowledge()
    feed.look()
    await until(lambda: len(one.tickets) == 4, "there is credit again")
    assert one.bodies[-1] == "f"


async def test_the_highest_priority_first(store: MemoryStore, feed: QueueFeed) -> None:
    low, high = Taker(10), Taker(2, priority=5)
    feed.add(low)
    feed.add(high)
    await put(store, *"abcd")
    await until(lambda: len(low.tickets) + len(high.tickets) == 4, "all are handed out")
    assert (high.bodies, low.bodies) == (["a", "b"], ["c", "d"])


async def test_only_the_first_of_a_single_active_consumer(store: MemoryStore, feed: QueueFeed) -> None:
    feed.is_single = True
    first, second = Taker(2), Taker(2)
    feed.add(first)
    feed.add(second)
    await put(store, *"abcd")
    await until(lambda: len(first.tickets) == 2, "the first has its credit")
    assert second.tickets == []
    for ticket in first.tickets:
        ticket.release()
    feed.remove(first)
    await until(lambda: len(second.tickets) == 2, "the next one's turn")
    assert second.bodies == ["a", "b"]


@pytest.mark.parametrize("credit", [3, 100])
@pytest.mark.parametrize("kind", ["single active", "exclusive", "any"])
async def test_what_the_one_before_held_comes_before_anything_newer(
    store: MemoryStore, feed: QueueFeed, kind: str, credit: int
) -> None:
    """As a channel ends: the consumer goes first, then what it held goes back."""
    feed.is_single = kind == "single active"
    await put(store, *"abcdefgh")
    first, second = Taker(credit), Taker(100)
    first.exclusive = second.exclusive = kind == "exclusive"
    feed.add(first)
    await until(lambda: len(first.tickets) == min(credit, 8), "the first has its credit")
    feed.remove(first)
    feed.add(second)
    for ticket in first.tickets:
        ticket.release()
    await put(store, "i")
    await until(lambda: len(second.tickets) == 9, "all are the second one's")
    assert second.bodies == list("abcdefghi")


async def test_an_only_consumer_waits_for_what_is_held_elsewhere(store: MemoryStore, feed: QueueFeed) -> None:
    await put(store, *"abc")
    elsewhere = await pop(store, TOPIC, "q", 2)
    feed.is_single = True
    taker = Taker(10)
    feed.add(taker)
    looks = 0
    status = store.topology.group_status

    async def counted(name: str) -> GroupStatus:
        nonlocal looks
        looks += 1
        return await status(name)

    store.topology.group_status = counted  # type: ignore[method-assign]
    await until(lambda: looks > 1, "it has looked for more than once")
    assert taker.tickets == []
    await store.consumption.change_invisible_duration(TOPIC, "q", handles(elsewhere), 0, release=True)
    await until(lambda: len(taker.tickets) == 3, "everything has come")
    assert taker.bodies == list("abc")


def losing_an_answer(store: MemoryStore) -> list[Delivery]:
    """Have the next pop that finds something claim it, and its answer lost; what it claimed is in the list then."""
    own, claimed = store.consumption, list[Delivery]()

    async def pop_once(request: PopRequest) -> Sequence[Delivery]:
        found = await own.pop(request)
        if claimed:
            return found
        claimed.extend(found)
        raise EntrepotError(Code.OUTCOME_UNKNOWN, "the connection was lost before pop was answered")

    store.consumption = replaced(own, pop=pop_once)
    return claimed


async def test_a_get_whose_answer_is_lost_asks_once_more(store: MemoryStore, feed: QueueFeed) -> None:
    claimed = losing_an_answer(store)
    await put(store, *"ab")
    found = await feed.get()
    assert found is not None and found.message.body == b"b" and bodies(claimed) == ["a"]
    await store.consumption.change_invisible_duration(TOPIC, "q", handles(claimed), 0, release=True)
    again = await feed.get()
    assert again is not None and again.message.body == b"a"


async def test_a_get_whose_answer_is_lost_with_the_last_message_says_so(store: MemoryStore, feed: QueueFeed) -> None:
    losing_an_answer(store)
    await put(store, "a")
    with pytest.raises(EntrepotError) as refused:
        await feed.get()
    assert refused.value.code is Code.OUTCOME_UNKNOWN


async def test_a_get_of_an_empty_queue_whose_answer_is_lost_says_that_it_is_empty(
    store: MemoryStore, feed: QueueFeed
) -> None:
    own, asked = store.consumption, 0

    async def pop(request: PopRequest) -> Sequence[Delivery]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise EntrepotError(Code.OUTCOME_UNKNOWN, "the connection was lost before pop was answered")
        return await own.pop(request)

    store.consumption = replaced(own, pop=pop)
    assert await feed.get() is None and asked == 2


@pytest.mark.parametrize("kind", ["single active", "exclusive"])
async def test_an_only_consumer_waits_for_what_a_lost_answer_has_claimed(
    store: MemoryStore, feed: QueueFeed, kind: str
) -> None:
    """As when a broker dies between its claim and its answer."""
    own, looks = store.consumption, 0
    claimed = losing_an_answer(store)
    status = store.topology.group_status

    async def counted(name: str) -> GroupStatus:
        nonlocal looks
        looks += 1
        return await status(name)

    await put(store, *"abc")
    store.topology.group_status = counted  # type: ignore[method-assign]
    feed.is_single, taker = kind == "single active", Taker(2)
    taker.exclusive = kind == "exclusive"
    feed.add(taker)
    await until(lambda: claimed, "the answer is lost")
    before = looks
    await until(lambda: looks > before + 1, "it has looked for more than once")
    assert taker.tickets == []
    await own.change_invisible_duration(TOPIC, "q", handles(claimed), 0, release=True)
    await until(lambda: len(taker.tickets) == 2, "what was claimed comes")
    assert taker.bodies == ["a", "b"]


async def test_who_waits_takes_nothing_along_when_it_goes(store: MemoryStore, feed: QueueFeed) -> None:
    taker = Taker(5)
    feed.add(taker)
    await asyncio.sleep(0)
    feed.remove(taker)
    await until(lambda: feed._pop is None, "nothing is waited for")
    await put(store, "a")
    assert [(each.message.body, each.attempt) for each in await pop(store, TOPIC, "q")] == [(b"a", 1)]


async def test_who_comes_and_goes_in_one_moment_holds_up_nobody(store: MemoryStore, feed: QueueFeed) -> None:
    for _ in range(3):
        taker = Taker(5)
        feed.add(taker)
        feed.remove(taker)
    await put(store, "a")
    feed.add(taker)
    await until(lambda: taker.tickets, "it is handed out")


async def test_what_is_sorted_out_is_handed_to_nobody(store: MemoryStore) -> None:
    def sort_out(tickets: list[Ticket], since_ms: int | None) -> list[Ticket]:
        for ticket in tickets:
            if ticket.message.body == b"b":
                ticket.acknowledge()
        return [ticket for ticket in tickets if ticket.is_open]

    feed = QueueFeed(store, ManualClock(), TOPIC, "q", sort_out, lambda feed: None)
    await put(store, *"bab")
    ticket = await feed.get()
    assert ticket is not None and ticket.message.body == b"a"
    assert await feed.get() is None
    await feed.close()


async def test_what_is_given_back_has_its_place(store: MemoryStore, feed: QueueFeed) -> None:
    await put(store, *"abc")
    taker = Taker(2)
    feed.add(taker)
    await until(lambda: len(taker.tickets) == 2, "two are handed out")
    feed.remove(taker)
    for ticket in reversed(taker.tickets):
        ticket.release()
    await feed.leased.settle()
    assert bodies(await pop(store, TOPIC, "q")) == ["a", "b", "c"]


async def test_a_feed_is_kept_while_something_is_got_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that was got of a feed that is gone has a lease that nobody renews."""
    monkeypatch.setattr("entrepot.gateway.amqp.feeds.queue_feed.IDLE_SECONDS", 0)
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    store = MemoryStore(ManualClock())
    own = store.consumption

    async def pop_slowly(request: PopRequest) -> Sequence[Delivery]:
        await answer
        return await own.pop(request)

    store.consumption = replaced(own, pop=pop_slowly)
    await store.topology.put_topic(Topic(TOPIC, 1))
    await store.topology.put_group(ConsumerGroup("q", max_attempts=UNLIMITED_ATTEMPTS))
    await append_all(store, Message(TOPIC, b"m", queue_id=0))
    idle: list[QueueFeed] = []
    feed = QueueFeed(store, ManualClock(), TOPIC, "q", lambda tickets, since_ms: tickets, idle.append)
    getting = asyncio.create_task(feed.get())
    await until(lambda: feed._idling is None, "it has been looked whether it is idle")
    answer.set_result(None)
    ticket = await getting
    await until(lambda: feed._idling is None, "and again")
    assert ticket is not None and not idle
    ticket.acknowledge()
    await until(lambda: idle, "it is idle now")
    await feed.close()


async def test_a_feed_whose_last_consumer_leaves_without_a_pop_is_idle(store: MemoryStore) -> None:
    idle: list[QueueFeed] = []
    feed = QueueFeed(store, ManualClock(), TOPIC, "q", lambda tickets, since_ms: tickets, idle.append)
    consumer = Taker(0)
    feed.add(consumer)
    await until(lambda: feed._idling is None, "it has been looked whether it is idle")
    assert not idle
    feed.remove(consumer)
    await until(lambda: idle == [feed], "it is idle now")
    await feed.close()


async def test_consumers_of_one_channel_share_its_room(store: MemoryStore, feed: QueueFeed) -> None:
    channel, alone = Together(5), Taker(2)
    takers = [channel.taker(4), channel.taker(4), alone]
    for taker in takers:
        feed.add(taker)
    await put(store, *map(str, range(40)))
    await until(lambda: sum(taker.held for taker in takers) == 7, "all have what they may")
    assert [alone.held, channel.room] == [2, 0]
    assert min(taker.held for taker in channel.takers) == 2, "in turn"
    channel.takers[0].tickets[0].acknowledge()
    feed.look()
    await until(lambda: channel.room == 0, "one more")


async def test_consumers_below_others_elsewhere_wait(store: MemoryStore, feed: QueueFeed) -> None:
    low, high = Taker(9), Taker(1, priority=10)
    feed.add(low)
    feed.add(high)
    feed.yield_below(10)
    await put(store, "1", "2", "3")
    await until(lambda: high.bodies == ["1"], "the higher one has what it can take")
    assert low.bodies == []
    feed.yield_below(None)
    await until(lambda: low.bodies == ["2", "3"], "the others are busy")


async def test_a_wait_is_told_where_it_matters(store: MemoryStore, feed: QueueFeed) -> None:
    told: list[int | None] = []
    taker = Taker(9, priority=10)
    feed.add(taker)
    feed.add(Taker(9))
    feed.hungry_for(told.append)
    await until(lambda: told == [10], "the pop waits")
    feed.hungry_for(told.append)
    feed.hungry_for(None)
    await put(store, "1")
    await until(lambda: taker.bodies == ["1"], "it is there")
    assert told == [10]


async def test_who_waits_is_told_since_when(store: MemoryStore) -> None:
    clock = ManualClock()
    waited: list[int | None] = []

    def sort_out(tickets: list[Ticket], since_ms: int | None) -> list[Ticket]:
        waited.extend([since_ms] * len(tickets))
        return tickets

    feed = QueueFeed(store, clock, TOPIC, "q", sort_out, lambda feed: None)
    taker, began = Taker(2), clock.now_ms()
    feed.add(taker)
    await until(lambda: feed.is_waiting, "it waits")
    clock.advance(1)
    await put(store, "a")
    await until(lambda: len(taker.tickets) == 1, "it has credit left")
    clock.advance(1)
    await put(store, "b")
    await until(lambda: len(taker.tickets) == 2 and not feed.is_waiting, "it has no credit left")
    clock.advance(1)
    await put(store, "c")
    clock.advance(1)
    again = clock.now_ms()
    taker.tickets[0].acknowledge()
    feed.look()
    await until(lambda: len(taker.tickets) == 3, "it has credit again")
    assert waited == [began, began, again]
    taker.tickets[1].release()
    taker.tickets[2].acknowledge()
    assert await feed.get() is not None
    assert waited == [began, began, again, None], "basic.get does not wait"
    await feed.close()


async def test_messages_that_wait_for_credit_lower_the_capacity() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.topology.put_topic(Topic(TOPIC, 1))
    await store.topology.put_group(ConsumerGroup("q", max_attempts=UNLIMITED_ATTEMPTS))
    feed = QueueFeed(store, clock, TOPIC, "q", lambda tickets, since_ms: tickets, lambda feed: None)
    taker = Taker(1)
    feed.add(taker)
    await put(store, "a")
    await until(lambda: len(taker.tickets) == 1 and not feed.is_waiting, "its credit is used up")
    clock.advance(HALF_LIFE_MS)
    assert feed.waiting.capacity.share(clock.now_ms(), is_ready=False) == 1, "nothing waits"
    await put(store, "b")
    clock.advance(HALF_LIFE_MS)
    taker.tickets[0].acknowledge()
    feed.look()
    await until(lambda: len(taker.tickets) == 2, "it has credit again")
    assert feed.waiting.capacity.share(clock.now_ms(), is_ready=False) == pytest.approx(0.625), (
        "b waited for half of it"
    )
    await feed.close()
