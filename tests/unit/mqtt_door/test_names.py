"""Names that clients may not publish to: MQTT 5 is told the reason, in 3.1.1 the message alone is lost."""

from __future__ import annotations

import pytest

from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.connections.told_words import EventKind
from entrepot.gateway.mqtt.topics.names import (
    MAX_DELAY_SECONDS,
    parse_delayed,
    parse_replay,
    parse_share,
    published_name,
    unpublishable,
)
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscription,
    Will,
)
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.support.cases import cases
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.stores.retained import names_matching
from tests.support.waiting import until

STATE = "$SYS/broker/connection/vm.plant/state"
INVALID, FORBIDDEN = ReasonCode.TOPIC_NAME_INVALID, ReasonCode.NOT_AUTHORIZED
NAMES: list[tuple[str, bytes, ReasonCode | None]] = [
    ("$SYS", b"x", FORBIDDEN),
    ("$SYS/broker/uptime", b"1", FORBIDDEN),
    ("$SYS/broker/connection/a/b/state", b"1", FORBIDDEN),
    ("$SYS/broker/connection//state", b"1", FORBIDDEN),
    ("$SYS/broker/connection/a/state/x", b"1", FORBIDDEN),
    ("x$SYS/broker/connection/a/state", b"9", None),
    (STATE, b"2", FORBIDDEN),
    (STATE, b"11", FORBIDDEN),
    (STATE, b"0", None),
    (STATE, b"1", None),
    (STATE, b"", None),
    ("$share/g/a", b"x", FORBIDDEN),
    ("$replay/-2h/a", b"x", FORBIDDEN),
    ("$queue/a", b"x", FORBIDDEN),
    ("$delayed", b"x", FORBIDDEN),
    ("$delayed/x/a", b"x", INVALID),
    ("$delayed/5", b"x", INVALID),
    ("$delayed/5/", b"x", INVALID),
    ("$delayed/5/$SYS/a", b"x", INVALID),
    (f"$delayed/{MAX_DELAY_SECONDS + 1}/a", b"x", INVALID),
    (f"$delayed/{MAX_DELAY_SECONDS}/a", b"x", None),
    ("$aws/things/a", b"x", None),
    ("$SYSTEM/a", b"x", None),
    ("$sharex/a", b"x", None),
    ("/".join("d" * 129), b"x", INVALID),
    ("/".join("d" * 128), b"x", None),
]
REFUSED = [(name, payload, reason) for name, payload, reason in NAMES if reason is not None]


@cases("name, payload, reason", [each for each in NAMES if each[0].startswith("$")])
def test_names_of_the_server(name: str, payload: bytes, reason: ReasonCode | None) -> None:
    found = unpublishable(name, payload)
    assert (None if found is None else found[0]) == reason
    assert found is None or len(found[1]) < 200


def test_delays() -> None:
    assert parse_delayed("$delayed/0/a/b") == (0, "a/b")
    assert parse_delayed("$delayed/000000005/a") == (5, "a")
    for wrong in ("$delayed/0000000005/a", "$delayed/-1/a", "$delayed/\u0665/a", "$delayed//a", "$delayed/1/a+", "x"):
        assert parse_delayed(wrong) is None, wrong
    assert published_name("$delayed/7/a/b") == "a/b"
    assert published_name("$delayed/x/a") == "$delayed/x/a"
    assert published_name("a/$delayed/7/b") == "a/$delayed/7/b"


def test_shares() -> None:
    assert parse_share("$share/g/a/+") == ("g", "a/+")
    assert parse_share("$share/g//") == ("g", "/")
    for wrong in ("$share/g", "$share/g/", "$share//a", "$share/g+/a", "$share/#/a", "$share/g/a+"):
        assert parse_share(wrong) is None, wrong


def test_replays() -> None:
    now_ms = 10_000_000
    starts = {
        "earliest": 0,
        "0": 0,
        "17": 17,
        "9" * 15: 10**15 - 1,
        "-1": 1000 - now_ms,
        "-2s": 2000 - now_ms,
        "-2m": 120_000 - now_ms,
        "-2h": 7_200_000 - now_ms,
        "-1d": -1,
        "1970-01-01T00:00:07Z": -7000,
        "1970-01-01T00:00:07": -7000,
        "1970-01-01T01:00:07+01:00": -7000,
        "1960-01-01": -1,
    }
    for text, start in starts.items():
        assert parse_replay(f"$replay/{text}/a/#", now_ms) == (start, "a/#"), text
    for wrong in (
        "latest/a",
        "9" * 16 + "/a",
        "-2w/a",
        "-/a",
        "earliest",
        "earliest/$SYS/#",
        "earliest/a#",
        "\u0665/a",
    ):
        assert parse_replay(f"$replay/{wrong}", now_ms) is None, wrong


