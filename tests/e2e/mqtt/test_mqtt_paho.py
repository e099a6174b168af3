"""paho-mqtt in both versions: publish, subscribe, properties, refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import scaled

VERSIONS = {"3.1.1": MQTTProtocolVersion.MQTTv311, "5": MQTTProtocolVersion.MQTTv5}


class Client:
    """paho with its callbacks turned into lists."""

    def __init__(self, port: int, version: MQTTProtocolVersion, client_id: str = "") -> None:
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=version)
        self.messages: list[paho.MQTTMessage] = []
        self.granted: list[list[ReasonCode]] = []
        self.unsubscribed: list[list[ReasonCode]] = []
        self.disconnected: list[ReasonCode] = []
        self.welcome: Any = None
        self._connected = threading.Event()
        self.paho.on_connect = self._on_connect
        self.paho.on_message = lambda client, data, message: self.messages.append(message)
        self.paho.on_subscribe = lambda client, data, mid, reasons, properties: self.granted.append(reasons)
        self.paho.on_unsubscribe = lambda client, data, mid, reasons, properties: self.unsubscribed.append(reasons)
        self.paho.on_disconnect = lambda client, data, flags, reason, properties: self.disconnected.append(reason)
        self.paho.connect("127.0.0.1", port)
        self.paho.loop_start()
        assert self._connected.wait(PATIENCE_SECONDS)

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self.reason = reason
        self.welcome = properties
        self._connected.set()

    def subscribe(self, *filters: tuple[str, int]) -> list[ReasonCode]:
        before = len(self.granted)
        self.paho.subscribe(list(filters))
        wait_until(lambda: len(self.granted) > before, "SUBACK")
        return self.granted[-1]

    def publish(
        self, topic: str, payload: bytes, qos: int = 1, properties: Properties | None = None, *, retain: bool = False
    ) -> None:
        sent = self.paho.publish(topic, payload, qos, retain, properties)
        sent.wait_for_publish(PATIENCE_SECONDS)

    def payloads(self, count: int) -> list[bytes]:
        wait_until(lambda: len(self.messages) >= count, lambda: f"{count} messages, not {len(self.messages)}")
        return [message.payload for message in self.messages]

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()


@pytest.fixture(params=list(VERSIONS.values()), ids=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> MQTTProtocolVersion:
    return request.param


@pytest.fixture
def clients(port: int) -> Iterator[Any]:
    made: list[Client] = []

    def make(version: MQTTProtocolVersion, client_id: str = "") -> Client:
        made.append(Client(port, version, client_id))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.mark.parametrize("other", list(VERSIONS.values()), ids=list(VERSIONS))
@pytest.mark.everywhere
def test_live_delivery_at_the_granted_qos(
    clients: Any, topic: str, version: MQTTProtocolVersion, other: MQTTProtocolVersion
) -> None:
    subscriber, publisher = clients(version), clients(other)
    reasons = subscriber.subscribe((f"{topic}/low/#", 0), (f"{topic}/high/+", 1), (f"{topic}/both/x", 2))
    assert [reason.value for reason in reasons] == [0, 1, 2]
    for level, qos in (("low/a", 0), ("low/a", 1), ("high/a", 0), ("high/a", 2), ("both/x", 1), ("both/x", 2)):
        publisher.publish(f"{topic}/{level}", f"{level} {qos}".encode(), qos)
    subscriber.payloads(6)
    assert {(message.payload, message.qos) for message in subscriber.messages} == {
        (b"low/a 0", 0),
        (b"low/a 1", 0),
        (b"high/a 0", 0),
        (b"high/a 2", 1),
        (b"both/x 1", 1),
        (b"both/x 2", 2),
    }
    assert not any(message.retain for message in subscriber.messages)


def test_wildcards(clients: Any, topic: str, version: MQTTProtocolVersion) -> None:
    subscriber, publisher = clients(version), clients(version)
    subscriber.subscribe((f"{topic}/+/temp", 1), ("+/deep/#", 1), (f"{topic}/#", 0))
    names = [topic, f"{topic}/a/temp", f"{topic}/deep", f"{topic}/deep/er", f"{topic}/a/b/temp", f"{topic}x/a/temp"]
    for name in names:
        publisher.publish(name, name.encode())
    publisher.publish(f"{topic}/end", b"end")
    wait_until(lambda: any(message.payload == b"end" for message in subscriber.messages), "the last")
    subscriber.payloads(6)
    assert sorted((message.topic, message.qos) for message in subscriber.messages) == sorted(
        [
            (topic, 0),
            (f"{topic}/a/temp", 1),
            (f"{topic}/deep", 1),
            (f"{topic}/deep/er", 1),
            (f"{topic}/a/b/temp", 0),
            (f"{topic}/end", 0),
        ]
    )


def test_unsubscribe(clients: Any, topic: str, version: MQTTProtocolVersion) -> None:
    subscriber, publisher = clients(version), clients(version)
    subscriber.subscribe((f"{topic}/a", 1), (f"{topic}/b", 1))
    subscriber.paho.unsubscribe([f"{topic}/a", f"{topic}/never"])
    wait_until(lambda: subscriber.unsubscribed, "UNSUBACK")
    if version == paho.MQTTv5:
        assert [reason.value for reason in subscriber.unsubscribed[0]] == [0, 0x11]
    for level in "ab":
        publisher.publish(f"{topic}/{level}", level.encode())
    assert subscriber.payloads(1) == [b"b"]


@pytest.mark.scaled
def test_order_per_topic_under_load(clients: Any, topic: str, version: MQTTProtocolVersion) -> None:
    subscriber, publisher = clients(version), clients(version)
    subscriber.subscribe((f"{topic}/#", 1))
    count = scaled(500, 2000)
    for number in range(count):
        publisher.paho.publish(f"{topic}/{number % 7}", str(number), 1)
    subscriber.payloads(count)
    by_name: dict[str, list[int]] = {}
    for message in subscriber.messages:
        by_name.setdefault(message.topic, []).append(int(message.payload))
    assert {name: numbers == sorted(numbers) for name, numbers in by_name.items()} == dict.fromkeys(by_name, True)
    assert sum(map(len, by_name.values())) == count


@cases(
    "name",
    ["/leading/slash", "sp ace/ü/日本", "%41/x", "trailing/", "//", "$own/x", "a.b/c", "x" * 200, "%DLQ%g/x"],
)
def test_names_that_cannot_be_a_topic_go_to_the_catch_all(clients: Any, name: str) -> None:
    subscriber, publisher = clients(paho.MQTTv5), clients(paho.MQTTv311)
    first = name.partition("/")[0]
    subscriber.subscribe((f"{first}/#", 1))
    publisher.publish(name, name.encode())
    assert subscriber.payloads(1) == [name.encode()]
    assert subscriber.messages[0].topic == name


def test_properties_are_carried(clients: Any, topic: str) -> None:
    subscriber, old, publisher = clients(paho.MQTTv5), clients(paho.MQTTv311), clients(paho.MQTTv5)
    for client in (subscriber, old):
        client.subscribe((f"{topic}/#", 1))
    given = Properties(PacketTypes.PUBLISH)
    given.ContentType = "application/json"
    given.ResponseTopic = "answers/here"
    given.CorrelationData = b"\x00\xff id"
    given.PayloadFormatIndicator = 1
    given.MessageExpiryInterval = 100
    given.UserProperty = [("b", "1"), ("a", "2"), ("b", "1"), ("b", "3"), ("", "ü")]
    publisher.publish(f"{topic}/x", b'{"a":1}', properties=given)
    subscriber.payloads(1)
    found = subscriber.messages[0].properties
    assert found.ContentType == "application/json"
    assert found.ResponseTopic == "answers/here"
    assert found.CorrelationData == b"\x00\xff id"
    assert found.PayloadFormatIndicator == 1
    assert found.UserProperty == [("b", "1"), ("a", "2"), ("b", "1"), ("b", "3"), ("", "ü")]
    assert 85 <= found.MessageExpiryInterval <= 100
    assert old.payloads(1) == [b'{"a":1}']


def test_an_empty_client_id_is_assigned_one(clients: Any) -> None:
    first, second = clients(paho.MQTTv5), clients(paho.MQTTv5)
    assert first.welcome.AssignedClientIdentifier != second.welcome.AssignedClientIdentifier
    for limit in ("MaximumQoS", "RetainAvailable", "SharedSubscriptionAvailable"):  # absent: all there is
        assert not hasattr(first.welcome, limit)


def test_takeover_of_a_client_id(clients: Any, topic: str) -> None:
    older = clients(paho.MQTTv5, f"id-{topic}")
    older.paho.reconnect_delay_set(60, 60)
    clients(paho.MQTTv5, f"id-{topic}")
    wait_until(lambda: older.disconnected, "the older one is told")
    assert older.disconnected[0].value == 0x8E


def test_filters_that_are_none_are_refused_each_for_itself(
    clients: Any, topic: str, version: MQTTProtocolVersion
) -> None:
    client = clients(version)
    reasons = client.subscribe((f"$share//{topic}", 1), (f"$replay/never/{topic}", 0), (f"{topic}/#", 1))
    refused = 0x8F if version == paho.MQTTv5 else 0x80
    assert [reason.value for reason in reasons] == [refused, refused, 1]


def test_a_shared_subscription_gets_no_retained_message(clients: Any, topic: str, version: MQTTProtocolVersion) -> None:
    """4.8.2: what is retained is for others only."""
    publisher, member, subscriber = clients(version), clients(version), clients(version)
    publisher.publish(topic, b"kept", 1, retain=True)
    assert [reason.value for reason in member.subscribe((f"$share/g/{topic}", 1))] == [1]
    subscriber.subscribe((topic, 1))
    assert subscriber.payloads(1) == [b"kept"]
    assert subscriber.messages[0].retain
    publisher.publish(topic, b"live", 1)
    assert member.payloads(1) == [b"live"]
    publisher.publish(topic, b"", 1, retain=True)


def test_large_payload(clients: Any, topic: str, version: MQTTProtocolVersion) -> None:
    subscriber, publisher = clients(version), clients(version)
    subscriber.subscribe((topic, 1))
    payload = bytes(range(256)) * 8192
    publisher.publish(topic, payload)
    publisher.publish(topic, b"")
    assert subscriber.payloads(2) == [payload, b""]
