"""One request of every operation, to a server that has something of everything; each answer is held against the
document."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx2
import paho.mqtt.client as paho
import pika  # type: ignore[import-untyped]
from paho.mqtt.enums import CallbackAPIVersion

from entrepot.protocols.rocketmq.headers import Credentials
from tests.e2e.http.documented import Described
from tests.e2e.http.steps import event
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.telemetry import push_consumer, telemetry
from tests.support.waiting import wait_until

ROOT = ("root", "root")
V1 = "/api/v1"
SUBSCRIPTION = "/topics/known/eventsubscriptions/workers"
SINK = {"source": "known", "sink": "https://receiver.example/", "protocol": "HTTP", "config": {"handshake": "off"}}
STATEMENT = {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:known"]}
LATER = "2027-12-24T18:00:00Z"


class Asking:
    """A client whose answers are held against the document."""

    def __init__(self, client: httpx2.Client, described: Described) -> None:
        self._client, self._described = client, described

    def __call__(self, method: str, url: str, body: Any = None, **options: Any) -> httpx2.Response:
        json = {} if body is None else {"json": body}
        answer = self._client.request(method, url, **json, **options)
        self._described.check(method, url, answer)
        assert answer.status_code < 400, (method, url, answer.text)
        return answer

    def refused(self, method: str, url: str, body: Any = None) -> None:
        """The same for what cannot be done."""
        answer = self._client.request(method, url, json=body)
        self._described.check(method, url, answer)
        assert answer.status_code >= 400, (method, url)


def ask_everything(server: ServerProcess, client: httpx2.Client, described: Described) -> None:
    ask = Asking(client, described)
    _topics_and_events(ask)
    _groups(ask)
    _messages(ask)
    _mqtt(ask, server)
    _amqp(ask, server)
    _rocketmq(ask, server)
    _server(ask)
    _users(ask)
    ask("POST", f"{V1}/session", {"name": ROOT[0], "password": ROOT[1]})
    ask("DELETE", f"{V1}/session", headers={"x-entrepot-dashboard": "1"})
    for method, url in (("GET", f"{V1}/topics/nix"), ("GET", "/api/queues/%2F/nix"), ("PUT", f"{V1}/brokers/b")):
        ask.refused(method, url, {"isDraining": True} if method == "PUT" else None)


def _events(ask: Asking, *events: dict[str, object]) -> None:
    ask("POST", "/topics/known:publish", list(events), headers={"content-type": "application/cloudevents-batch+json"})


def _topics_and_events(ask: Asking) -> None:
    for _ in range(2):
        ask("PUT", f"{V1}/topics/known", {"queues": 2, "maxMessageBytes": 10_000, "trace": 1})
    ask("PUT", f"{V1}/topics", {"value": [{"name": "many"}, {"name": "a.b"}]})
    ask("GET", f"{V1}/topics")
    ask("PUT", f"{V1}/topics/known/event-rules", {"dedupSeconds": 1, "schema": {"type": "object"}})
    ask("GET", f"{V1}/topics/known/event-rules")
    assert ask("GET", f"{V1}/event-rules").json()["value"]
    ask("DELETE", f"{V1}/topics/known/event-rules")
    ask("OPTIONS", "/topics/known:publish")
    _events(ask, *(event(n, data={"n": n}) for n in range(5)))
    ask("PUT", f"{V1}/groups/workers", {"maxAttempts": 2})
    for verb in ("renewLock", "release", "reject", "acknowledge"):
        [one] = ask("POST", f"{SUBSCRIPTION}:receive?maxWaitTime=1").json()["value"]
        tokens = {"lockTokens": [one["brokerProperties"]["lockToken"], "AQ"]}
        assert len(ask("POST", f"{SUBSCRIPTION}:{verb}", tokens).json()["succeededLockTokens"]) == 1
    for kind in ({}, {"sinkcredential": {"credentialtype": "PLAIN", "identifier": "a", "secret": "b"}}):
        made = ask("POST", "/subscriptions", {**SINK, **kind}).json()
    ask("GET", "/subscriptions")
    path = f"/subscriptions/{made['id']}"
    ask("GET", path)
    ask("PUT", path, made)
    assert ask("GET", f"{V1}/webhooks").json()["value"]
    ask("GET", f"{V1}/webhooks/{made['id']}")
    ask("DELETE", path)


def _groups(ask: Asking) -> None:
    of_group, members = f"{V1}/groups/workers", f"{V1}/groups/readers/topics/known"
    ask("PUT", of_group, {"filter": {"kind": "TAG", "text": "a"}, "retry": {"kind": "list", "delaysMs": [1]}})
    ask("PUT", of_group, {"filter": None})
    ask("GET", of_group)
    ask("GET", f"{V1}/groups")
    ask("PUT", f"{V1}/groups/readers", {})
    assigned = ask("POST", f"{members}/members/m1", {}).json()
    ask("GET", f"{members}/members")
    assert ask("GET", f"{V1}/groups/readers/consumers").json()["value"]
    assert ask("GET", f"{of_group}/lag").json()["value"]
    queue = assigned["queues"][0]["queueId"]
    offsets = [{"queueId": queue, "offset": assigned["queues"][0]["maxOffset"]}]
    ask("POST", f"{members}/offsets", {"member": "m1", "generation": assigned["generation"], "offsets": offsets})
    ask("DELETE", f"{members}/members/m1")
    ask("POST", f"{of_group}:reset", {"topic": "known", "to": "latest"})
    assert len(ask("GET", f"{of_group}/dead-letters").json()["value"]) == 1
    ask("GET", f"{of_group}/dead-letters:export")
    ask("POST", f"{of_group}/dead-letters:resend", {"offsets": [0, 99]})
    assert ask("GET", f"{of_group}/dead-letters:reasons").json()["value"]
    ask("POST", f"{of_group}/dead-letters:delete", {"offsets": [0, 99]})
    ask("POST", f"{of_group}/dead-letters:resend", {"reason": "none"})
    ask("DELETE", f"{V1}/groups/readers")


def _messages(ask: Asking) -> None:
    found = ask("GET", f"{V1}/messages?topic=known").json()["value"]
    assert found
    for below in ("", "/consumers", "/trace"):
        ask("GET", f"{V1}/messages/{found[-1]['id']}{below}")
    ask("GET", f"{V1}/journeys?id={found[-1]['id']}")
    ask("GET", f"{V1}/journeys?by=key&topic=known&id={found[-1]['keys'][0]}")
    assert ask("GET", f"{V1}/topics/known/queues/{found[0]['queueId']}/messages?offset=0").json()["value"]
    viewed = ask("GET", f"{V1}/topics/known/messages?limit=1").json()["value"][0]
    place = f"{V1}/topics/known/messages/{viewed['queueId']}/{viewed['offset']}"
    ask("GET", place)
    ask("GET", f"{place}/body")
    assert ask("GET", f"{V1}/topics/known/messages?queue={viewed['queueId']}").json()["value"]
    assert ask("GET", f"{V1}/topics?limit=1").json()["next"]
    ask("GET", f"{V1}/groups?limit=1")
    _events(ask, event(50, deliverytime=LATER))
    [timer] = ask("GET", f"{V1}/timers?topic=known").json()["value"]
    ask("GET", f"{V1}/transactions")
    assert ask("POST", f"{V1}/messages:try", {"door": "mqtt", "name": "known/tried", "payload": "1"}).json()["places"]
    moved = ask("PUT", f"{V1}/timers/{timer['handle']}", {"deliverAt": "2027-12-25T18:00:00Z"}).json()
    ask("DELETE", f"{V1}/timers/{moved['handle']}")
    ask("DELETE", f"{V1}/topics/many")
    ask("GET", f"{V1}/topics/known")


def _mqtt(ask: Asking, server: ServerProcess) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, "line-1", protocol=paho.MQTTv5)
    client.username_pw_set(*ROOT)
    client.will_set("known/gone", "x")
    client.connect("127.0.0.1", server.port("mqtt"))
    client.loop_start()
    try:
        wait_until(lambda: "line-1" in str(ask("GET", f"{V1}/clients").json()), "the client")
        ask("PUT", f"{V1}/traces/line-1", {"seconds": 60})
        client.subscribe("known/#", 1)
        client.publish("known/kept", "21.5", 1, retain=True).wait_for_publish(5)
        wait_until(lambda: ask("GET", f"{V1}/subscriptions").json()["value"], "its subscription")
        wait_until(lambda: ask("GET", f"{V1}/retained").json()["value"], "what is retained")
        assert ask("GET", f"{V1}/traces/line-1").json()["packets"]
        assert [each["target"] for each in ask("GET", f"{V1}/traces").json()["value"]] == ["line-1"]
        ask("DELETE", f"{V1}/traces/line-1")
        ask("GET", f"{V1}/clients/line-1")
        assert ask("GET", f"{V1}/clients/line-1/events").json()["value"]
        ask("GET", f"{V1}/slow-subscribers")
        ask("GET", f"{V1}/retained/known%2Fkept")
        ask("DELETE", f"{V1}/retained/known%2Fkept")
        ask("DELETE", f"{V1}/retained?filter=known/%23")
        assert ask("GET", f"{V1}/sessions").json()["value"]
        ask("GET", f"{V1}/sessions/line-1")
        ask("POST", f"{V1}/clients:disconnect", {"ids": ["line-1", "nobody"]})
        wait_until(lambda: "line-1" in str(ask("GET", f"{V1}/clients").json()), "the client again")
        ask("DELETE", f"{V1}/clients/line-1")
        wait_until(lambda: "line-1" in str(ask("GET", f"{V1}/clients").json()), "the client once more")
        ask("DELETE", f"{V1}/sessions/line-1")
    finally:
        client.loop_stop()
        client.disconnect()


def _amqp(ask: Asking, server: ServerProcess) -> None:
    exchange, queue = "/api/exchanges/%2F/shop", "/api/queues/%2F/jobs"
    for _ in range(2):
        ask("PUT", exchange, {"type": "topic"})
        ask("PUT", queue, {"arguments": {"x-max-length": 100}})
        for kind in ("policies", "operator-policies"):
            ask("PUT", f"/api/{kind}/%2F/limits", {"pattern": "^jobs", "definition": {"max-length": 50}})
        ask("PUT", "/api/vhosts/plant")
    between = "/api/bindings/%2F/e/shop/q/jobs"
    key = ask("POST", between, {"routing_key": "line1.*", "arguments": {"a": 1}}).headers["location"].rpartition("/")[2]
    ask("POST", f"{exchange}/publish", {"routing_key": "line1.a", "payload": "x", "properties": {"headers": {"a": 1}}})
    ask("POST", f"{queue}/get", {})
    connection = pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", server.port("amqp"), credentials=pika.PlainCredentials(*ROOT))
    )
    try:
        channel = connection.channel()
        channel.basic_consume("jobs", lambda *_: None, consumer_tag="c1")
        for kind in ("exchanges", "queues", "bindings", "consumers", "policies", "operator-policies"):
            for url in (f"/api/{kind}", f"/api/{kind}/%2F", f"/api/{kind}?page=1&sort=name"):
                assert ask("GET", url).json(), url
        for url in (exchange, queue, f"{queue}/bindings", between, f"{between}/{key}"):
            ask("GET", url)
        for url in (f"{exchange}/bindings/source", f"{exchange}/bindings/destination", "/api/vhosts/%2F/connections"):
            ask("GET", url)
        for kind in ("connections", "channels"):
            [one] = ask("GET", f"/api/{kind}").json()
            ask("GET", f"/api/{kind}/{quote(one['name'], safe='')}")
        name = quote(one["name"].rpartition(" (")[0], safe="")
        ask("GET", f"/api/connections/{name}/channels")
        for url in ("/api/vhosts/%2F/channels", f"/api/connections/username/{ROOT[0]}"):
            assert ask("GET", url).json(), url
        ask("DELETE", "/api/connections/username/nobody")
        for url in ("amqp/connections", f"amqp/connections/{name}", "amqp/consumers?queue=jobs"):
            ask("GET", f"{V1}/{url}")
        ask("POST", f"{V1}/amqp/connections:close", {"names": ["nobody"]})
        ask("DELETE", f"/api/connections/{name}", headers={"x-reason": "done"})
    finally:
        try:
            connection.close()
        except pika.exceptions.AMQPError:
            pass  # it has been closed from here
    for kind in ("policies", "operator-policies"):
        ask("GET", f"/api/{kind}/%2F/limits")
    ask("PUT", "/api/vhosts/plant", {"description": "Ulm", "tags": ["eu"]})
    ask("PUT", "/api/vhost-limits/plant/max-queues", {"value": 5})
    ask("PUT", "/api/global-parameters/region", {"value": {"name": "eu"}})
    ask("PUT", "/api/users/limited", {"password": "a long one", "tags": "management"})
    ask("PUT", "/api/user-limits/limited/max-channels", {"value": 5})
    for _ in range(2):
        ask("PUT", "/api/topic-permissions/%2F/limited", {"exchange": "amq.topic", "write": "^a", "read": ""})
    for url in (
        *("vhost-limits", "vhost-limits/plant", "user-limits", "user-limits/limited", "users/without-permissions"),
        *("topic-permissions", "topic-permissions/%2F/limited", "users/limited/topic-permissions"),
        *("vhosts/%2F/topic-permissions", "global-parameters", "global-parameters/region", "parameters"),
        *("parameters/vhost-limits", "parameters/vhost-limits/plant"),
    ):
        assert ask("GET", f"/api/{url}").json(), url
    for url in ("/api/definitions", "/api/definitions/%2F"):
        ask("POST", f"{url}?report=true", ask("GET", url).json())
        ask("POST", url, {})
    ask("DELETE", f"{between}/{key}")
    for url in (
        *("vhost-limits/plant/max-queues", "user-limits/limited/max-channels", "topic-permissions/%2F/limited"),
        "global-parameters/region",
    ):
        ask("DELETE", f"/api/{url}")
    ask("POST", "/api/users/bulk-delete", {"users": ["limited"]})
    ask("DELETE", f"{queue}/contents")
    for url in (queue, exchange, "/api/vhosts/plant", "/api/policies/%2F/limits", "/api/operator-policies/%2F/limits"):
        ask("DELETE", url)


def _rocketmq(ask: Asking, server: ServerProcess) -> None:
    ask("PUT", f"{V1}/users/rocket", {"password": "a long one", "signingSecret": "a secret", "super": True})
    credentials = Credentials("rocket", "a secret")
    with (
        GrpcClient(server.address("grpc"), credentials, client_id="rocket-1") as client,
        telemetry(client, push_consumer("workers", "known")),
    ):
        assert ask("GET", f"{V1}/rocketmq/clients").json()["value"]
        assert ask("GET", f"{V1}/connected-clients?door=rocketmq").json()["value"]
        ask("DELETE", f"{V1}/rocketmq/clients/rocket-1")
    ask("POST", f"{V1}/rocketmq/clients:disconnect", {"ids": ["nobody"]})
    ask("POST", f"{V1}/connected-clients:disconnect", {"clients": [{"door": "mqtt", "id": "nobody"}]})
    ask("DELETE", f"{V1}/users/rocket")


def _server(ask: Asking) -> None:
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/metrics/rabbitmq",
        "/metrics/rabbitmq/per-object",
        "/asyncapi.json",
        f"{V1}/tiering",
        f"{V1}/brokers",
        f"{V1}/controllers",
        f"{V1}/gateways",
        f"{V1}/overview",
        f"{V1}/overview/history?span=300",
        f"{V1}/session",
        f"{V1}/bridges",
        f"{V1}/rocketmq-bridges",
        f"{V1}/ingest-jobs",
    ):
        ask("GET", path)
    for _ in range(2):
        ask("PUT", f"{V1}/namespaces/team", {})
    ask("GET", f"{V1}/namespaces/team")
    ask("GET", f"{V1}/namespaces")
    ask("DELETE", f"{V1}/namespaces/team")
    for path in (
        "overview",
        "whoami",
        "cluster-name",
        "extensions",
        "feature-flags",
        "vhosts",
        "vhosts/%2F",
        "aliveness-test/%2F",
        "parameters",
    ):
        ask("GET", f"/api/{path}")
    checks = ("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical")
    port = ask("GET", "/api/overview").json()["listeners"][0]["port"]
    ports = (f"port-listener/{port}", "protocol-listener/http", "certificate-expiration/4/weeks")
    for path in (*(f"health/checks/{each}" for each in (*checks, *ports)), "healthchecks/node", "vhost-limits"):
        ask("GET", f"/api/{path}")
    [node] = ask("GET", "/api/nodes").json()
    ask("GET", f"/api/nodes/{node['name']}")


def _users(ask: Asking) -> None:
    user, policy, permission = f"{V1}/users/bob", f"{V1}/acls/bob", "/api/permissions/%2F/bob"
    for _ in range(2):
        ask("PUT", user, {"password": "a long one"})
        ask("PUT", policy, {"statements": [STATEMENT]})
        ask("PUT", permission, {"configure": "", "write": ".*", "read": ".*"})
        ask("PUT", "/api/users/eve", {"password": "a long one", "tags": ""})
    for url in (user, policy, f"{V1}/users", f"{V1}/acls", f"{V1}/audit", "/api/users", "/api/users/bob", permission):
        ask("GET", url)
    for url in ("/api/permissions", "/api/vhosts/%2F/permissions", "/api/users/bob/permissions"):
        assert ask("GET", url).json()
    ask("GET", "/api/topic-permissions")
    ask("GET", f"{V1}/acls:explain?subject=bob&action=PUB&resource=Topic:known")
    ask("GET", f"{V1}/acls:explain?subject=eve&action=PUB&resource=Topic:known")
    for subject in ("bob", "root", "nobody"):
        ask("GET", f"{V1}/acls:effective?subject={subject}")
    ask("GET", f"{V1}/acls:who?resource=Topic:known&may=all")
    ask("GET", f"{V1}/settings")
    for url in (permission, policy, user, "/api/users/eve"):
        ask("DELETE", url)
