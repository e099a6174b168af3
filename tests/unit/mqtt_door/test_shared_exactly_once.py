"""Messages of QoS 2 of a shared subscription are with one member, whenever it goes."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.protocols.mqtt.packets import Puback, Publish, Pubrec, Pubrel, Subscription, Unsuback, Unsubscribe
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

SHARE = Subscription("$share/g/t/#", 2)


async def publish(door: MqttDoor, payload: bytes) -> None:
    publisher = door.client()
    await publisher.connect("publisher", expiry=0)
    publisher.say(Publish("t/x", payload, 2, 1))
    await publisher.expect(Pubrec)
    publisher.lose()


async def member(door: MqttDoor, client_id: str, expiry: int) -> DoorClient:
    client = door.client()
    await client.connect(client_id, expiry=expiry)
    await client.subscribe(SHARE)
    return client


@pytest.mark.parametrize("unsubscribes", [False, True])
async def test_what_had_not_left_yet_goes_to_another_member_alone(unsubscribes: bool) -> None:
    """The member goes while the record that tells of the message is being written."""
    async with MqttDoor() as door:
        store = door.store
        first = await member(door, "first", 600)
        store.gate.clear()
        await publish(door, b"m")
        await until(lambda: store.waiting, "the record of the first member is being written")
        if unsubscribes:
            first.say(Unsubscribe(2, [SHARE.filter]))
        else:
            first.lose()
        second = await member(door, "second", 0)
        await until(second.deliveries, "the second member has it")
        store.gate.set()
        if unsubscribes:
            await first.expect(Unsuback)
        else:
            await until(lambda: door.mqtt.registry.of("first") is None, "the first connection is over")
        again = first
        if not unsubscribes:
            again = door.client()
            await again.connect("first")
        again.say(Publish("u", b"", 1, 9))
        await again.expect(Puback)
        assert [each.payload for each in second.deliveries()] == [b"m"]
        assert not again.deliveries(), "it is with the second member"


async def test_what_began_with_a_member_that_unsubscribes_ends_with_it() -> None:
    async with MqttDoor() as door:
        first = await member(door, "first", 0)
        await publish(door, b"m")
        delivered = await first.expect(Publish)
        first.say(Unsubscribe(2, [SHARE.filter]))
        await first.expect(Unsuback)
        second = await member(door, "second", 0)
        await publish(door, b"n")
        await until(second.deliveries, "the second member has the next one")
        first.say(Pubrec(delivered.packet_id))
        await first.expect(Pubrel)
        await asyncio.sleep(0)
        assert [each.payload for each in second.deliveries()] == [b"n"]
