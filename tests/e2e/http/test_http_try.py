"""Test messages: each door's own conversion, checks and rights, and where the message lies."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.e2e.http.steps import get, is_problem
from tests.support.cases import cases
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess

TRY = "/api/v1/messages:try"
TOPICS = "/api/v1/topics"
EVENT = {"specversion": "1.0", "id": "7", "source": "/line1", "type": "reading", "data": {"n": 1}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("doors"), {"security.initial_admin": "root"}) as running:
        yield running


@pytest.fixture(scope="module")
def root(gateway: ServerProcess) -> Iterator[httpx2.Client]:
    password = (gateway.data_dir / "initial-admin-password").read_text().strip()
    with http_client(f"http://{gateway.address('http')}", auth=("root", password)) as client:
        yield client


def tried(client: httpx2.Client, door: str, **fields: Any) -> dict[str, Any]:
    answer = client.post(TRY, json={"door": door, **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["door"] == door
    return answer.json()


def at(client: httpx2.Client, answer: dict[str, Any]) -> dict[str, Any]:
    """The message where the answer says that it lies."""
    place = answer["places"][0]
    topic = place["topic"].replace("%", "%25")
    row = get(client, f"{TOPICS}/{topic}/messages/{place['queueId']}/{place['offset']}")
    assert row["id"] == answer["id"]
    return row


def properties(row: dict[str, Any], which: str = "properties") -> dict[str, str]:
    return {one["name"]: one.get("value", one.get("base64")) for one in row[which]}


def test_an_event_is_tried(root):
    row = at(root, tried(root, "http", topic="sent", event={**EVENT, "subject": "line1", "unit": "celsius"}))
    assert (row["subTopic"], row["keys"], base64.b64decode(row["body"])) == ("sent/line1", ["7"], b'{"n":1}')
    assert properties(row)["ce_unit"] == "celsius"
    is_problem(root.post(TRY, json={"door": "http", "topic": "sent", "event": {"id": "1"}}), 400)
    is_problem(root.post(TRY, json={"door": "http", "topic": "%DLQ%x", "event": EVENT}), 403)
    is_problem(root.post(TRY, json={"door": "http", "topic": "t", "namespace": "none", "event": EVENT}), 404)


def test_a_publish_of_mqtt(root):
    answer = tried(
        root,
        "mqtt",
        name="factory/line1/temp",
        payload=base64.b64encode(b"\x00\xff").decode(),
        payloadEncoding="base64",
        qos=2,
        retain=True,
        contentType="text/plain",
        userProperties=[["a", "1"], ["a", "2"]],
    )
    row = at(root, answer)
    assert (row["topic"], row["subTopic"], base64.b64decode(row["body"])) == (
        "factory",
        "factory/line1/temp",
        b"\x00\xff",
    )
    assert row["properties"] == [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    assert properties(row, "systemProperties")["content_type"] == "text/plain"
    assert root.get("/api/v1/retained/factory%2Fline1%2Ftemp").content == b"\x00\xff"
    later = tried(root, "mqtt", name="$delayed/3600/factory/later", payload="x")
    assert later["id"] and [place["topic"] for place in later["places"]] in ([], ["factory"])
    assert len(get(root, "/api/v1/timers", topic="factory")["value"]) == 1
    for name in ("", "a/#", "$SYS/x", "$delayed/x/y"):
        answer = root.post(TRY, json={"door": "mqtt", "name": name})
        assert answer.status_code in (400, 403), (name, answer.text)


def test_a_publish_of_amqp(root):
    root.put("/api/queues/%2F/tasks", json={})
    root.put("/api/exchanges/%2F/shop", json={"type": "topic"})
    root.post("/api/bindings/%2F/e/shop/q/tasks", json={"routing_key": "order.*"})
    answer = tried(
        root, "amqp", exchange="shop", routingKey="order.new", payload="one", properties={"headers": {"x": "1"}}
    )
    assert answer["routed"] is True
    assert any(place["topic"] == "%AMQP%tasks" for place in answer["places"]), answer
    assert base64.b64decode(at(root, answer)["body"]) == b"one"
    lost = tried(root, "amqp", exchange="amq.direct", routingKey="nowhere", payload="x")
    assert lost["routed"] is False
    assert tried(root, "amqp", routingKey="tasks", payload="by its name")["routed"] is True
    is_problem(root.post(TRY, json={"door": "amqp", "exchange": "none", "routingKey": "x"}), 404)
    is_problem(root.post(TRY, json={"door": "amqp", "vhost": "none", "routingKey": "x"}), 404)


def test_a_message_of_rocketmq(root):
    root.put(f"{TOPICS}/orders", json={})
    answer = tried(
        root,
        "rocketmq",
        topic="orders",
        payload="one",
        tag="new",
        keys=["k1", "k2"],
        messageGroup="customer-7",
        properties={"unit": "celsius"},
    )
    row = at(root, answer)
    assert (row["tag"], row["keys"], row["messageGroup"]) == ("new", ["k1", "k2"], "customer-7")
    assert properties(row)["unit"] == "celsius"
    assert properties(row, "systemProperties")["protocol"] == "rocketmq"
    is_problem(root.post(TRY, json={"door": "rocketmq", "topic": "orders", "payload": ""}), 400, "body")
    mixed = {
        "door": "rocketmq",
        "topic": "orders",
        "payload": "x",
        "messageGroup": "g",
        "deliverAt": "2099-01-01T00:00:00Z",
    }
    is_problem(root.post(TRY, json=mixed), 400)


@cases(
    "body, word",
    (
        ({}, "door"),
        ({"door": "smtp"}, "door"),
        ({"door": "http", "topic": "sent", "event": {**EVENT, "data": 10**30}}, "event"),
        ({"door": "mqtt"}, "name"),
        ({"door": "mqtt", "name": "a", "qos": 3}, "qos"),
        ({"door": "mqtt", "name": "a", "payload": "?", "payloadEncoding": "base64"}, "payload"),
        ({"door": "amqp", "routingKey": "a", "surprise": 1}, "surprise"),
    ),
)
def test_what_is_no_test_message_is_refused(root, body, word):
    is_problem(root.post(TRY, json=body), 400, word)


RIGHTS = (
    ({"door": "http", "topic": "gate", "event": {**EVENT, "subject": "a"}}, "gate/a"),
    ({"door": "mqtt", "name": "gate/a", "payload": "x"}, "gate/a"),
    ({"door": "amqp", "exchange": "gate", "routingKey": "a", "payload": "x"}, "gate/a"),
    ({"door": "rocketmq", "topic": "gate", "payload": "x"}, "gate"),
)


def test_the_rights_are_those_of_the_door(gateway, root):
    root.put(f"{TOPICS}/gate", json={})
    root.put("/api/v1/users/sender", json={"password": "pw"})
    with http_client(f"http://{gateway.address('http')}", auth=("sender", "pw")) as sender:
        for body, name in RIGHTS:
            for resource, status in ((f"Topic:{name}", 200), ("Topic:other", 403)):
                statement = {"effect": "ALLOW", "actions": ["PUB"], "resources": [resource]}
                assert root.put("/api/v1/acls/sender", json={"statements": [statement]}).status_code in (200, 201)
                answer = sender.post(TRY, json=body)
                assert answer.status_code == status, (body, resource, answer.text)


def test_a_test_message_is_audited(root):
    tried(root, "mqtt", name="audited/x", payload="1")
    entry = get(root, "/api/v1/audit", limit=1)["value"][0]
    assert (entry["event"], entry["subject"], entry["resource"]) == ("test message published", "root", "Topic:audited")
