"""The journey of messages that came by each door, looked up by the names that the door gave them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from tests.e2e.http.test_http_security import CHEAP, Capture, Operator, client_of
from tests.e2e.test_every_pair_of_doors import PUBLISH
from tests.support.amqp.load import parameters
from tests.support.http.pull import http_json, journey_of
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

DOORS = {"MQTT 5": "mqtt", "AMQP": "amqp", "CloudEvents": "http", "RocketMQ": "rocketmq"}
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}


@pytest.fixture(scope="module")
def server(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    settings = {"amqp.enabled": "true", "grpc.enabled": "true", "server.name": "gw-1"}
    with deploy(tmp_path_factory.mktemp("data"), settings) as running:
        yield running


@pytest.mark.parametrize("door", DOORS)
def test_the_door_the_client_and_the_gateway_of_a_traced_topic(server: Deployment, door: str) -> None:
    topic = f"traced-{DOORS[door]}"
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"trace": 1.0})
    PUBLISH[door](server, topic)
    [message] = wait_until(
        lambda: http_json(server, "GET", f"/api/v1/messages?topic={topic}")["value"], "the message is stored"
    )
    journey = journey_of(server, id=message["id"])
    first = journey["hops"][0]
    assert (first["kind"], first["door"]) == ("takenIn", DOORS[door])
    assert first["gateway"] == "gw-1"
    assert "127.0.0.1" in first["client"]
    assert [hop["kind"] for hop in journey["hops"] if not hop["isKnown"]] == ["confirmed"]
    assert journey["message"]["place"]["topic"] == topic and journey["storage"][0]["problem"] is None


@pytest.mark.parametrize("door", ["MQTT 5", "AMQP"])
def test_by_correlation_data(server: Deployment, door: str) -> None:
    topic = f"correlated-{DOORS[door]}"
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {})
    PUBLISH[door](server, topic)
    wait_until(lambda: http_json(server, "GET", f"/api/v1/messages?topic={topic}")["value"], "the message is stored")
    journey = journey_of(server, by="correlationData", topic=topic, id="c-1")
    assert journey["names"]["correlationData"] == {"value": "c-1"}
    assert journey["searched"]["messages"] == 1 and journey["searched"]["isComplete"]
    assert journey == journey_of(server, by="correlationData", topic=topic, id=b"c-1".hex())
    taken = journey["hops"][0]
    assert (taken["kind"], taken["door"], taken["client"]) == ("takenIn", DOORS[door], None)
    assert taken["gateway"] == "gw-1", "the id tells the gateway, without tracing"
    unknown = " ".join(hop["detail"] for hop in journey["hops"] if not hop["isKnown"])
    assert "Which client took it is not kept: tracing is off" in unknown


def test_by_amqp_message_id_and_what_a_consumer_gave_back(server: Deployment) -> None:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    channel = connection.channel()
    channel.queue_declare("jobs")
    channel.basic_publish("", "jobs", b"work", pika.BasicProperties(message_id="job/7?&"))
    channel.basic_publish("", "jobs", b"other", pika.BasicProperties(message_id="job 8"))

    def got() -> Any:
        method, _, body = channel.basic_get("jobs")
        return method if body == b"work" else None

    channel.basic_nack(wait_until(got, "the first delivery").delivery_tag, requeue=True)
    channel.basic_ack(wait_until(got, "the second delivery").delivery_tag)
    connection.close()
    name = {"by": "amqpMessageId", "topic": "%AMQP%jobs", "id": "job/7?&"}
    wait_until(lambda: "acknowledged" in [hop["kind"] for hop in journey_of(server, **name)["hops"]], "it is settled")
    journey = journey_of(server, **name)
    assert journey["names"]["amqpMessageId"] == "job/7?&" and journey["candidates"] == []
    [lane] = [lane for lane in journey["lanes"] if lane["kind"] == "amqp"]
    hops = [hop for hop in journey["hops"] if hop["lane"] == lane["id"]]
    assert [(hop["kind"], hop["attempt"]) for hop in hops if hop["time"]] == [("failed", 1), ("delivered", 2)]
    assert hops[1]["client"] == "consumers of AMQP queue jobs at gw-1"


def test_what_one_may_not_know_is_left_out_and_counted(tmp_path: Path, capsys: Capture) -> None:
    settings = {**CHEAP, "cluster.name": "plant"}
    with ServerProcess(tmp_path, settings) as server:
        nobody, root = Operator(server, capsys), Operator(server, capsys, "root", "canary-root")
        nobody.does("user", "create", "root", "--super", "--password-file", "-", secret="canary-root\n")
        root.does("user", "create", "bob", "--password-file", "-", secret="canary-bob\n")
        root.does("user", "create", "eve", "--password-file", "-", secret="canary-eve\n")
        root.does("acl", "set", "bob", "--allow", "SUB@Topic:orders/#", "--allow", "GET@Group:known")
        root.does("acl", "set", "eve", "--allow", "SUB@Topic:others/#")
        with client_of(server, "root", "canary-root") as admin:
            admin.put("/api/v1/topics/orders", json={"trace": 1.0}).raise_for_status()
            admin.post("/topics/orders:publish", headers=EVENT).raise_for_status()
            for group in ("known", "secret-group"):
                path = f"/topics/orders/eventsubscriptions/{group}"
                [event] = admin.post(f"{path}:receive").json()["value"]
                tokens = {"lockTokens": [event["brokerProperties"]["lockToken"]]}
                admin.post(f"{path}:reject", json=tokens).raise_for_status()
            [message] = admin.get("/api/v1/messages?topic=orders").json()["value"]
            whole = admin.get("/api/v1/journeys", params={"id": message["id"]}).json()
        assert {"group/known", "group/secret-group"} <= {lane["id"] for lane in whole["lanes"]}
        assert whole["hidden"] == {"hops": 0, "reason": None}
        with client_of(server, "bob", "canary-bob") as bob:
            for name in ({"id": message["id"]}, {"id": "1", "by": "key"}, {"id": "1", "by": "event", "source": "/me"}):
                answer = bob.get("/api/v1/journeys", params=name)
                assert answer.status_code == 200, answer.text
                assert "secret-group" not in answer.text
                seen = answer.json()
                assert seen["hidden"]["hops"] == len(whole["hops"]) - len(seen["hops"]) > 0
                assert "it takes GET or SUB" in seen["hidden"]["reason"]
                assert "deadLettered" in [hop["kind"] for hop in seen["hops"]]
            assert bob.get("/api/v1/journeys", params={"id": "1", "by": "key", "topic": "others"}).status_code == 403
        with client_of(server, "eve", "canary-eve") as eve:
            there = eve.get("/api/v1/journeys", params={"id": message["id"]})
            nowhere = eve.get("/api/v1/journeys", params={"id": "FF" * 16})
            assert (there.status_code, nowhere.status_code) == (404, 404)
            assert there.json()["detail"] == nowhere.json()["detail"].replace("FF" * 16, message["id"])
            assert eve.get("/api/v1/journeys", params={"id": "1", "by": "key"}).status_code == 404
