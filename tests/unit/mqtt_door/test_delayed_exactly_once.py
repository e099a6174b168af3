"""A delayed message of QoS 2 is published again by who comes back before PUBREC: it is there once."""

from __future__ import annotations

import pytest

from entrepot.protocols.mqtt.packets import Pubcomp, Publish, Pubrec, Pubrel, Subscription
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


@pytest.mark.parametrize("is_delivered", [False, True])
async def test_a_delayed_message_is_there_once(is_delivered: bool) -> None:
    """While it waits for its time, and once it was delivered."""
    async with MqttDoor() as door:
        watcher, first = door.client(), door.client()
        await watcher.connect("watcher", expiry=0)
        await watcher.subscribe(Subscription("t/#", 2))
        await first.connect("c")
        first.say(Publish("$delayed/5/t/x", b"m", 2, 7))
        await first.expect(Pubrec)  # which the client never saw
        first.lose()
        await until(lambda: door.mqtt.registry.of("c") is None, "the first connection is over")
        door.clock.advance(5_000 if is_delivered else 1_000)
        if is_delivered:
            await until(watcher.deliveries, "it is delivered")
        second = door.client()
        await second.connect("c")
        second.say(Publish("$delayed/5/t/x", b"m", 2, 7, False, True))
        await second.expect(Pubrec)
        second.say(Pubrel(7))
        await second.expect(Pubcomp)
        door.clock.advance(10_000)
        second.say(Publish("$delayed/0/t/x", b"end", 2, 8))
        await until(
            lambda: watcher.deliveries()[-1:] and watcher.deliveries()[-1].payload == b"end", "all is delivered"
        )
        assert [each.payload for each in watcher.deliveries()] == [b"m", b"end"]
