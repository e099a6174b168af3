"""Publishes of each door at the edges of what its protocol can say, as strategies and as senders.

What a door refuses in its own words is refused: the sender then returns the refusal, and nothing was stored.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pika  # type: ignore[import-untyped]
from hypothesis import strategies as st
from pika.exceptions import AMQPError  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.amqp.load import parameters
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deployment
from tests.support.rocketmq.peers.peer import RefusedError, RocketMqPeer
from tests.support.stores.value_space_messages import EDGES, PARTS
from tests.support.waiting import PATIENCE_SECONDS

TOPIC = "plant"
LINE = "line"


@dataclass(frozen=True)
class OddPublish:
    """One publish: its door, the name below the topic, and what the door's protocol calls its properties."""

    door: str
    below: str
    values: dict[str, Any]


@st.composite
def _texts(draw: st.DrawFn, longest: int, without: str = "") -> str:
    size = min(draw(st.sampled_from(EDGES)), longest)
    allowed = [part for part in PARTS if part not in without]
    unit = "".join(draw(st.lists(st.sampled_from(allowed), min_size=1, max_size=3)))
    text = (unit * size)[:size]
    return text.encode()[:longest].decode("utf-8", "ignore")


def _some(draw: st.DrawFn, values: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(sorted(values)), unique=True, min_size=1, max_size=3))
    return {name: draw(values[name]) for name in chosen}


_below = st.sampled_from((LINE, "é" * 200, "a" * 300, "x/" * 100 + "y", " ", "\u0085", "\ufffe", "dots.in.it"))
_NUL_FREE = "\0"


@st.composite
def mqtt_publishes(draw: st.DrawFn) -> OddPublish:
    """Of a version 5 client: its strings have no NUL (1.5.4)."""
    text = _texts(60_000, without=_NUL_FREE)
    values: dict[str, st.SearchStrategy[Any]] = {
        "content_type": text,
        "response_topic": _texts(60_000, without="\0+#").filter(bool),
        "correlation": st.sampled_from((b"", b"\xff", b"\0" * 300, b"c" * 60_000)),
        "user": st.lists(st.tuples(text, text), max_size=3),
        "expiry": st.sampled_from((1000, 0xFFFF_FFFF)),
    }
    return OddPublish("MQTT 5", draw(_below), _some(draw, values))


@st.composite
def amqp_publishes(draw: st.DrawFn) -> OddPublish:
    """Of an AMQP client: short strings have 255 bytes, all properties fit a frame of 131,072."""
    short, name = _texts(255), _texts(250).filter(bool)
    value = st.one_of(_texts(70_000), st.binary(max_size=9), st.integers(-(1 << 40), 1 << 40), st.booleans(), st.none())
    nested = st.one_of(value, st.lists(value, max_size=2), st.dictionaries(_texts(100), value, max_size=2))
    values: dict[str, st.SearchStrategy[Any]] = {
        "content_type": short,
        "reply_to": short,
        "correlation_id": short,
        "message_id": short,
        "priority": st.sampled_from((0, 255)),
        "headers": st.dictionaries(name, nested, max_size=2),
        "expiration": st.sampled_from(("999999999", "999999999999999")),
        "timestamp": st.sampled_from((0, 1 << 40)),
    }
    return OddPublish("AMQP", draw(_below)[:100], _some(draw, values))


@st.composite
def events(draw: st.DrawFn) -> OddPublish:
    """Of a CloudEvents producer, in the JSON format: what no attribute can be is refused with 400."""
    text = _texts(60_000)
    values: dict[str, st.SearchStrategy[Any]] = {
        "subject": text,
        "comment": text,
        "partitionkey": text,
        "priority": st.sampled_from((0, 255, (1 << 31) - 1, "999999999999999999999")),
        "datacontenttype": st.sampled_from(("text/plain", "a/b;c=d", "nonsense", "text/plain; charset=" + "x" * 300)),
        "flag": st.booleans(),
        "id": text,
        "source": text,
        "type": text,
    }
    return OddPublish("CloudEvents", LINE, _some(draw, values))


@st.composite
def rocketmq_publishes(draw: st.DrawFn) -> OddPublish:
    """Of a RocketMQ SDK: properties are texts, and some of them are this server's facts."""
    text = _texts(16_000)
    values: dict[str, st.SearchStrategy[Any]] = {
        "comment": text,
        "entrepot_content_type": text,
        "entrepot_reply_to": text,
        "entrepot_expires_at_ms": st.sampled_from(("999999999999999", "99999999999999999999", "x")),
        "entrepot_correlation_id": text,
        "entrepot_priority": st.sampled_from(("255", "256", "-1", "999999999999")),
    }
    return OddPublish("RocketMQ", draw(_below), _some(draw, values))


