"""A topic that is deleted and made anew while clients read: they get all of the new one."""

from __future__ import annotations

import pytest

from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.fan_out.topic_numbers import TopicNumbers
from tests.support.clock import ManualClock
from tests.support.mqtt.hub_subscriber import QOS_1, HubSubscriber, follow
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.waiting import until

KEY = ("t", 0)
CLOCK = ManualClock()


async def append(store: MemoryStore, *bodies: str) -> None:
    messages = [Message("t", f"!{body}".encode(), "t", 0, 1) for body in bodies]
    await store.messages.append(messages).wait()


def bodies(first: int, count: int) -> list[str]:
    return [str(number) for number in range(first, first + count)]


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(CLOCK)
    await store.topology.put_topic(Topic("t", queues=1))
    return store


async def make_anew(store: MemoryStore) -> None:
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=1))


async def test_who_is_behind_in_the_old_one_gets_all_of_the_new_one(store: MemoryStore) -> None:
    hub, slow = await follow(store, CLOCK, room=3)
    await append(store, *bodies(0, 10))
    await until(lambda: slow.lagging, "it is behind")
    assert slow.lagging == {KEY: 3}
    await make_anew(store)
    await append(store, *bodies(100, 8))
    slow.room = 1 << 30
    hub.catch_up(slow)
    await until(lambda: len(slow.bodies) == 11, "it gets the new ones")
    assert slow.bodies == bodies(0, 3) + bodies(100, 8)


async def test_a_new_one_at_once_under_the_same_name(store: MemoryStore) -> None:
    """The gateway did not see that it was away: its number tells."""
    numbers = {"t": 1}
    store.topology = replaced(store.topology, made_at=lambda name, queue_id: numbers.get(name, 0))
    hub, reader = await follow(store, CLOCK)
    await append(store, *bodies(0, 5))
    await until(lambda: len(reader.bodies) == 5, "it follows")
    tail = hub._tails[KEY]
    hub._topic_changed("t")
    assert hub._tails[KEY] is tail, "the same one"
    numbers["t"] = 0
    hub._topic_changed("t")
    assert hub._tails[KEY] is tail, "its broker does not tell now"
    numbers["t"] = 2
    hub._topic_changed("t")
    assert hub._tails[KEY] is not tail


@pytest.mark.parametrize(("number", "expected"), [(0, [5, 6]), (1, [5, 6]), (2, list(range(7)))])
async def test_a_cursor_that_waits_for_its_queue(store: MemoryStore, number: int, expected: list[int]) -> None:
    """The queue's broker was not there when the session came back: its number tells later."""
    now = {"t": 0}
    store.topology = replaced(store.topology, made_at=lambda name, queue_id: now[name])
    await append(store, *bodies(0, 7))
    topic = store.topology.topic
    store.topology = replaced(store.topology, topic=lambda name: topic(name) if now["t"] else None, topics=list)
    hub, back = DeliveryHub(store, CLOCK, Incidents(CLOCK)), HubSubscriber()
    back.subscribe(hub, "t", QOS_1)
    hub.resume(back, ["t"], {KEY: 5}, number_of=lambda name, queue_id: number)
    now["t"] = 1
    hub._topic_changed("t")
    await until(lambda: len(back.offsets) == len(expected), "it reads on")
    assert back.offsets == expected


async def test_numbers_are_kept_for_who_is_behind_alone(store: MemoryStore) -> None:
    numbers, reader = TopicNumbers(store), HubSubscriber()
    reader.lagging, reader.resumed_at = {KEY: 3, ("u", 0): 4}, {KEY: 9}
    numbers.readers.add(reader)
    assert not numbers.follow(KEY) and not numbers.follow(("t", 1))
    number = store.topology.made_at(*KEY)
    assert (numbers.current(KEY, 7, number), numbers.current(KEY, 7, number + 1), numbers.current(KEY, 7, 0)) == (
        7,
        0,
        7,
    )
    numbers.gone("t")
    assert set(numbers._known) == {KEY}
    await make_anew(store)
    assert numbers.is_anew(KEY) and not numbers.is_anew(("t", 1))
    assert numbers.follow(KEY) and not numbers.is_anew(KEY)
    assert (reader.lagging, reader.resumed_at) == ({("u", 0): 4}, {})
    numbers.forget([KEY])
    assert numbers._known == {}
