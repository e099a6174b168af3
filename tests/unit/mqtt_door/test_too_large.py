"""Messages larger than a subscriber's Maximum Packet Size are not sent to it, are told, and hold nobody up."""

from __future__ import annotations

import pytest

from entrepot.gateway.messaging.incidents import Outcome
from entrepot.protocols.mqtt.packets import Connack, Connect, Puback, Publish, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

LARGE = b"large " * 40


async def subscriber(door: MqttDoor, name: str, qos: int, size: int, expiry: int) -> DoorClient:
    client = door.client()
    properties: dict[PropertyId, object] = {PropertyId.SESSION_EXPIRY_INTERVAL: expiry}
    if size:
        properties[PropertyId.MAXIMUM_PACKET_SIZE] = size
    client.say(Connect(name, 5, False, properties=properties))
    assert (await client.expect(Connack)).reason == 0
    await client.subscribe(Subscription("t/#", qos))
    return client


def payloads(client: DoorClient) -> list[bytes]:
    return [packet.payload for packet in client.packets if isinstance(packet, Publish)]


@pytest.mark.parametrize("expiry", [0, 600])
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_small_subscriber_gets_the_others_in_order_and_the_rest_is_counted(qos: int, expiry: int) -> None:
    async with MqttDoor() as door:
        small = await subscriber(door, "small", qos, 60, expiry)
        large = await subscriber(door, "large", qos, 0, expiry)
        sent = [LARGE if n % 2 else str(n).encode() for n in range(20)]
        publisher = door.client()
        await publisher.connect("publisher", expiry=0)
        for packet_id, payload in enumerate(sent, 1):
            publisher.say(Publish("t/x", payload, 1, packet_id))
        for _ in sent:
            await publisher.expect(Puback)
        await until(lambda: payloads(large) == sent, "all of them at the large one")
        few = [payload for payload in sent if payload != LARGE]
        await until(lambda: payloads(small) == few, "the others at the small one")
        assert door.sender.incidents.counts["mqtt", Outcome.PASSED_OVER] == len(sent) - len(few)
        told = [each for each in door.sender.incidents.last if each.outcome is Outcome.PASSED_OVER]
        assert {each.client for each in told} == {"small"} and "Maximum Packet Size of 60" in told[0].reason
        assert len(told) == 1, "repeated ones of a client are counted alone"