ODD: dict[str, st.SearchStrategy[OddPublish]] = {
    "MQTT 5": mqtt_publishes(),
    "AMQP": amqp_publishes(),
    "CloudEvents": events(),
    "RocketMQ": rocketmq_publishes(),
}


# -- senders: plain messages and the odd one by the same connection, each stored before the next ---------------------


class MqttSender:
    def __init__(self, server: Deployment, name: str) -> None:
        self._client = RawClient(server.port("mqtt"))
        self._client.connect(f"sender-{name}")

    def plain(self, body: bytes) -> None:
        assert self._client.publish(f"{TOPIC}/{LINE}", body).reason is ReasonCode.SUCCESS

    def odd(self, publish: OddPublish, body: bytes) -> str | None:
        has = publish.values
        named = {
            PropertyId.CONTENT_TYPE: has.get("content_type"),
            PropertyId.RESPONSE_TOPIC: has.get("response_topic"),
            PropertyId.CORRELATION_DATA: has.get("correlation"),
            PropertyId.USER_PROPERTY: has.get("user"),
            PropertyId.MESSAGE_EXPIRY_INTERVAL: has.get("expiry"),
        }
        properties = {ident: value for ident, value in named.items() if value is not None}
        self._client.say(Publish(f"{TOPIC}/{publish.below}", body, 1, 1, properties=properties))
        answer = self._client.expect(Puback)
        return None if answer.reason is ReasonCode.SUCCESS else answer.reason.name

    def close(self) -> None:
        self._client.socket.close()


class AmqpSender:
    def __init__(self, server: Deployment, name: str) -> None:
        self._port = server.port("amqp")
        self._open()

    def _open(self) -> None:
        self._connection = pika.BlockingConnection(parameters(self._port))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()

    def plain(self, body: bytes) -> None:
        self._channel.basic_publish("amq.topic", f"{TOPIC}.{LINE}", body)

    def odd(self, publish: OddPublish, body: bytes) -> str | None:
        key = f"{TOPIC}.{publish.below}"
        while len(key.encode()) > 255:
            key = key[:-1]
        try:
            self._channel.basic_publish("amq.topic", key, body, pika.BasicProperties(**publish.values))
        except (AMQPError, ValueError, AssertionError, OverflowError) as error:  # also what pika itself cannot say
            self.close()
            self._open()
            return repr(error)
        return None

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()


class EventSender:
    def __init__(self, server: Deployment, name: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=PATIENCE_SECONDS)

    def plain(self, body: bytes) -> None:
        assert self._post({"subject": LINE, "partitionkey": LINE}, body) is None

    def odd(self, publish: OddPublish, body: bytes) -> str | None:
        return self._post({"subject": publish.below, **publish.values}, body)

    def _post(self, more: dict[str, Any], body: bytes) -> str | None:
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain", **more}
        event["data"] = body.decode()
        headers = {"content-type": "application/cloudevents+json"}
        self._connection.request("POST", f"/topics/{TOPIC}:publish", json.dumps(event).encode(), headers)
        answer = self._connection.getresponse()
        told = answer.read().decode()
        assert answer.status in (200, 400, 413), (answer.status, told)
        return None if answer.status == 200 else told

    def close(self) -> None:
        self._connection.close()


class RocketMqSender:
    def __init__(self, server: Deployment, name: str) -> None:
        self._peer = RocketMqPeer(server.address("grpc"))
        self._peer.__enter__()
        self._producer = self._peer.producer(TOPIC)

    def plain(self, body: bytes) -> None:
        self._peer.send(self._producer, TOPIC, body, properties={"entrepot_sub_topic": f"{TOPIC}/{LINE}"})

    def odd(self, publish: OddPublish, body: bytes) -> str | None:
        properties = {"entrepot_sub_topic": f"{TOPIC}/{publish.below}", **publish.values}
        try:
            self._peer.send(self._producer, TOPIC, body, properties=properties)
        except RefusedError as refusal:
            return str(refusal)
        return None

    def close(self) -> None:
        self._peer.kill()


SENDERS: dict[str, Callable[[Deployment, str], Any]] = {
    "MQTT 5": MqttSender,
    "AMQP": AmqpSender,
    "CloudEvents": EventSender,
    "RocketMQ": RocketMqSender,
}
