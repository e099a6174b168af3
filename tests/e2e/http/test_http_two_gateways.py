"""What two gateway processes over one broker tell together: audit, settings, consumers, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import parameters
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import wait_until

CHEAP = CHEAP_FLAGS
OWN = {"security.initial_admin": "root", "security.initial_admin_password": "canary-secret"}
Clients = tuple[httpx2.Client, httpx2.Client]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path_factory.mktemp("two"), brokers=1, gateways=0)
    made.add_gateway(**CHEAP, **OWN, **{"server.name": "gw-a"})
    made.add_gateway(**CHEAP, **{"server.name": "gw-b", "mqtt.receive_maximum": "7"})
    with made:
        yield made


@pytest.fixture(scope="module")
def clients(cluster: ClusterProcesses) -> Iterator[Clients]:
    first, second = (f"http://{gateway.address('http')}" for gateway in cluster.gateways)
    auth = ("root", "canary-secret")
    with http_client(first, auth=auth) as one, http_client(second, auth=auth) as other:
        wait_until(lambda: knows(one) and knows(other), "both gateways know each other")
        yield one, other


def knows(client: httpx2.Client) -> bool:
    answered: dict[str, Any] = client.get("/api/v1/audit").json()["answered"]
    return answered["answered"] == 2


def test_the_audit_is_one_list(cluster: ClusterProcesses, clients: Clients) -> None:
    one, other = clients
    for number in range(6):
        made = clients[number % 2].put(f"/api/v1/topics/both-{number}", json={})
        assert made.status_code == 201, made.text
    lists = [client.get("/api/v1/audit", params={"resource": "topic both-"}).json() for client in clients]
    assert lists[0] == lists[1]
    value = lists[0]["value"]
    assert [entry["resource"] for entry in value] == [f"topic both-{number}" for number in reversed(range(6))]
    assert {entry["gateway"] for entry in value} == {"gw-a", "gw-b"}
    assert all(newer["gateway"] != older["gateway"] for newer, older in pairwise(value))
    paged, cursor = [], None
    while True:
        query: dict[str, Any] = {"limit": 2, "resource": "topic both-"}
        page = one.get("/api/v1/audit", params=query if cursor is None else {**query, "cursor": cursor}).json()
        paged += page["value"]
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == value
    newest = other.get("/api/v1/audit", params={"before": 10_000, "limit": 1}).json()
    assert newest["value"][0]["gateway"] == "gw-b", "numbers are a gateway's own"


def test_changes_by_amqp_are_in_it(cluster: ClusterProcesses, clients: Clients) -> None:
    credentials = pika.PlainCredentials("root", "canary-secret")
    where = parameters(cluster.gateways[0].port("amqp"))
    where.credentials = credentials
    connection = pika.BlockingConnection(where)
    try:
        channel = connection.channel()
        for _ in range(2):  # the second time nothing changes
            channel.exchange_declare("audited-exchange", durable=True)
            channel.queue_declare("audited-queue", durable=True)
            channel.queue_bind("audited-queue", "audited-exchange", "key")
        channel.queue_declare("audited-passing", exclusive=True)
        channel.queue_bind("audited-passing", "audited-exchange", "key")
        channel.queue_purge("audited-queue")
        channel.queue_unbind("audited-queue", "audited-exchange", "key")
        channel.queue_delete("audited-queue")
        channel.exchange_delete("audited-exchange")
    finally:
        connection.close()
    value = clients[1].get("/api/v1/audit", params={"resource": "audited-"}).json()["value"]
    assert [(entry["event"], entry["resource"]) for entry in reversed(value)] == [
        ("exchange declared", "exchange audited-exchange"),
        ("queue declared", "queue audited-queue"),
        ("binding created", "binding audited-exchange to audited-queue"),
        ("queue purged", "queue audited-queue"),
        ("binding deleted", "binding audited-exchange to audited-queue"),
        ("queue deleted", "queue audited-queue"),
        ("exchange deleted", "exchange audited-exchange"),
    ]
    assert {(entry["protocol"], entry["subject"], entry["gateway"]) for entry in value} == {("amqp", "root", "gw-a")}


def test_settings_have_origins_and_differences(cluster: ClusterProcesses, clients: Clients) -> None:
    one, other = clients
    answer = one.get("/api/v1/settings").json()
    assert answer["gateway"] == "gw-a"
    assert answer["answered"]["answered"] == 2
    found = {each["key"]: each for each in answer["value"]}
    name = found["server.name"]
    assert (name["value"], name["origin"], name["default"], name["isSet"]) == (
        "gw-a",
        "flag --set server.name",
        "",
        True,
    )
    assert name["different"] == [{"gateway": "gw-b", "value": "gw-b", "origin": "flag --set server.name"}]
    maximum = found["mqtt.receive_maximum"]
    assert (maximum["value"], maximum["origin"], maximum["isSet"]) == (maximum["default"], "default", False)
    assert maximum["different"] == [{"gateway": "gw-b", "value": 7, "origin": "flag --set mqtt.receive_maximum"}]
    assert found["log.level"]["different"] == []
    password = found["security.initial_admin_password"]
    assert (password["isSecret"], password["value"], password["isSet"]) == (True, "**********", True)
    assert {key for key, each in found.items() if each["isSecret"]} == {
        "security.initial_admin_password",
        "rocketmq.secret",
        "cluster.secret",
        "facts.password",
    }
    only = other.get("/api/v1/settings", params={"only": "different", "find": "receive_MAX"}).json()["value"]
    assert [(each["key"], each["value"]) for each in only] == [("mqtt.receive_maximum", 7)]
    assert one.get("/api/v1/settings", params={"only": "some"}).status_code == 400
    for client in clients:
        for path in ("/api/v1/settings", "/api/v1/audit?limit=1000"):
            assert "canary" not in client.get(path).text


def test_consumers_of_all_gateways_are_seen_at_each(cluster: ClusterProcesses, clients: Clients) -> None:
    credentials = pika.PlainCredentials("root", "canary-secret")
    connections = []
    try:
        for number, gateway in enumerate(cluster.gateways):
            where = parameters(gateway.port("amqp"))
            where.credentials = credentials
            connections.append(pika.BlockingConnection(where))
            channel = connections[-1].channel()
            channel.queue_declare("shared-work", durable=True)
            channel.basic_consume("shared-work", lambda *_: None, consumer_tag=f"tag-{number}")
        for client in clients:
            answer = client.get("/api/v1/groups/shared-work/consumers").json()
            assert (answer["answered"]["asked"], answer["answered"]["missing"]) == (2, [])
            found = {(row["gateway"], row["detail"], row["door"]) for row in answer["value"]}
            assert found == {("gw-a", "tag-0", "amqp"), ("gw-b", "tag-1", "amqp")}
    finally:
        for connection in connections:
            connection.close()


def test_a_gateway_that_is_silent_is_named(cluster: ClusterProcesses, clients: Clients) -> None:
    """The last one: it ends the second gateway."""
    one, _ = clients
    assert one.put("/api/v1/groups/silent", json={}).status_code in (200, 201)
    cluster.gateways[1].kill()
    answer = one.get("/api/v1/audit", params={"limit": 5}).json()
    assert answer["value"]
    answered = answer["answered"]
    assert (answered["asked"], answered["answered"]) == (2, 1)
    assert answered["missing"][0]["name"] == "gw-b"
    assert answered["missing"][0]["reason"]
    settings = one.get("/api/v1/settings", params={"find": "receive_maximum"}).json()
    assert settings["answered"] == {**answered, "missing": settings["answered"]["missing"]}
    assert all(each["different"] == [] for each in settings["value"]), "unknown is not another value"
    consumers = one.get("/api/v1/groups/silent/consumers").json()
    assert [missing["name"] for missing in consumers["answered"]["missing"]] == ["gw-b"]
