"""What is sent again to one client is not changed for the others."""

from __future__ import annotations

from entrepot.protocols.mqtt.packets import Publish, Pubrec, Subscription
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


async def test_the_granted_qos_is_this_client_s_alone() -> None:
    async with MqttDoor() as door:
        client, publisher = door.client(), door.client()
        await client.connect("c")
        await client.subscribe(Subscription("t/#", 1))
        await publisher.connect("publisher", expiry=0)
        publisher.say(Publish("t/x", b"m", 2, 1))
        await publisher.expect(Pubrec)
        assert (await client.expect(Publish)).qos == 1
        client.lose()
        await until(lambda: door.mqtt.registry.of("c") is None, "the first connection is over")
        again = door.client()
        await again.connect("c")
        delivered = await again.expect(Publish)
        assert (delivered.qos, delivered.dup) == (1, True)
        [queue] = [each for each in await door.store.messages.bounds("t") if each.max_offset]
        [stored] = await door.store.messages.read("t", queue.queue_id, 0, 1)
        assert stored.qos == 2
