"""What waits for its turn behind a SUBSCRIBE, whose own turn has not come: nothing of it is lost, and it is bounded."""

from __future__ import annotations

from entrepot.gateway.mqtt.connections.ordering import MAX_LATER
from entrepot.protocols.mqtt.packets import Puback, Publish, Suback, Subscribe, Subscription
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

HELD = Publish("t/x", b"0", 1, 1, True)
"""Retained: it waits for the store, whose gate is shut, and the SUBSCRIBE behind it waits for that."""
SUBSCRIBE = Subscribe(2, [Subscription("t/x", 1)])


async def _listener(door: MqttDoor) -> DoorClient:
    listener = door.client()
    await listener.connect("listener", expiry=0)
    await listener.subscribe(Subscription("t/#", 0))
    return listener


def _payloads(client: DoorClient) -> list[bytes]:
    return [each.payload for each in client.deliveries()]


async def test_a_connection_that_is_lost_loses_nothing_it_sent() -> None:
    async with MqttDoor() as door:
        listener, client = await _listener(door), door.client()
        await client.connect("c", expiry=0)
        door.store.gate.clear()
        client.say(HELD, SUBSCRIBE, Publish("t/x", b"1", 1, 3))
        client.say(Publish("t/x", b"2", 1, 4))
        await until(lambda: door.store.waiting, "the first is to be kept")
        assert client.conversation.ordering is not None
        client.lose()
        await until(lambda: client.conversation.ordering is None, "nothing waits any more")
        door.store.gate.set()
        await until(lambda: len(listener.deliveries()) == 3, "all of it is stored")
        assert _payloads(listener) == [b"0", b"1", b"2"]


async def test_no_more_is_read_than_may_wait() -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        door.store.gate.clear()
        client.say(HELD, SUBSCRIBE)
        for number in range(MAX_LATER):
            assert not client.is_paused
            client.say(Publish("t/x", b"x", 1, number + 3))
        assert client.is_paused
        door.store.gate.set()
        await until(lambda: len([each for each in client.packets if isinstance(each, Puback)]) == MAX_LATER + 1, "told")
        assert not client.is_paused
        assert [type(each) for each in client.packets].count(Suback) == 1
        await until(lambda: len(client.deliveries()) == MAX_LATER + 1, "what is retained, and what came behind")
        assert [(each.payload, each.retain) for each in client.deliveries()] == [
            (b"0", True),
            *[(b"x", False)] * MAX_LATER,
        ]


async def test_what_it_does_not_match_passes_it() -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        door.store.gate.clear()
        client.say(HELD, Subscribe(2, [Subscription("other/+", 1)]))
        await client.expect(Suback)
        assert client.conversation.ordering is None
        door.store.gate.set()
        await client.expect(Puback)
