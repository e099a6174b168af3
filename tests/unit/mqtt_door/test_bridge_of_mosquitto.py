"""What a bridge of mosquitto 2.0.11 with default settings (`topic # both 1`) said, byte by byte, and our answers."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import BRIDGE_BIT, Connack, Connect, Puback, Publish, Suback, Subscription
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

STATE = "$SYS/broker/connection/vm.plant/state"
CONNECT = bytes.fromhex(
    "103e00044d515454842c003c0008766d2e706c616e740025245359532f62726f6b65722f636f6e6e656374696f6e2f766d2e706c616e74"
    "2f7374617465000130"
)
"""Level 0x84, a session that is kept, and a retained will of QoS 1 on the bridge's state."""
CONNECTED = bytes.fromhex("332a0025245359532f62726f6b65722f636f6e6e656374696f6e2f766d2e706c616e742f7374617465000131")
SUBSCRIBE = bytes.fromhex("8206000200012301")
THEIRS = bytes.fromhex("330d0003622f780003746865697273")
"""A retained message of one of its clients, b/x."""
OURS = bytes.fromhex("330b0003612f7800016f757273")
"""A retained message of one of our clients, a/x, as a bridge must get it."""


async def answer(client: DoorClient, kind: type, data: bytes, expected: str) -> None:
    client.send(data)
    assert encode(await client.expect(kind), 4) == bytes.fromhex(expected)


async def bridge_of(door: MqttDoor) -> DoorClient:
    bridge = door.client(4)
    await answer(bridge, Connack, CONNECT, "20020000")
    await answer(bridge, Puback, CONNECTED, "40020001")
    await answer(bridge, Suback, SUBSCRIBE, "9003000201")
    return bridge


async def test_a_bridge_carries_messages_both_ways() -> None:
    """Nothing of its own comes back, and what is retained stays so."""
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        await client.subscribe(Subscription("#", 1), Subscription("$SYS/broker/connection/+/state", 1))
        bridge = await bridge_of(door)
        await answer(bridge, Puback, THEIRS, "40020003")
        client.say(Publish("a/x", b"ours", 1, 1, True))
        await until(bridge.deliveries, "ours has gone there")
        assert [encode(each, 4) for each in bridge.deliveries()] == [OURS]
        await until(lambda: len(client.deliveries()) == 3, "theirs has come")
        told = [(each.topic, each.payload) for each in client.deliveries()]
        assert sorted(told) == [(STATE, b"1"), ("a/x", b"ours"), ("b/x", b"theirs")]
        bridge.lose()
        await until(lambda: len(client.deliveries()) == 4, "its will is told")
        assert [each.body for each in await door.retained.read([STATE, "b/x"])] == [b"0", b"theirs"]
        assert not door.sender.incidents.counts


async def test_its_session_goes_on() -> None:
    """Also when it comes back, its own messages do not; and the session of no bridge is as in 3.1.1 (3.3.1-9)."""
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        (await bridge_of(door)).lose()
        await until(lambda: not door.mqtt.registry.of("vm.plant"), "it is away")
        client.say(Publish("a/x", b"ours", 1, 1, True))
        await client.expect(Puback)
        again = door.client(4)
        await answer(again, Connack, CONNECT, "20020100")
        await answer(again, Puback, THEIRS, "40020003")
        await until(again.deliveries, "what waited for it comes")
        await asyncio.sleep(0)
        assert [encode(each, 4)[0] & 1 for each in again.deliveries()] == [1]
        again.send(encode(Puback(again.deliveries()[0].packet_id), 4))
        again.lose()
        await until(lambda: not door.mqtt.registry.of("vm.plant"), "it is away again")
        plain = door.client(4)
        plain.say(Connect("vm.plant", 4, False))
        await plain.expect(Connack)
        client.say(Publish("a/x", b"ours", 1, 2, True))
        await until(plain.deliveries, "it is told to a client that is no bridge")
        assert [each.retain for each in plain.deliveries()] == [False]


@pytest.mark.parametrize("version", [3, 4])
async def test_the_bit_of_a_bridge(version: int) -> None:
    """In the protocol level of 3.1 and 3.1.1; the client is of that version."""
    async with MqttDoor() as door:
        client = door.client(version)
        client.say(Connect("c", version, is_bridge=True))
        assert (await client.expect(Connack)).reason == 0
        there = client.conversation.client
        assert (there.is_bridge, there.machine.version) == (True, version)


async def test_version_5_has_no_such_bit() -> None:
    data = bytearray(encode(Connect("c", 5), 5))
    data[8] |= BRIDGE_BIT
    async with MqttDoor() as door:
        client = door.client()
        client.send(bytes(data))
        assert client.is_closed
        assert not door.mqtt.registry.of("c")
