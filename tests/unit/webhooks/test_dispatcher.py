"""A dispatcher and the messages of a topic: none is done with before its feeds have it, and keys keep their
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.cesql.value import Value
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.topic import Topic, TopicQueues
from entrepot.gateway.events.subscriptions.record import Subscription, SubscriptionRecord
from entrepot.gateway.events.webhooks.dispatcher import RELEASE_MS, Dispatcher
from entrepot.store_client.memory import MemoryStore
from tests.support.clock import ManualClock
from tests.support.replaced import replaced
from tests.support.store_steps import append, bodies, message, pop, settled

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


def dispatcher_on(store: MemoryStore, clock: Clock) -> Dispatcher:
    return Dispatcher(store, clock, "t", "dispatch", Wanting(), "type")  # type: ignore[arg-type]


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
