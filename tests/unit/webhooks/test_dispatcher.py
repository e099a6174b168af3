"""A dispatcher and the messages of a topic: none is done with before its feeds have it, keys keep their order, and an
odd message is set aside while the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.cesql.value import Value
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.position import LATEST_POSITION
from entrepot.domain.topic import Topic, TopicQueues
from entrepot.gateway.events.subscriptions.record import StateRecord, Subscription, SubscriptionRecord
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks import dispatcher as module
from entrepot.gateway.events.webhooks.dispatcher import RELEASE_MS, Dispatcher, Matching
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, bodies, message, pop, settled

SUBSCRIPTION = Subscription(SubscriptionRecord("s", "default", "t", "https://sink.example", 0, is_ordered=True))


class Wanting:
    """Everything is wanted by one subscription."""

    is_current = True

    async def renew(self) -> bool:
        return True

    def of(self, message: StoredMessage, attributes: dict[str, Value]) -> list[Subscription]:
        return [SUBSCRIPTION]


class FullFeeds(MemoryStore):
    """Refuses, as often as it is told to, what goes into feeds."""

    refusing = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.own = self.messages
        self.messages = replaced(self.own, append=self.append)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        if not self.refusing or messages[0].topic != SUBSCRIPTION.feed:
            return self.own.append(messages)
        self.refusing -= 1
        return Confirmation([EntrepotError(Code.STORAGE_FULL, "not now")] * len(messages)).settled_now()


class SlowBroker(MemoryStore):
    """Some of its queues had better be avoided."""

    slow: frozenset[int] = frozenset()

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.own = self.topology
        self.topology = replaced(self.own, queues=self.queues)

    def queues(self, topic: Topic) -> TopicQueues:
        found = self.own.queues(topic)
        return replace(found, preferred=[each for each in found.preferred if each not in self.slow])


class OddAppends(MemoryStore):
    """Fails to append any batch with one of these bodies for a feed."""

    odd: frozenset[bytes] = frozenset()

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.own = self.messages
        self.messages = replaced(self.own, append=self.append)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        for each in messages:
            if each.topic == SUBSCRIPTION.feed and each.body in self.odd:
                raise OverflowError(f"{each.body!r} is odd")
        return self.own.append(messages)


class Failing:
    """Filters that fail."""

    def matches(self, attributes: dict[str, Value]) -> bool:
        raise ZeroDivisionError("odd")


def dispatcher_on(store: MemoryStore, clock: Clock) -> Dispatcher:
    return Dispatcher(store, clock, "t", "dispatch", Wanting(), "type", Incidents(clock))  # type: ignore[arg-type]


async def test_a_message_that_its_feed_cannot_take_comes_again() -> None:
    clock = ManualClock()
    store = FullFeeds(clock)
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic(SUBSCRIPTION.feed, queues=1))
    await append(store, "t", "a", "b")
    dispatcher = dispatcher_on(store, clock)
    store.refusing = 3  # the batch, and each of the two by itself
    assert await dispatcher.step(0) == 2
    assert await pop(store, SUBSCRIPTION.feed) == []
    clock.advance(RELEASE_MS)
    assert await dispatcher.step(0) == 2
    assert bodies(await pop(store, SUBSCRIPTION.feed)) == ["a", "b"]
    await store.close()


async def test_a_message_keeps_its_end_its_origin_and_its_time_in_its_feed() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    for topic in ("t", SUBSCRIPTION.feed):
        await store.topology.put_topic(Topic(topic, queues=1))
    system = {SystemProperty.EXPIRES_AT_MS: clock.now_ms() + 5_000, SystemProperty.PROTOCOL: "mqtt"}
    given = message("t", "m", born_time_ms=clock.now_ms() - 7, qos=1, tag="a", system=system)
    await append(store, "t", "first")
    assert await settled(store.messages.append([given])) is None
    assert await dispatcher_on(store, clock).step(0) == 2
    found = (await pop(store, SUBSCRIPTION.feed))[1].message
    assert (found.born_time_ms, found.qos, found.tag, found.message_id) == (clock.now_ms() - 7, 1, "a", b"m")
    assert found.time_ms(SystemProperty.EXPIRES_AT_MS) == clock.now_ms() + 5_000
    assert (found.system_text(SystemProperty.PROTOCOL), found.system_text(SystemProperty.FED_FROM)) == ("mqtt", "0 1 t")
    await store.close()


async def test_a_key_keeps_its_queue_whatever_broker_is_slow() -> None:
    clock = ManualClock()
    store = SlowBroker(clock)
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic(SUBSCRIPTION.feed, queues=8))
    dispatcher = dispatcher_on(store, clock)
    for slow in (frozenset[int](), frozenset(range(4)), frozenset(range(4, 8))):
        store.slow = slow
        assert await settled(store.messages.append([message("t", "m", message_group="device")])) is None
        assert await dispatcher.step(0) == 1
    assert len({each.message.queue_id for each in await pop(store, SUBSCRIPTION.feed)}) == 1
    await store.close()


@cases("where", ["append", "matching"])
async def test_odd_messages_are_set_aside_and_the_others_go_on_in_order(where: str) -> None:
    rng = seeded(f"odd messages of a dispatcher {where}")
    names = [f"m{number:02}" for number in range(rng.randint(5, 40))]
    chosen = sorted(rng.sample(range(len(names)), rng.randint(1, 2)))
    odd = frozenset(names[number].encode() for number in chosen)
    clock = ManualClock()
    store = OddAppends(clock)
    for topic in ("t", SUBSCRIPTION.feed):
        await store.topology.put_topic(Topic(topic, queues=1))
    await append(store, "t", *names)
    dispatcher = dispatcher_on(store, clock)
    if where == "append":
        store.odd = odd
    else:
        wanted = dispatcher._matching.of

        def of(message: StoredMessage, attributes: dict[str, Value]) -> list[Subscription]:
            if message.body in odd:
                raise OverflowError(f"{message.body!r} is odd")
            return wanted(message, attributes)

        dispatcher._matching.of = of  # type: ignore[method-assign]
    assert await dispatcher.step(0) == len(names)
    assert bodies(await pop(store, SUBSCRIPTION.feed, count=100)) == [n for n in names if n.encode() not in odd]
    clock.advance(10 * RELEASE_MS)
    assert await dispatcher.step(0) == 0, "nothing is tried for ever"
    assert bodies(await pop(store, dead_letter_topic("dispatch"))) == [names[number] for number in chosen]
    incidents = dispatcher._incidents
    assert incidents.counts == {("webhook dispatch", Outcome.SET_ASIDE): len(odd)}
    assert [(each.place, each.reason) for each in incidents.last] == [
        (f"t/0@{number}", f"OverflowError: {names[number].encode()!r} is odd") for number in chosen
    ]
    await store.close()


async def test_an_odd_message_of_many_feeds_is_set_aside_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FEEDS", 1)
    clock = ManualClock()
    store = OddAppends(clock)
    store.odd = frozenset({b"odd"})
    other = Subscription(SubscriptionRecord("s2", "default", "t", "https://sink.example", 0))
    for topic in ("t", SUBSCRIPTION.feed, other.feed):
        await store.topology.put_topic(Topic(topic, queues=1))
    await append(store, "t", "a", "odd", "b")
    dispatcher = dispatcher_on(store, clock)
    dispatcher._matching.of = lambda message, attributes: [SUBSCRIPTION, other]  # type: ignore[method-assign]
    assert await dispatcher.step(0) == 3
    for feed in (SUBSCRIPTION.feed, other.feed):
        assert bodies(await pop(store, feed)) == ["a", "b"]
    assert dispatcher._incidents.counts == {("webhook dispatch", Outcome.SET_ASIDE): 1}
    await store.close()


async def test_while_the_store_refuses_all_nothing_is_set_aside() -> None:
    clock = ManualClock()
    store = FullFeeds(clock)
    for topic in ("t", SUBSCRIPTION.feed):
        await store.topology.put_topic(Topic(topic, queues=1))
    await append(store, "t", "a", "b")
    dispatcher = dispatcher_on(store, clock)

    asked: list[int] = []

    def away(messages: Sequence[Message]) -> Confirmation:
        asked.append(len(messages))
        raise EntrepotError(Code.UNAVAILABLE, "away")

    own, store.messages = store.messages, replaced(store.own, append=away)
    with pytest.raises(EntrepotError):
        await dispatcher.step(0)
    assert asked == [2], "none is tried alone"
    store.messages = own
    await dispatcher.leased.settle()
    assert await dispatcher.step(0) == 2, "they come again at once"
    assert bodies(await pop(store, SUBSCRIPTION.feed)) == ["a", "b"] and not dispatcher._incidents.counts
    await store.close()


async def test_a_filter_that_fails_passes_its_subscription_over() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.topology.put_topic(Topic("t", queues=1))
    subscriptions, incidents = Subscriptions(store, 10), Incidents(clock)
    await subscriptions.start()
    for name in ("bad", "good"):
        record = SubscriptionRecord(name, "default", "t", "https://sink.example", 0)
        await subscriptions.create(record, LATEST_POSITION)
    subscribed = subscriptions.by_topic["t"]

    def failing(attributes: dict[str, Value]) -> list[str]:
        raise ZeroDivisionError

    subscribed.index.match = failing  # type: ignore[assignment, method-assign]
    subscribed.subscriptions["default/bad"].filters = Failing()  # type: ignore[assignment]
    await append(store, "t", "a")
    [stored] = await store.messages.read("t", 0, 0, 1)
    found = Matching(subscriptions, incidents, "t", "g").of(stored, {})
    assert [each.id for each in found] == ["good"]
    [incident] = incidents.last
    assert (incident.part, incident.outcome) == ("webhook dispatch", Outcome.PASSED_OVER)
    assert (incident.place, incident.client) == ("t/0@0", "default/bad")
    subscriptions.close()
    await store.close()


async def test_a_suspended_subscription_is_matched_as_all_others_are() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    await store.topology.put_topic(Topic("t", queues=1))
    subscriptions = Subscriptions(store, 10)
    await subscriptions.start()
    record = SubscriptionRecord("s", "default", "t", "https://sink.example", 0)
    made = await subscriptions.create(record, LATEST_POSITION)
    assert await subscriptions.put_state(made, StateRecord(suspended="HTTP 410"))
    await append(store, "t", "a")
    [stored] = await store.messages.read("t", 0, 0, 1)
    assert [each.id for each in Matching(subscriptions, Incidents(clock), "t", "g").of(stored, {})] == ["s"]
    subscriptions.close()
    await store.close()
