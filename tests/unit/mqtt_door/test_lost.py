"""A connection is lost at a bad moment: the client can come back, and nothing of it stays."""

from __future__ import annotations

import asyncio

from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Publish, Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


async def test_while_its_connect_is_decided() -> None:
    async with MqttDoor() as door:
        store = door.store
        store.gate.clear()
        first = door.client()
        first.say_connect("c")
        await until(lambda: store.waiting, "its session is being written")
        first.lose()
        await until(lambda: not door.mqtt.conversations, "the connection is gone")
        store.gate.set()
        await until(lambda: door.mqtt.registry.of("c") is None, "nobody has the client id")
        second = door.client()
        assert (await second.connect("c")).session_present


async def test_while_it_gets_what_is_retained() -> None:
    async with MqttDoor() as door:
        publisher = door.client()
        await publisher.connect("publisher", expiry=0)
        for number in range(200):
            publisher.say(Publish(f"r/{number}", b"x", 0, 0, True))
        await until(lambda: door.retained.count == 200 == door.sender.sent, "all of it is retained")
        await until(lambda: not door.retained.order.is_busy, "its order is looked after")
        tasks = len(asyncio.all_tasks())
        client = door.client()
        await client.connect("c", expiry=0)
        client.is_congested = True
        await client.subscribe(Subscription("r/#", 0))
        await until(lambda: client.conversation.outbox.waiting, "some of it waits")
        client.lose()
        await until(lambda: len(asyncio.all_tasks()) == tasks, "its tasks have ended")


async def test_where_it_cannot_take_its_connack() -> None:
    """3.1.2-24: nothing of it stays but the session that was there before."""
    async with MqttDoor() as door:
        will = Will("w", b"gone")
        for before in (False, True):
            if before:
                first = door.client()
                await first.connect("c")
                first.lose()
                await until(lambda: door.mqtt.registry.of("c") is None, "nobody has the client id")
            client = door.client()
            tight = {PropertyId.MAXIMUM_PACKET_SIZE: 7, PropertyId.SESSION_EXPIRY_INTERVAL: 600}
            client.say(Connect("c", 5, False, will=will, properties=tight))
            assert (await client.expect(Connack)).reason == ReasonCode.PACKET_TOO_LARGE
            await until(lambda: door.mqtt.registry.of("c") is None, "it is over")
            again = door.client()
            assert (await again.connect("c")).session_present == before
            again.say(Disconnect(ReasonCode.NORMAL_DISCONNECTION, {PropertyId.SESSION_EXPIRY_INTERVAL: 0}))
            await until(lambda: door.mqtt.registry.of("c") is None, "it has gone")
        assert door.store.topology.topic("w") is None
