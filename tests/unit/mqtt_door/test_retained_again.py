"""A retained message of QoS 2 that is published again does not come back over a newer one."""

from __future__ import annotations

from entrepot.protocols.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


async def test_what_was_retained_since_stays() -> None:
    async with MqttDoor() as door:
        first, other = door.client(), door.client()
        await first.connect("c")
        await other.connect("other", expiry=0)
        first.say(Publish("t/x", b"old", 2, 7, True))
        await first.expect(Pubrec)  # which the client never saw
        first.lose()
        await until(lambda: door.mqtt.registry.of("c") is None, "the first connection is over")
        other.say(Publish("t/x", b"new", 1, 1, True))
        await other.expect(Puback)
        second = door.client()
        await second.connect("c")
        second.say(Publish("t/x", b"old", 2, 7, True, True))
        await second.expect(Pubrec)
        second.say(Pubrel(7))
        await second.expect(Pubcomp)
        assert [each.body for each in await door.retained.read(["t/x"])] == [b"new"]