# -- at the door -------------------------------------------------------------------------------------------------------


def denials(door: MqttDoor, client_id: str) -> list[tuple[str, str, int]]:
    """Reason, text and count of what the client's page says."""
    events = door.mqtt.history.of(client_id, 100)
    return [(each.reason, each.text, each.count) for each in events if each.kind is EventKind.DENIED]


def assert_told(door: MqttDoor, client_id: str, name: str, reason: ReasonCode) -> None:
    """Everywhere: at the client, in the counters, and as the last incident."""
    [(kind, text, _)] = denials(door, client_id)
    assert kind == reason.name
    assert text.startswith(name[:100])
    assert sum(door.mqtt.counters.refused.values()) == 1
    assert door.sender.incidents.counts["mqtt", Outcome.REFUSED] == 1
    last = door.sender.incidents.last[-1]
    assert last.client == client_id
    assert last.place == name
    assert last.reason.startswith(reason.name)


async def lives(client: DoorClient) -> None:
    client.say(Pingreq())
    await client.expect(Pingresp)


@pytest.mark.parametrize("version", [3, 4])
@cases("name, payload, reason", REFUSED)
async def test_version_3_loses_the_message_and_stays(
    version: int, name: str, payload: bytes, reason: ReasonCode
) -> None:
    """3.3.5-2 there: it is confirmed all the same. The name is asked about again after each, as it may be a new one."""
    async with MqttDoor() as door:
        client = door.client(version)
        await client.connect("c")
        client.say(Publish(name, payload, 0))
        assert_told(door, "c", name, reason)
        client.say(Publish(name, payload, 1, 5, True))
        assert (await client.expect(Puback)).packet_id == 5
        client.say(Publish(name, payload, 2, 6))
        assert (await client.expect(Pubrec)).packet_id == 6
        client.say(Pubrel(6))
        assert (await client.expect(Pubcomp)).packet_id == 6
        await lives(client)
        [(_, _, count)] = denials(door, "c")
        assert count == 3
        assert names_matching(door.retained, name) == []
        assert not client.is_closed


@cases("name, payload, reason", REFUSED)
async def test_version_5_is_told_the_reason(name: str, payload: bytes, reason: ReasonCode) -> None:
    async with MqttDoor() as door:
        client = door.client()
        await client.connect("c")
        client.say(Publish(name, payload, 0))
        assert_told(door, "c", name, reason)
        client.say(Publish(name, payload, 1, 5))
        assert (await client.expect(Puback)).reason == reason
        client.say(Publish(name, payload, 2, 5))
        assert (await client.expect(Pubrec)).reason == reason
        await lives(client)


@cases("name, payload, reason", REFUSED)
async def test_a_will_with_such_a_name(name: str, payload: bytes, reason: ReasonCode) -> None:
    """Version 3 connects without it; version 5 has CONNACK 0x90 and 0x87 (table 3-1)."""
    will = Will(name, payload, 1, True)
    async with MqttDoor() as door:
        old, new = door.client(4), door.client()
        old.say(Connect("old", 4, False, will=will))
        assert (await old.expect(Connack)).reason == ConnectReturnCode.ACCEPTED
        assert_told(door, "old", name, reason)
        session = old.conversation.client.session
        assert session is not None
        assert session.record.will is None
        new.say(Connect("new", 5, will=will))
        assert (await new.expect(Connack)).reason == reason
        assert door.mqtt.counters.connects[5, reason.name.lower()] == 1


async def test_the_state_of_a_bridge_is_taken() -> None:
    """Live and retained for who subscribes to it, not for `#`; and its will, too."""
    async with MqttDoor() as door:
        early, bridge = door.client(), door.client(4)
        await early.connect("early", expiry=0)
        await early.subscribe(Subscription("$SYS/broker/connection/#", 1), Subscription("#", 1))
        bridge.say(Connect("vm.plant", 4, will=Will(STATE, b"0", 1, True), is_bridge=True))
        await bridge.expect(Connack)
        bridge.say(Publish(STATE, b"1", 1, 1, True))
        await bridge.expect(Puback)
        await until(early.deliveries, "it is told")
        late = door.client(4)
        await late.connect("late", clean=True)
        await late.subscribe(Subscription("$SYS/#", 0))
        await until(late.deliveries, "it was retained")
        assert [(each.topic, each.payload, each.retain) for each in late.deliveries()] == [(STATE, b"1", True)]
        bridge.lose()
        await until(lambda: len(early.deliveries()) == 2, "the will is told")
        assert [(each.topic, each.payload) for each in early.deliveries()] == [(STATE, b"1"), (STATE, b"0")]
        assert [each.body for each in await door.retained.read([STATE])] == [b"0"]
        assert not door.sender.incidents.counts
