"""Readers of cold topics, one for each door: what they find of the message that a topic has, by its facets."""

from __future__ import annotations

from typing import Any

import pika  # type: ignore[import-untyped]

from tests.e2e.http.steps import receive
from tests.e2e.test_every_pair_of_doors import DOORS, amqp_facets, event_facets, mqtt_facets, rocketmq_facets
from tests.support.amqp.load import parameters
from tests.support.http.client import http_client
from tests.support.mqtt.client import RawClient
from tests.support.rocketmq.peers.peer import RocketMqPeer
from tests.support.tiered.cold_doors import Cold
from tests.support.waiting import wait_until


def stream(cold: Cold, name: str, count: int, start: object) -> list[tuple[Any, pika.BasicProperties, bytes]]:
    """The first messages of a stream from a start on."""
    found: list[tuple[Any, pika.BasicProperties, bytes]] = []
    with pika.BlockingConnection(parameters(cold.server.port("amqp"))) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=4)

        def take(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            found.append((method, properties, body))
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(name, take, arguments={"x-stream-offset": start})
        wait_until(lambda: connection.process_data_events(0.01) or len(found) >= count, lambda: str(found))
    return found


def replayed(cold: Cold, topic: str) -> set[str]:
    with RawClient(cold.server.port("mqtt")) as client:
        client.connect("pairs")
        client.subscribe(f"$replay/earliest/{topic}/#")
        [publish] = client.expect_deliveries(1)
    return mqtt_facets(publish, topic)


def streamed(cold: Cold, topic: str) -> set[str]:
    read = stream(cold, "pairs", len(DOORS), "first")
    [(method, has, body)] = [each for each in read if each[0].routing_key.startswith(f"{topic}.")]
    del has.headers["x-stream-offset"]
    return amqp_facets(method, has, body, topic)


def received(cold: Cold, topic: str) -> set[str]:
    cold.put_group("cold-events", start="earliest")
    with http_client(f"http://{cold.server.ports['http']}") as client:
        [value] = receive(client, topic, "cold-events")
    return event_facets(value["event"])


def consumed(cold: Cold, topic: str) -> set[str]:
    cold.put_group("cold-readers", start="earliest")
    with RocketMqPeer(cold.server.address("grpc")) as peer:
        [message] = peer.take(peer.simple("cold-readers", topic), 1)
    return rocketmq_facets(message, topic)


READ = {"MQTT 5": replayed, "AMQP": streamed, "CloudEvents": received, "RocketMQ": consumed}
