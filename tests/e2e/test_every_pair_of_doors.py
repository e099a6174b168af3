"""Published by any door, consumed by any other: what of a message survives, for each pair.

The table in `docs/cross-protocol.md` is made of `KEPT` (`python -m tests.e2e.test_every_pair_of_doors`).
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.amqp.load import parameters
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.peers.peer import Received, RocketMqPeer
from tests.support.waiting import PATIENCE_SECONDS, wait_until

DOORS = ("MQTT 5", "AMQP", "CloudEvents", "RocketMQ")
FACETS = (
    "body",
    "name",
    "content type",
    "user property",
    "correlation",
    "reply to",
    "expiry",
    "attributes",
    "ordering key",
    "tag and keys",
)
EVERYTHING = frozenset(FACETS) - {"attributes", "ordering key", "tag and keys"}
EVENT = frozenset(("body", "name", "content type", "user property", "attributes", "ordering key"))
KEPT: dict[tuple[str, str], frozenset[str]] = {
    ("MQTT 5", "MQTT 5"): EVERYTHING,
    ("MQTT 5", "AMQP"): EVERYTHING - {"expiry"},
    ("MQTT 5", "CloudEvents"): frozenset(("body", "name", "content type", "user property")),
    ("AMQP", "MQTT 5"): EVERYTHING,
    ("AMQP", "AMQP"): EVERYTHING,
    ("AMQP", "CloudEvents"): frozenset(("body", "name", "content type", "user property")),
    ("CloudEvents", "MQTT 5"): EVENT,
    ("CloudEvents", "AMQP"): EVENT,
    ("CloudEvents", "CloudEvents"): EVENT,
    ("MQTT 5", "RocketMQ"): EVERYTHING,
    ("AMQP", "RocketMQ"): EVERYTHING,
    ("CloudEvents", "RocketMQ"): frozenset(
        ("body", "name", "content type", "user property", "attributes", "ordering key")
    ),
    ("RocketMQ", "MQTT 5"): EVERYTHING,
    ("RocketMQ", "AMQP"): EVERYTHING - {"expiry"},
    ("RocketMQ", "CloudEvents"): frozenset(("body", "name", "content type", "user property", "ordering key")),
    ("RocketMQ", "RocketMQ"): frozenset(FACETS) - {"attributes"},
}
"""What is kept from one door to another, of what the first one has a word for."""
NO_WORDS: dict[str, set[str]] = {
    "MQTT 5": {"attributes", "ordering key", "tag and keys"},
    "AMQP": {"attributes", "ordering key", "tag and keys"},
    "CloudEvents": {"correlation", "reply to", "expiry", "tag and keys"},
    "RocketMQ": {"attributes"},
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "cross-protocol.md"
BEGIN, END = "<!-- every pair -->", "<!-- every pair: end -->"
BODY = b'{"temp": 21, "raw": "\\u00e9"}'


def table() -> str:
    """The table of the page."""
    lines = ["| from | to | kept | lost |", "|---|---|---|---|"]
    for (source, target), kept in KEPT.items():
        possible = set(FACETS) - NO_WORDS[source]
        lost = sorted(possible - kept, key=FACETS.index)
        lines.append(f"| {source} | {target} | {', '.join(sorted(kept, key=FACETS.index))} | {', '.join(lost)} |")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def server(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deploy(tmp_path_factory.mktemp("pairs")) as running:
        yield running


# -- publishing ------------------------------------------------------------------------------------------------------


def publish_mqtt(server: Deployment, topic: str) -> None:
    properties = {
        PropertyId.CONTENT_TYPE: "application/json",
        PropertyId.USER_PROPERTY: [("unit", "celsius")],
        PropertyId.CORRELATION_DATA: b"c-1",
        PropertyId.RESPONSE_TOPIC: "answers",
        PropertyId.MESSAGE_EXPIRY_INTERVAL: 600,
    }
    with RawClient(server.port("mqtt")) as client:
        client.connect("publisher")
        client.say(Publish(f"{topic}/line/temp", BODY, 1, 1, properties=properties))
        client.expect(object)


def publish_amqp(server: Deployment, topic: str) -> None:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    channel = connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        content_type="application/json",
        headers={"unit": "celsius"},
        correlation_id="c-1",
        reply_to="answers",
        expiration="600000",
    )
    channel.basic_publish("amq.topic", f"{topic}.line.temp", BODY, properties)
    connection.close()


def publish_event(server: Deployment, topic: str) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "e-1",
        "ce-type": "reading",
        "ce-source": "/sensors",
        "ce-subject": "line/temp",
        "ce-unit": "celsius",
        "ce-partitionkey": "p-1",
        "content-type": "application/json",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=PATIENCE_SECONDS)
    connection.request("POST", f"/topics/{topic}:publish", BODY, headers)
    assert connection.getresponse().status == 200
    connection.close()


def publish_rocketmq(server: Deployment, topic: str) -> None:
    with RocketMqPeer(server.address("grpc")) as peer:
        properties = {
            "unit": "celsius",
            "entrepot_sub_topic": f"{topic}/line/temp",
            "entrepot_content_type": "application/json",
            "entrepot_correlation_id": "c-1",
            "entrepot_reply_to": "answers",
            "entrepot_expires_at_ms": str(int(time.time() * 1000) + 600_000),
        }
        producer = peer.producer(topic)
        peer.send(producer, topic, BODY, tag="red", keys=["k-1"], group="p-1", properties=properties)


# -- what a message has of the facets ---------------------------------------------------------------------------------


def mqtt_facets(publish: Publish, topic: str) -> set[str]:
    has, user = publish.properties, dict(publish.properties.get(PropertyId.USER_PROPERTY, ()))
    facets = {
        "body": publish.payload == BODY,
        "name": publish.topic == f"{topic}/line/temp",
        "content type": has.get(PropertyId.CONTENT_TYPE) == "application/json",
        "user property": user.get("unit") == "celsius",
        "correlation": has.get(PropertyId.CORRELATION_DATA) == b"c-1",
        "reply to": has.get(PropertyId.RESPONSE_TOPIC) == "answers",
        "expiry": 500 < has.get(PropertyId.MESSAGE_EXPIRY_INTERVAL, 0) <= 600,
        "attributes": user.get("id") == "e-1" and user.get("type") == "reading",
        "ordering key": "p-1" in user.values(),
        "tag and keys": "red" in user.values() and "k-1" in user.values(),
    }
    return _true_of(facets)


def amqp_facets(method: Any, has: pika.BasicProperties, body: bytes, topic: str) -> set[str]:
    headers = has.headers or {}
    facets = {
        "body": body == BODY,
        "name": (method.exchange, method.routing_key) == ("amq.topic", f"{topic}.line.temp"),
        "content type": has.content_type == "application/json",
        "user property": "celsius" in (headers.get("unit"), headers.get("cloudEvents_unit")),
        "correlation": has.correlation_id == "c-1",
        "reply to": has.reply_to == "answers",
        "expiry": has.expiration == "600000",
        "attributes": headers.get("cloudEvents_id") == "e-1" and headers.get("cloudEvents_type") == "reading",
        "ordering key": "p-1" in headers.values(),
        "tag and keys": "red" in headers.values() and "k-1" in headers.values(),
    }
    return _true_of(facets)


def event_facets(event: dict[str, Any]) -> set[str]:
    data = event.get("data")
    raw = base64.b64decode(event["data_base64"]) if "data_base64" in event else None
    facets = {
        "body": raw == BODY if raw is not None else data == json.loads(BODY),
        "name": event.get("subject") == "line/temp",
        "content type": event.get("datacontenttype") == "application/json",
        "user property": event.get("unit") == "celsius",
        "correlation": "c-1" in json.dumps(event),
        "reply to": "answers" in json.dumps(event),
        "expiry": any("expir" in name for name in event),
        "attributes": event.get("id") == "e-1" and event.get("type") == "reading",
        "ordering key": event.get("partitionkey") == "p-1",
        "tag and keys": "red" in event.values() and "k-1" in event.values(),
    }
    return _true_of(facets)


def rocketmq_facets(message: Received, topic: str) -> set[str]:
    has = message.properties
    facets = {
        "body": message.body == BODY,
        "name": has.get("entrepot_sub_topic") == f"{topic}/line/temp",
        "content type": has.get("entrepot_content_type") == "application/json",
        "user property": "celsius" in (has.get("unit"), has.get("ce_unit")),
        "correlation": has.get("entrepot_correlation_id") == "c-1",
        "reply to": has.get("entrepot_reply_to") == "answers",
        "expiry": 500 < int(has.get("entrepot_expires_at_ms", 0)) / 1000 - time.time() <= 600,
        "attributes": has.get("ce_id") == "e-1" and has.get("ce_type") == "reading",
        "ordering key": message.group == "p-1",
        "tag and keys": (message.tag, message.keys) == ("red", ["k-1"]),
    }
    return _true_of(facets)


def _true_of(facets: dict[str, bool]) -> set[str]:
    return {facet for facet, is_kept in facets.items() if is_kept}


# -- consuming: each gives what it finds ------------------------------------------------------------------------------


class MqttReader:
    def __init__(self, server: ServerProcess, topic: str) -> None:
        self.client = RawClient(server.port("mqtt"))
        self.client.connect("reader")
        self.client.subscribe(f"{topic}/#")
        self.topic = topic

    def found(self) -> set[str]:
        with self.client:
            (publish,) = self.client.expect_deliveries(1)
        return mqtt_facets(publish, self.topic)


class AmqpReader:
    def __init__(self, server: ServerProcess, topic: str) -> None:
        self.connection = pika.BlockingConnection(parameters(server.port("amqp")))
        self.channel = self.connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.channel.queue_bind(self.queue, "amq.topic", f"{topic}.#")
        self.topic = topic

    def found(self) -> set[str]:
        got: list[Any] = []

        def is_there() -> bool:
            got[:] = self.channel.basic_get(self.queue, auto_ack=True)
            return got[0] is not None

        wait_until(is_there, "a message in the queue")
        self.connection.close()
        method, has, body = got
        return amqp_facets(method, has, body, self.topic)


class EventReader:
    def __init__(self, server: ServerProcess, topic: str) -> None:
        self.server, self.topic = server, topic

    def found(self) -> set[str]:
        path = f"/topics/{self.topic}/eventsubscriptions/readers"
        (value,) = wait_until(
            lambda: http_json(self.server, "POST", f"{path}:receive?maxWaitTime=1")["value"], "an event to receive"
        )
        return event_facets(value["event"])


class RocketMqReader:
    def __init__(self, server: ServerProcess, topic: str) -> None:
        self.server, self.topic = server, topic

    def found(self) -> set[str]:
        with RocketMqPeer(self.server.address("grpc")) as peer:
            (message,) = peer.take(peer.simple("readers", self.topic), 1)
        return rocketmq_facets(message, self.topic)


PUBLISH: dict[str, Callable[[Deployment, str], None]] = {
    "MQTT 5": publish_mqtt,
    "AMQP": publish_amqp,
    "CloudEvents": publish_event,
    "RocketMQ": publish_rocketmq,
}
READ: dict[str, Callable[[ServerProcess, str], Any]] = {
    "MQTT 5": MqttReader,
    "AMQP": AmqpReader,
    "CloudEvents": EventReader,
    "RocketMQ": RocketMqReader,
}


@pytest.mark.parametrize("target", DOORS)
@pytest.mark.parametrize("source", DOORS)
def test_pair(server: ServerProcess, source: str, target: str) -> None:
    topic = f"t{DOORS.index(source)}{DOORS.index(target)}"
    reader = READ[target](server, topic)
    PUBLISH[source](server, topic)
    assert reader.found() == KEPT[source, target]


def test_the_page_says_so() -> None:
    page = PAGE.read_text()
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == table(), (
        "run python -m tests.e2e.test_every_pair_of_doors"
    )


def main() -> None:
    """Write the table into the page."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
