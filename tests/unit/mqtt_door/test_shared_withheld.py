"""A shared QoS 2 message that a lasting session has, and whose client comes back with smaller packets."""

from __future__ import annotations

from functools import partial

from entrepot.gateway.messaging.incidents import Outcome
from entrepot.protocols.mqtt.packets import Connack, Connect, Pubcomp, Publish, Pubrec, Pubrel, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

SHARE = "$share/w/t/#"
LARGE = b"large " * 40
SMALLEST = 60


async def connect(door: MqttDoor, name: str, *, size: int = 0, most: int = 0) -> DoorClient:
    client = door.client()
    properties: dict[PropertyId, object] = {PropertyId.SESSION_EXPIRY_INTERVAL: 600}
    if size:
        properties[PropertyId.MAXIMUM_PACKET_SIZE] = size
    if most:
        properties[PropertyId.RECEIVE_MAXIMUM] = most
    client.say(Connect(name, 5, False, properties=properties))
    assert (await client.expect(Connack)).reason == 0
    return client


async def gone(door: MqttDoor, client: DoorClient, name: str) -> None:
    client.lose()
    await until(lambda: door.mqtt.registry.of(name) is None, f"{name} is away")


async def publish(door: MqttDoor, *payloads: bytes) -> None:
    publisher = await connect(door, "publisher")
    for packet_id, payload in enumerate(payloads, 1):
        publisher.say(Publish("t/x", payload, 2, packet_id))
        await publisher.expect(Pubrec)
        publisher.say(Pubrel(packet_id))
        await publisher.expect(Pubcomp)
    publisher.lose()


async def complete(client: DoorClient, delivered: Publish) -> None:
    client.say(Pubrec(delivered.packet_id))
    await client.expect(Pubrel)
    client.say(Pubcomp(delivered.packet_id))


def _any_delivery(*clients: DoorClient) -> bool:
    return any(client.deliveries() for client in clients)


async def lag(door: MqttDoor) -> int:
    return sum(each.lag for each in (await door.store.topology.group_status("w")).progress)


async def test_its_session_keeps_it_until_it_fits_and_others_flow_meanwhile() -> None:
    async with MqttDoor() as door:
        first = await connect(door, "lasting")
        await first.subscribe(Subscription(SHARE, 2))
        await publish(door, LARGE)
        begun = await first.expect(Publish)
        await gone(door, first, "lasting")
        other = await connect(door, "other", size=SMALLEST)
        await other.subscribe(Subscription(SHARE, 2))
        for _ in range(2):
            small = await connect(door, "lasting", size=SMALLEST, most=1)
            await publish(door, b"a", b"b", b"c")
            done = 0
            while done < 3:
                await until(partial(_any_delivery, small, other), "what fits")
                for client in (small, other):
                    for delivered in client.deliveries():
                        client.packets.remove(delivered)
                        assert delivered.payload in (b"a", b"b", b"c")
                        await complete(client, delivered)
                        done += 1
            await gone(door, small, "lasting")
        await gone(door, other, "other")
        again = await connect(door, "lasting")
        resent = await again.expect(Publish)
        assert (resent.payload, resent.packet_id, resent.dup) == (LARGE, begun.packet_id, True)
        await complete(again, resent)
        await gone(door, again, "lasting")
        last = await connect(door, "lasting")
        await publish(door, b"next")
        assert (await last.expect(Publish)).payload == b"next"
        incidents = door.hub.incidents
        assert incidents.counts["mqtt share", Outcome.SET_ASIDE] == 2
        assert {each.client for each in incidents.last} == {"lasting"}


async def test_several_are_resent_within_the_receive_maximum_beside_a_withheld_one() -> None:
    async with MqttDoor() as door:
        first = await connect(door, "lasting")
        await first.subscribe(Subscription(SHARE, 2))
        await publish(door, LARGE, b"a", b"b", b"c")
        await until(lambda: len(first.deliveries()) == 4, "all")
        await gone(door, first, "lasting")
        again = await connect(door, "lasting", size=SMALLEST, most=2)
        await until(lambda: len(again.deliveries()) == 2, "as many as it takes")
        for expected in (b"a", b"b", b"c"):
            delivered = await again.expect(Publish)
            assert delivered.payload == expected
            assert len(again.deliveries()) <= 1, "never more than two in flight"
            await complete(again, delivered)


async def test_an_ordinary_message_that_no_longer_fits_counts_as_sent() -> None:
    """3.1.2-25: it is discarded."""
    async with MqttDoor() as door:
        first = await connect(door, "lasting")
        await first.subscribe(Subscription("t/#", 2))
        await publish(door, LARGE, b"a")
        await until(lambda: len(first.deliveries()) == 2, "both")
        await gone(door, first, "lasting")
        for size, expected in ((SMALLEST, [b"a"]), (0, [b"a"])):
            again = await connect(door, "lasting", size=size)
            await until(again.deliveries, "what fits")
            assert [each.payload for each in again.deliveries()] == expected
            await gone(door, again, "lasting")


async def test_the_group_has_what_its_session_did_not_write_down() -> None:
    """Until the session's record has a message, the group is not told that it was consumed."""
    async with MqttDoor() as door:
        first = await connect(door, "lasting")
        await first.subscribe(Subscription(SHARE, 2))
        door.store.gate.clear()
        publisher = door.client()
        await publisher.connect("publisher", expiry=0)
        publisher.say(Publish("t/x", b"m", 2, 1))
        await publisher.expect(Pubrec)
        await until(lambda: door.store.waiting, "the record is being written")
        assert await lag(door) == 1
        assert not first.deliveries()
        door.store.gate.set()
        await until(first.deliveries, "the message")
