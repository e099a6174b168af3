"""The retained message of a name reaches a new subscription before newer live ones, however long it is being read."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.mqtt.packets import Puback, Publish, Subscribe, Subscription, Unsubscribe
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

MOST = 1000
"""Messages that wait for a client, by default."""


async def keep(door: MqttDoor, *names: str) -> DoorClient:
    """A publisher that has published a retained message of each name."""
    publisher = door.client()
    await publisher.connect("publisher", expiry=0)
    publisher.say(*(Publish(name, b"old", 0, 0, True) for name in names))
    await until(lambda: door.retained.count == len(names), "all is retained")
    return publisher


async def tell(publisher: DoorClient, name: str, payload: bytes, *, retain: bool = False) -> None:
    publisher.say(Publish(name, payload, 1, 1, retain))
    await publisher.expect(Puback)


async def being_read(door: MqttDoor, client: DoorClient, *subscriptions: Subscription) -> None:
    """The client has subscribed, and its retained messages are being read."""
    door.store.reading.clear()
    before = door.store.read
    await client.subscribe(*subscriptions)
    await until(lambda: door.store.read > before, "they are being read")


def got(client: DoorClient) -> list[tuple[str, bytes, bool]]:
    return [(each.topic, each.payload, each.retain) for each in client.deliveries()]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(("version", "expiry"), [(5, 0), (5, 600), (4, 0)])
@pytest.mark.parametrize("retain", [False, True])
async def test_the_older_one_comes_first(version: int, expiry: int, qos: int, retain: bool) -> None:
    async with MqttDoor() as door:
        publisher, client = await keep(door, "r/x"), door.client(version)
        await client.connect("c", expiry=expiry, clean=version == 4)
        await being_read(door, client, Subscription("r/#", qos))
        # a retained one is acknowledged once the log's last one is known to be kept, which is read, too
        publisher.say(Publish("r/x", b"new", 1, 1, retain))
        await until(lambda: client.conversation.outbox.waiting == 1, "it is live")
        publisher.say(Publish("r/y", b"other", 1, 2))
        await until(lambda: client.conversation.outbox.waiting == 2, "both are live")
        assert got(client) == []
        door.store.reading.set()
        for _ in range(2):
            await publisher.expect(Puback)
        await until(lambda: len(got(client)) == 3, "all has come")
        first = b"new" if retain else b"old"  # it was kept before it was live
        assert got(client) == [("r/x", first, True), ("r/x", b"new", False), ("r/y", b"other", False)]
        assert not client.conversation.outbox.has_backlog
        await tell(publisher, "r/x", b"newest")
        await until(lambda: len(got(client)) == 4, "nothing waits from then on")


async def test_also_behind_many_others() -> None:
    """They are read and sent in batches; what is live waits for the last of them."""
    names = [f"r/{number:03}" for number in range(200)]
    async with MqttDoor() as door:
        publisher, client = await keep(door, *names), door.client()
        await client.connect("c", expiry=0)
        await being_read(door, client, Subscription("r/#", 1))
        for name in names:
            await tell(publisher, name, b"new")
        door.store.reading.set()
        await until(lambda: len(got(client)) == 400, "all has come")
        assert {payload for _, payload, _ in got(client)[:200]} == {b"old"}
        assert sorted(got(client)[200:]) == [(name, b"new", False) for name in names]


async def test_also_of_a_second_subscribe_while_the_first_is_served() -> None:
    """The second is not answered yet when the first has been served: what is live waits on."""
    async with MqttDoor() as door:
        publisher, client = await keep(door, "a", "b"), door.client()
        await client.connect("c")
        await being_read(door, client, Subscription("a", 0))
        door.store.gate.clear()
        client.say(Subscribe(2, [Subscription("b", 0)]))
        await until(lambda: door.store.waiting, "the second is being written")
        door.store.reading.set()
        await until(lambda: client.conversation.subscribing.retained._wanted is None, "the first is served")
        await tell(publisher, "b", b"new")
        await tell(publisher, "a", b"new")
        assert not [each for each in got(client) if each[0] == "b"]
        door.store.gate.set()
        await until(lambda: len(got(client)) == 4, "all has come")
        assert got(client) == [("a", b"old", True), ("b", b"old", True), ("b", b"new", False), ("a", b"new", False)]


@pytest.mark.parametrize("qos", [0, 1])
async def test_none_is_lost_where_more_come_than_may_wait(qos: int) -> None:
    """Beyond the limit they go on: out of order with retained messages, but in that of their publishing."""
    count = MOST + (300 if qos == 0 else 20)  # no more than may be unacknowledged
    async with MqttDoor() as door:
        publisher, client = await keep(door, "r/x"), door.client()
        await client.connect("c", expiry=0)
        await being_read(door, client, Subscription("r/#", qos))
        for number in range(count):
            publisher.say(Publish("r/y", b"%d" % number, qos, 1))
        await until(lambda: len(got(client)) >= count, "they go on")
        door.store.reading.set()
        await until(lambda: ("r/x", b"old", True) in got(client), "then it comes")
        assert [payload for name, payload, _ in got(client) if name == "r/y"] == [b"%d" % n for n in range(count)]
        assert client.conversation.client.dropped == 0
        await until(lambda: not client.conversation.outbox.has_backlog, "nothing waits any more")


@pytest.mark.parametrize("how", ["unsubscribed", "fails"])
async def test_live_ones_go_on_where_no_retained_come(how: str) -> None:
    async with MqttDoor() as door:
        publisher, client = await keep(door, "r/x", "r/y"), door.client()
        await client.connect("c", expiry=0)
        await client.subscribe(Subscription("l/#", 1))
        await being_read(door, client, Subscription("r/#", 1))
        await tell(publisher, "l/x", b"live")
        if how == "unsubscribed":
            client.say(Unsubscribe(3, ["r/#"]))
        else:
            door.store.failure = EntrepotError(Code.UNAVAILABLE, "it is away")
        assert got(client) == []
        door.store.reading.set()
        await until(lambda: ("l/x", b"live", False) in got(client), "it goes on")
        await until(lambda: not client.conversation.outbox.has_backlog, "nothing waits any more")


async def test_a_lasting_session_loses_none_of_those_that_waited() -> None:
    async with MqttDoor() as door:
        publisher, client = await keep(door, "r/x"), door.client()
        await client.connect("c")
        await being_read(door, client, Subscription("r/#", 1))
        await tell(publisher, "r/x", b"1")
        await tell(publisher, "r/x", b"2")
        assert client.conversation.outbox.waiting == 2
        client.lose()
        door.store.reading.set()
        again = door.client()
        assert (await again.connect("c")).session_present
        await until(lambda: len(got(again)) == 2, "they come")
        assert got(again) == [("r/x", b"1", False), ("r/x", b"2", False)]


async def test_a_member_of_a_share_does_not_wait() -> None:
    async with MqttDoor() as door:
        publisher, client = await keep(door, "r/x"), door.client()
        await client.connect("c", expiry=0)
        await client.subscribe(Subscription("$share/g/s/#", 1))
        await being_read(door, client, Subscription("r/#", 1))
        await tell(publisher, "s/x", b"shared")
        await until(lambda: got(client) == [("s/x", b"shared", False)], "it comes")
        await asyncio.sleep(0)
        door.store.reading.set()
        await until(lambda: len(got(client)) == 2, "and the retained one")
