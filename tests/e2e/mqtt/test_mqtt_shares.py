"""Shared subscriptions with paho and pika: members with small packets, and queues beside names of other Topics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import paho.mqtt.client as paho
import pika  # type: ignore[import-untyped]
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.amqp.load import parameters
from tests.support.processes.deployment import Deployment
from tests.support.waiting import PATIENCE_SECONDS, wait_until

COUNT = 60
SMALL, LARGE = b"s", b"l" * 500
PACKET_SIZE = 200
"""Maximum Packet Size of the member for whom LARGE is too large, in bytes."""


class Member:
    """One client, with what it got and what it was granted."""

    def __init__(self, port: int, *, expiry: int = 0, packet_size: int = 0) -> None:
        self.messages: list[bytes] = []
        self.granted: list[list[int]] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2, uuid4().hex, protocol=MQTTProtocolVersion.MQTTv5)
        connected = threading.Event()
        self.client.on_connect = lambda *_: connected.set()
        self.client.on_message = lambda client, data, message: self.messages.append(bytes(message.payload))
        self.client.on_subscribe = lambda client, data, mid, codes, properties: self.granted.append(
            [code.value for code in codes]
        )
        wanted = Properties(PacketTypes.CONNECT)
        wanted.SessionExpiryInterval = expiry
        if packet_size:
            wanted.MaximumPacketSize = packet_size
        self.client.connect("127.0.0.1", port, properties=wanted)
        self.client.loop_start()
        assert connected.wait(PATIENCE_SECONDS)

    def subscribe(self, topic_filter: str, qos: int) -> list[int]:
        before = len(self.granted)
        self.client.subscribe(topic_filter, qos)
        wait_until(lambda: len(self.granted) > before, "SUBACK")
        return self.granted[-1]

    def publish(self, name: str, payload: bytes, qos: int) -> None:
        self.client.publish(name, payload, qos).wait_for_publish(PATIENCE_SECONDS)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def member(port: int) -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def make(**options: Any) -> Member:
        made.append(Member(port, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("expiry", [0, 600])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_too_large_for_one_member_is_with_the_other(
    member: Callable[..., Member], topic: str, qos: int, expiry: int
) -> None:
    publisher = member()
    small, large = member(expiry=expiry, packet_size=PACKET_SIZE), member(expiry=expiry)
    for each in (small, large):
        assert each.subscribe(f"$share/{topic}/{topic}/#", qos) == [qos]
    for n in range(COUNT):
        publisher.publish(f"{topic}/x", LARGE if n % 3 else SMALL, qos)
    wait_until(
        lambda: len(small.messages) + len(large.messages) >= COUNT,
        lambda: f"all of them: {len(small.messages)} and {len(large.messages)}",
    )
    assert LARGE not in small.messages
    assert large.messages.count(LARGE) == COUNT - COUNT // 3
    assert len(small.messages) + len(large.messages) == COUNT


def test_queues_are_shared_before_and_after_names_whose_first_level_is_no_topic(
    member: Callable[..., Member], server: Deployment, topic: str
) -> None:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    channel = connection.channel()
    channel.confirm_delivery()
    queues = [f"{each}-{topic}" for each in ("first", "second")]
    members = [member(), member()]
    for queue in queues:
        channel.queue_declare(queue, durable=True)
    assert members[0].subscribe(f"$share/{queues[0]}/%AMQP%{queues[0]}/#", 1) == [1]
    device = member()
    for name in (f"/{topic}/temperature", f"unit.{topic}/temperature", f"Line {topic}/temperature"):
        device.publish(name, b"21.5", 1)
    assert members[1].subscribe(f"$share/{queues[1]}/%AMQP%{queues[1]}/#", 1) == [1]
    for queue in queues:
        channel.basic_publish("", queue, queue.encode())
    wait_until(lambda: all(each.messages for each in members), "the work of each queue")
    assert [each.messages for each in members] == [[queue.encode()] for queue in queues]
    connection.close()
