"""A group in detail: its lag in messages and seconds, and its consumers of every door."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx2
import paho.mqtt.client as paho
import pika  # type: ignore[import-untyped]
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.http.steps import event, get, is_problem, publish, receive, settle
from tests.support.http.client import http_client
from tests.support.http.server import serving
from tests.support.http.websocket_client import WebSocketClient
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.waiting import wait_until

TOPICS, GROUPS = "/api/v1/topics", "/api/v1/groups"


def lag(client: httpx2.Client, group: str, **query: object) -> dict[str, Any]:
    return get(client, f"{GROUPS}/{group}/lag", **query)


def test_lag_is_told_in_messages_and_seconds(tmp_path):
    with serving("embedded", tmp_path) as server, http_client(server.url) as client:
        client.put(f"{TOPICS}/jobs", json={"queues": 1})
        publish(client, "jobs", event(1))
        server.clock.advance(60)
        publish(client, "jobs", event(2), event(3))
        settle(client, "acknowledge", "jobs", receive(client, "jobs", "g", 1), "g")
        server.clock.advance(40)
        answer = lag(client, "g")
        [row] = answer["value"]
        assert (row["lag"], row["committedOffset"], row["maxOffset"], answer["lag"]) == ("2", "1", "3", "2")
        assert 40 <= row["lagSeconds"] < 55, "the oldest unsettled one, not the oldest stored one"
        assert datetime.fromisoformat(row["oldestTime"])
        assert (answer["isComplete"], answer["answered"]["missing"], answer["next"]) == (True, [], None)
        settle(client, "acknowledge", "jobs", receive(client, "jobs", "g"), "g")
        [row] = lag(client, "g")["value"]
        assert (row["lag"], row["lagSeconds"], row["oldestTime"]) == ("0", 0, None)
        assert lag(client, "g", lagging=True)["value"] == []


def test_lag_on_one_topic(client, topic):
    other = f"{topic}-more"
    for name in (topic, other):
        client.put(f"{TOPICS}/{name}", json={"queues": 1})
        publish(client, name, event(1), event(2))
        receive(client, name, topic, 1)
    assert lag(client, topic)["lag"] == "4"
    answer = lag(client, topic, topic=other)
    assert ([row["topic"] for row in answer["value"]], answer["lag"], answer["inFlight"]) == ([other], "2", "1")
    assert (lag(client, topic, topic="none")["value"], lag(client, topic, topic="none")["lag"]) == ([], "0")


def test_pages_of_queues(client, topic):
    client.put(f"{TOPICS}/{topic}", json={"queues": 5})
    client.put(f"{GROUPS}/{topic}", json={})
    publish(client, topic, event(1))
    receive(client, topic, topic)
    found, after = [], ""
    while after is not None:
        answer = lag(client, topic, limit=2, after=after)
        found += [row["queueId"] for row in answer["value"]]
        after = answer["next"]
    assert found == [0, 1, 2, 3, 4]
    assert len(lag(client, topic, lagging=True)["value"]) == 1
    is_problem(client.get(f"{GROUPS}/{topic}/lag", params={"after": "x"}), 400, "after:")
    is_problem(client.get(f"{GROUPS}/none-{topic}/lag"), 404)
    is_problem(client.get(f"{GROUPS}/none-{topic}/consumers"), 404)


def test_a_broker_that_is_away_leaves_its_part_out(tmp_path):
    with serving("cluster", tmp_path) as server, http_client(server.url) as client:
        client.put(f"{TOPICS}/jobs", json={"queues": 1})
        publish(client, "jobs", *(event(n) for n in range(8)))
        receive(client, "jobs", "g")
        wait_until(lambda: len(lag(client, "g")["value"]) == 2, "both brokers' queues")
        server.run(server.brokers[1].stop())
        answer = lag(client, "g")
        assert [missing["name"] for missing in answer["answered"]["missing"]] == ["broker-1"]
        assert (answer["isComplete"], len(answer["value"])) == (False, 1)
        server.run(server.brokers[0].stop())
        answer = lag(client, "g")
        assert (answer["lag"], answer["inFlight"], answer["value"]) == (None, None, []), "unknown is not 0"
        server.run(server.brokers[0].serve())
        server.run(server.brokers[1].serve())


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("doors")) as running:
        yield running


def consumers(server: ServerProcess, group: str) -> list[dict[str, Any]]:
    with http_client(f"http://{server.address('http')}") as client:
        answer = client.get(f"{GROUPS}/{group}/consumers")
        if answer.status_code == 404:
            return []  # the first use makes the group
        found = answer.json()
    assert (found["answered"]["missing"], found["isCut"]) == ([], False)
    return found["value"]


def seen(server: ServerProcess, group: str, door: str) -> dict[str, Any]:
    """The one consumer of a door, once it is there."""
    wait_until(lambda: [one["door"] for one in consumers(server, group)] == [door], f"the consumer of {door}")
    return consumers(server, group)[0]


def test_mqtt_shares(gateway):
    client = paho.Client(CallbackAPIVersion.VERSION2, "sharer", protocol=paho.MQTTv5)
    client.connect("127.0.0.1", gateway.port("mqtt"))
    client.loop_start()
    try:
        client.subscribe("$share/sharing/jobs/#", 1)
        found = seen(gateway, "sharing", "mqtt")
        assert (found["client"], found["topics"], found["held"]) == ("sharer", ["jobs/#"], 0)
        assert found["detail"] == "$share/sharing/jobs/#" and found["address"].startswith("127.0.0.1")
    finally:
        client.disconnect()
        client.loop_stop()
    wait_until(lambda: consumers(gateway, "sharing") == [], "its end")


def test_amqp_consumers(gateway):
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateway.port("amqp")))
    channel = connection.channel()
    channel.queue_declare("tasks")
    channel.basic_publish("", "tasks", b"one")
    channel.basic_consume("tasks", lambda *_: None, consumer_tag="mine")
    connection.process_data_events(0.2)
    found = seen(gateway, "tasks", "amqp")
    assert (found["detail"], found["topics"]) == ("mine", ["%AMQP%tasks"])
    wait_until(lambda: consumers(gateway, "tasks")[0]["held"] == 1, "its message")
    connection.close()


def test_rocketmq_consumers(gateway):
    with http_client(f"http://{gateway.address('http')}") as http:
        http.put(f"{TOPICS}/orders", json={})
        http.put(f"{GROUPS}/pushed", json={})
    done = threading.Event()

    def said() -> Iterator[v2.TelemetryCommand]:
        settings = v2.Settings(client_type=v2.PUSH_CONSUMER)
        settings.subscription.group.CopyFrom(resource("pushed"))
        settings.subscription.subscriptions.add(topic=resource("orders"))
        yield v2.TelemetryCommand(settings=settings)
        done.wait()

    with GrpcClient(gateway.address("grpc"), client_id="shop@1") as client:
        told = client.telemetry(said=said())
        next(told)
        found = seen(gateway, "pushed", "rocketmq")
        assert (found["client"], found["topics"], found["held"]) == ("shop@1", ["orders"], 0)
        told.cancel()
        done.set()


def test_members_websockets_and_webhooks(gateway):
    with http_client(f"http://{gateway.address('http')}") as client:
        for name in ("whole", "streamed"):
            client.put(f"{GROUPS}/{name}", json={})
        client.put(f"{TOPICS}/logs", json={"queues": 2})
        client.post(f"{GROUPS}/whole/topics/logs/members/m1", json={})
        member = seen(gateway, "whole", "member")
        assert (member["client"], member["topics"], member["queues"]) == ("m1", ["logs"], [0, 1])
        path = "/topics/logs/eventsubscriptions/streamed:stream"
        with WebSocketClient(gateway.port("http"), path, "cloudevents.json"):
            found = seen(gateway, "streamed", "websocket")
            assert (found["topics"], found["held"]) == (["logs"], 0) and ":" in found["client"]
        wait_until(lambda: consumers(gateway, "streamed") == [], "its end")
        sink = {"source": "logs", "sink": "https://receiver.example/", "protocol": "HTTP"}
        made = client.post("/subscriptions", json={**sink, "config": {"handshake": "off"}}).json()
        found = seen(gateway, f"webhook~{made['id']}", "webhook")
        assert (found["client"], found["detail"]) == (made["id"], "https://receiver.example")
