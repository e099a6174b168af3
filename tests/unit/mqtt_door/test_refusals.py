"""What a client may not publish or subscribe to is seen by it, at its page, and by the operator; and no more is kept of
it than has a limit."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.retained import MAX_RETAINED_BYTES
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.connections.counters import NOTED_EVERY_MS
from entrepot.gateway.mqtt.connections.facts import facts_of
from entrepot.gateway.mqtt.connections.history import MAX_DENIALS
from entrepot.gateway.settings import MqttSettings, Settings
from entrepot.protocols.mqtt.packets import Connack, Connect, Pingreq, Pingresp, Puback, Publish, Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.waiting import until

REFUSED = ("mqtt", Outcome.REFUSED)
MOST = 20
"""Subscriptions of a client, by a setting."""


def told(door: MqttDoor, client: DoorClient) -> tuple[int, int, str, str]:
    """How many the client has, how many the operator; the last one at its page, and in the incidents."""
    there = client.conversation.client
    last = door.sender.incidents.last[-1]
    assert last.client == there.client_id
    return there.refused, door.sender.incidents.counts[REFUSED], there.last_refusal.text, f"{last.place}: {last.reason}"


@pytest.mark.parametrize(("version", "code"), [(5, ReasonCode.QUOTA_EXCEEDED), (4, 0x80)])
async def test_a_subscription_too_many(version: int, code: int) -> None:
    async with MqttDoor(settings=Settings(mqtt=MqttSettings(max_subscriptions_per_client=MOST))) as door:
        client = door.client(version)
        await client.connect("c")
        filters = [Subscription(f"f/{number}", 0) for number in range(MOST + 2)]
        assert (await client.subscribe(*filters)).reasons == [0] * MOST + [code, code]
        text = f"a client has at most {MOST} subscriptions"
        where = f"f/{MOST + 1}: "
        assert told(door, client) == (2, 2, where + text, f"{where}QUOTA_EXCEEDED: {text}")
        assert (await client.subscribe(Subscription("f/0", 1))).reasons == [1], "one that it has may change"
        facts = [fact.text for fact in facts_of(client.conversation, door.mqtt.services) if fact.kind == "denied"]
        assert facts == [f"quota exceeded, 1 times: f/{MOST + number}: {text}" for number in (0, 1)]
        assert door.mqtt.counters.refused["QUOTA_EXCEEDED"] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/#/b", "it is not a topic filter"),
        ("$share/g", "it is not $share/<name>/<filter>"),
        ("$share/g/$SYS/#", "it is not $share/<name>/<filter>"),
        ("$replay/x/a", "it is not $replay/<from>/<filter>"),
        ("/".join("d" * 129), "it has too many levels"),
    ],
)
async def test_a_filter_that_is_none(text: str, reason: str) -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c")
        assert (await client.subscribe(Subscription(text, 1))).reasons == [ReasonCode.TOPIC_FILTER_INVALID]
        counts = told(door, client)
        assert counts[:2] == (1, 1)
        assert (counts[2].startswith(text[:200]), counts[3]) == (True, f"{text}: TOPIC_FILTER_INVALID: {reason}")
        assert not client.conversation.subscribing.records


async def test_a_share_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:

        async def join(*_: object) -> None:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "there are 5 groups already")

        monkeypatch.setattr(door.shares, "join", join)
        client = door.client()
        await client.connect("c")
        assert (await client.subscribe(Subscription("$share/g/a", 1))).reasons == [ReasonCode.QUOTA_EXCEEDED]
        text = "there are 5 groups already"
        assert told(door, client) == (1, 1, f"$share/g/a: {text}", f"$share/g/a: QUOTA_EXCEEDED: {text}")


def retained(size: int, qos: int = 0, packet_id: int = 0) -> Publish:
    """A publish whose retained message has that size, with the rest of it."""
    return Publish("r/x", b"x" * size, qos, packet_id, True)


async def largest_body(door: MqttDoor) -> int:
    """Bytes of the largest body that is retained; the bound is exact."""
    low, high = MAX_RETAINED_BYTES - 1024, MAX_RETAINED_BYTES
    client = door.client()
    await client.connect("measure", expiry=0)
    while high - low > 1:
        middle = (low + high) // 2
        client.say(retained(middle, 1, 1))
        if (await client.expect(Puback)).reason == ReasonCode.SUCCESS:
            low = middle
        else:
            high = middle
    return low


async def test_a_retained_message_larger_than_a_value_of_the_store() -> None:
    """The earlier one stays, nobody gets this one, and everybody concerned is told, also at QoS 0."""
    async with MqttDoor() as door:
        most = await largest_body(door)
        assert most < MAX_RETAINED_BYTES
        await until(lambda: door.retained.size_bytes == MAX_RETAINED_BYTES, "the largest is exactly of that size")
        before = door.sender.incidents.counts[REFUSED]
        client, other = door.client(), door.client()
        await other.connect("other", expiry=0)
        await client.connect("c", expiry=0)
        client.say(Publish("r/x", b"kept", 1, 1, True))
        await client.expect(Puback)
        await other.subscribe(Subscription("r/#", 1))
        await until(other.deliveries, "the one that is kept")
        client.say(retained(most + 1))
        reason = f"a retained message has at most {MAX_RETAINED_BYTES} bytes with its properties"
        assert told(door, client)[:2] == (1, before + 1)
        assert told(door, client)[2] == f"r/x: {reason}, not {MAX_RETAINED_BYTES + 1}"
        client.say(retained(most + 1, 1, 2))
        assert (await client.expect(Puback)).reason == ReasonCode.QUOTA_EXCEEDED
        assert told(door, client)[:2] == (2, before + 2)
        client.say(Publish("r/y", b"next", 1, 3))
        await client.expect(Puback)
        await until(lambda: len(other.deliveries()) == 2, "the next one passes")
        assert [each.payload for each in other.deliveries()] == [b"kept", b"next"]
        assert [each.body for each in await door.retained.read(["r/x"])] == [b"kept"]


async def test_version_3_keeps_a_retained_message_that_is_too_large() -> None:
    """It has no code for it, and what is confirmed is stored: so the connection ends. At QoS 0 it goes on."""
    async with MqttDoor() as door:
        client = door.client(4)
        await client.connect("c")
        client.say(retained(MAX_RETAINED_BYTES), Pingreq())
        await client.expect(Pingresp)
        assert not client.is_closed
        client.say(retained(MAX_RETAINED_BYTES, 1, 1))
        assert client.is_closed
        assert not [each for each in client.packets if isinstance(each, Puback)]
        assert told(door, client)[:2] == (2, 2)


ROOM_FOR_ONE = Settings(mqtt=MqttSettings(max_retained_bytes=1500))
"""Of those with a body of `LARGE`."""
LARGE = b"x" * 1000


async def test_a_retained_message_that_was_taken_is_kept() -> None:
    """Two are taken in one moment, when there is room for each: neither is confirmed and dropped."""
    async with MqttDoor(settings=ROOM_FOR_ONE) as door:
        clients = [door.client(), door.client()]
        for number, client in enumerate(clients):
            await client.connect(f"c{number}", expiry=0)
        for number, client in enumerate(clients):
            client.say(Publish(f"r/{number}", LARGE, 1, 1, True))
        for client in clients:
            assert (await client.expect(Puback)).reason == ReasonCode.SUCCESS
        assert [each.sub_topic for each in await door.retained.read(["r/0", "r/1"])] == ["r/0", "r/1"]
        clients[0].say(Publish("r/2", b"x", 1, 2, True))
        assert (await clients[0].expect(Puback)).reason == ReasonCode.QUOTA_EXCEEDED, "both are counted"


async def test_a_will_without_room_is_told_live_and_noted() -> None:
    async with MqttDoor(settings=ROOM_FOR_ONE) as door:
        client, other, gone = door.client(), door.client(), door.client(4)
        await client.connect("c", expiry=0)
        client.say(Publish("r/x", LARGE, 1, 1, True))
        await client.expect(Puback)
        await other.connect("other", expiry=0)
        await other.subscribe(Subscription("w", 1))
        gone.say(Connect("gone", 4, will=Will("w", LARGE, 1, True)))
        await gone.expect(Connack)
        gone.lose()
        await until(other.deliveries, "the will is told")
        noted = door.sender.incidents.last[-1]
        text = "published, but not retained: there is no room in the 1500 bytes retained"
        assert (noted.part, noted.outcome, noted.place, noted.reason) == ("retained", Outcome.LEFT_OUT, "w", text)
        assert await door.retained.read(["w"]) == []


async def test_the_last_words_of_a_client_are_seen() -> None:
    """It has left before its earlier publish is stored: what is refused is noted all the same."""
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        door.store.gate.clear()
        client.say(Publish("r/x", b"1", 1, 1, True))
        client.say(Publish("$SYS/x", b"2"))
        client.lose()
        assert told(door, client)[:2] == (1, 1)
        door.store.gate.set()


async def test_a_forbidden_will_is_seen() -> None:
    async with MqttDoor() as door:
        client = door.client()
        client.say(Connect("c", 5, will=Will("$SYS/x", b"")))
        assert (await client.expect(Connack)).reason == ReasonCode.NOT_AUTHORIZED
        [last] = door.sender.incidents.last
        assert (last.client, last.place, last.part, last.outcome) == ("c", "$SYS/x", *REFUSED)
        assert last.reason == "NOT_AUTHORIZED: the will: '$SYS/x' cannot be published to"


async def test_a_flood_is_counted_and_pushes_nothing_out() -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c", expiry=0)
        client.say(*(Publish(f"$SYS/{number}", b"") for number in range(500)))
        client.say(*(Publish("$SYS/0", b"") for _ in range(500)))
        incidents = door.sender.incidents
        assert incidents.counts[REFUSED] == client.conversation.client.refused == 1000
        assert door.mqtt.counters.refused["NOT_AUTHORIZED"] == 1000
        assert [each.place for each in incidents.last] == [f"$SYS/{number}" for number in range(MAX_DENIALS)]
        door.clock.advance(NOTED_EVERY_MS - 1)
        client.say(Publish("$SYS/late", b""))
        assert len(incidents.last) == MAX_DENIALS
        door.clock.advance(1)
        client.say(Publish("$SYS/later", b""), Publish("$SYS/latest", b""))
        assert [each.place for each in incidents.last][MAX_DENIALS:] == ["$SYS/later"]
        assert client.conversation.client.last_refusal.text.startswith("$SYS/latest: ")


async def test_the_reason_is_told_in_version_5() -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c")
        client.say(Publish("$queue/x", b"", 1, 1))
        answer = await client.expect(Puback)
        assert answer.properties[PropertyId.REASON_STRING] == "'$queue/x' cannot be published to"
