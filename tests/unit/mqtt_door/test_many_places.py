"""A session of more queues than its record holds: it reads on where it was, and beyond the limit it hears which one."""

from __future__ import annotations

import pytest

from entrepot.domain.topic import Topic
from entrepot.gateway.mqtt.sessions import cursors
from entrepot.gateway.mqtt.sessions.record import CURSORS_PREFIX
from entrepot.protocols.mqtt.packets import Disconnect, Puback, Publish, Subscribe, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

TOPICS = 200


async def publish(client: DoorClient, bodies: list[bytes]) -> None:
    for number, body in enumerate(bodies, 1):
        client.say(Publish(f"t{number}/x", body, 1, number))
    for _ in bodies:
        await client.expect(Puback)


async def take(client: DoorClient, count: int) -> list[bytes]:
    """As many messages, each acknowledged."""
    taken: list[bytes] = []
    while len(taken) < count:
        delivered = await client.expect(Publish)
        client.say(Puback(delivered.packet_id))
        taken.append(delivered.payload)
    return taken


async def test_ten_replays_and_many_topics_read_on_where_they_were() -> None:
    async with MqttDoor() as door:
        await door.store.topology.put_topics([Topic(f"t{number}", queues=1) for number in range(TOPICS)])
        publisher, client = door.client(), door.client()
        await publisher.connect("publisher", expiry=0)
        await publish(publisher, [b"old"] * 50)
        await client.connect("c")
        filters = ["#", *(f"$replay/-{number}h/#" for number in range(1, 11))]
        await client.subscribe(*(Subscription(each, 1) for each in filters))
        assert await take(client, 500) == [b"old"] * 500
        client.say(Disconnect())
        await until(lambda: door.mqtt.registry.of("c") is None, "the session is left")
        assert await door.store.key_values.scan(CURSORS_PREFIX)
        await publish(publisher, [b"new"] * 60)
        again = door.client()
        assert (await again.connect("c")).session_present
        assert await take(again, 60 * 11) == [b"new"] * 60 * 11
        await publish(publisher, [b"end"])
        assert await take(again, 11) == [b"end"] * 11


async def test_beyond_the_limit_the_client_hears_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """0x97, and not that another has its client id. Its session is as before, and so is whoever is beside it."""
    monkeypatch.setattr(cursors, "MAX_INLINE", 3)
    monkeypatch.setattr(cursors, "MAX_PARTS_BYTES", 100)
    async with MqttDoor() as door:
        await door.store.topology.put_topics([Topic(f"t{number}", queues=1) for number in range(TOPICS)])
        client, other = door.client(), door.client()
        await client.connect("c")
        await other.connect("other")
        await client.subscribe(Subscription("t1/#", 1))
        client.say(Subscribe(2, [Subscription("#", 1)]))
        goodbye = await client.expect(Disconnect)
        assert goodbye.reason == ReasonCode.QUOTA_EXCEEDED
        assert "their positions exceed" in goodbye.properties[PropertyId.REASON_STRING]
        await until(lambda: door.mqtt.registry.of("c") is None, "the session is left")
        again = door.client()
        assert (await again.connect("c")).session_present
        await other.subscribe(Subscription("t1/#", 1))
        await publish(other, [b"m"])
        assert (await again.expect(Publish)).payload == b"m"
