"""Messages of a shared subscription that are larger than a member's Maximum Packet Size."""

from __future__ import annotations

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.messages_that_fit import UNKNOWN_BYTES
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connack, Connect, Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.stores.steps import bodies, pop
from tests.support.waiting import until

LARGE = b"large " * 40
SMALLEST = 60
"""Maximum Packet Size of the members for whom LARGE is too large, in bytes."""
FILTER = "$share/w/t/#"


async def member(door: MqttDoor, name: str, qos: int, *, size: int = 0, expiry: int = 0) -> DoorClient:
    client = door.client()
    properties: dict[PropertyId, object] = {PropertyId.SESSION_EXPIRY_INTERVAL: expiry}
    if size:
        properties[PropertyId.MAXIMUM_PACKET_SIZE] = size
    client.say(Connect(name, 5, False, properties=properties))
    assert (await client.expect(Connack)).reason == 0
    await client.subscribe(Subscription(FILTER, qos))
    return client


async def publish(door: MqttDoor, qos: int, *payloads: bytes) -> None:
    publisher = door.client()
    await publisher.connect("publisher", expiry=0)
    for packet_id, payload in enumerate(payloads, 1):
        publisher.say(Publish("t/x", payload, qos, packet_id if qos else 0))
    for _ in payloads:
        if qos == 1:
            await publisher.expect(Puback)
        elif qos == 2:
            await publisher.expect(Pubrec)
    publisher.lose()


async def lag(door: MqttDoor) -> int:
    return sum(each.lag for each in (await door.store.topology.group_status("w")).progress)


def finish(client: DoorClient, done: list[bytes]) -> None:
    """Answer everything that came."""
    for packet in list(client.packets):
        if isinstance(packet, Publish):
            done.append(packet.payload)
            if packet.qos:
                client.say(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            client.say(Pubcomp(packet.packet_id))
        client.packets.remove(packet)


@pytest.mark.parametrize("expiry", [0, 600])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_is_too_large_for_one_goes_to_another(qos: int, expiry: int) -> None:
    async with MqttDoor() as door:
        small = await member(door, "small", qos, size=SMALLEST, expiry=expiry)
        large = await member(door, "large", qos, expiry=expiry)
        sent = [LARGE if n % 2 else str(n).encode() for n in range(20)]
        await publish(door, qos, *sent)
        theirs: dict[DoorClient, list[bytes]] = {small: [], large: []}

        def all_came() -> bool:
            for client, done in theirs.items():
                finish(client, done)
            return sum(map(len, theirs.values())) >= len(sent)

        await until(all_came, "everything")
        assert sorted(theirs[small] + theirs[large]) == sorted(sent)
        assert LARGE not in theirs[small]
        counts = door.sender.incidents.counts
        assert counts["mqtt share", Outcome.PASSED_OVER] > 0
        assert not counts["mqtt share", Outcome.DEAD_LETTERED]
        assert {each.client for each in door.sender.incidents.last} == {"small"}


@pytest.mark.parametrize("expiry", [0, 600])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_is_too_large_for_all_is_a_dead_letter_and_holds_up_nothing(qos: int, expiry: int) -> None:
    async with MqttDoor() as door:
        await door.store.topology.put_group(ConsumerGroup("w", max_attempts=3, start="latest"))
        small = await member(door, "small", qos, size=SMALLEST, expiry=expiry)
        await publish(door, qos, b"before", LARGE, b"after")
        done: list[bytes] = []

        def the_others_came() -> bool:
            finish(small, done)
            return len(done) >= 2

        await until(the_others_came, "what fits it")
        assert sorted(done) == [b"after", b"before"]
        assert await lag(door) >= 1, "nobody has had it, and nobody has acknowledged it"

        def is_buried() -> bool:
            door.clock.advance(500)
            finish(small, done)
            return door.store.topology.topic(dead_letter_topic("w")) is not None

        await until(is_buried, "the dead letter")
        found = await pop(door.store, dead_letter_topic("w"), "reader")
        assert bodies(found) == [LARGE.decode()]
        reason = found[0].message.system_text(SystemProperty.DEAD_LETTER_REASON)
        assert reason is not None and "Maximum Packet Size of 60" in reason
        counts = door.sender.incidents.counts
        assert counts["mqtt share", Outcome.PASSED_OVER] == 3
        assert counts["mqtt share", Outcome.DEAD_LETTERED] == 1
        assert len(done) == 2


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_lasting_session_that_comes_back_in_time_gets_what_the_others_cannot_take(qos: int) -> None:
    async with MqttDoor() as door:
        large = await member(door, "large", qos, expiry=600)
        small = await member(door, "small", qos, size=SMALLEST, expiry=600)
        large.lose()
        await until(lambda: door.mqtt.registry.of("large") is None, "it is away")
        await publish(door, qos, LARGE)
        incidents = door.sender.incidents
        await until(lambda: incidents.counts["mqtt share", Outcome.PASSED_OVER], "nobody here can take it")
        again = door.client()
        await again.connect("large")

        def came() -> list[Publish]:
            door.clock.advance(100)
            return again.deliveries()

        await until(came, "the message")
        assert [each.payload for each in again.deliveries()] == [LARGE]
        assert not small.deliveries()
        assert not incidents.counts["mqtt share", Outcome.DEAD_LETTERED]


async def test_a_member_with_a_larger_limit_is_asked_by_the_size_of_its_own_packet() -> None:
    """The packet of a member has its subscription identifiers and its version's properties."""
    async with MqttDoor() as door:
        small = await member(door, "small", 1, size=SMALLEST)
        old = door.client(version=4)
        await old.connect("old")
        await old.subscribe(Subscription(FILTER, 1))
        await publish(door, 1, LARGE, LARGE)
        await until(lambda: len(old.deliveries()) == 2, "both")
        assert not small.deliveries()


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_packet_of_exactly_the_maximum_size_fits(qos: int) -> None:
    async with MqttDoor() as door:
        await publish(door, qos, b"the topic")
        await door.store.topology.put_group(ConsumerGroup("w", start="earliest"))
        fits, too_large = b"f" * 100, b"f" * 101
        await publish(door, qos, fits, too_large)
        size = len(encode(Publish("t/x", fits, qos, 1 if qos else 0), 5))
        client = await member(door, "exact", qos, size=size)
        incidents = door.sender.incidents
        await until(lambda: incidents.last, "the larger one is passed over")
        await until(lambda: len(client.deliveries()) == 2, "what fits")
        assert {each.payload for each in client.deliveries()} == {b"the topic", fits}
        client.write_limit = 4 * UNKNOWN_BYTES
        [membership] = (client.conversation.subscribing.shares or {}).values()
        assert membership.credit > 4, "small ones came"
