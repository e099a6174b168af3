"""Whatever is sent, it is answered with a problem and the right status, and the server goes on."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from entrepot.gateway.settings import HttpSettings, Settings, TopicsSettings
from tests.support.cases import cases
from tests.support.http.client import http_request
from tests.support.http.server import STORES, HttpServer, serving_of
from tests.support.waiting import PATIENCE_SECONDS

CE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
SUBSCRIPTION = "/topics/known/eventsubscriptions/g"
LIMIT = 4096
SNAKE = re.compile(r"\b[a-z]+_[a-z_]+\b")
BAD_VALUES: tuple[Any, ...] = ([[]], {"no": {}}, -(2**40), 2**62, 0)


@pytest.fixture(scope="module", params=STORES)
def server(request, tmp_path_factory):
    settings = Settings(
        http=HttpSettings(max_body_bytes=LIMIT, max_batch_events=3), topics=TopicsSettings(auto_create=False)
    )
    with serving_of(request, tmp_path_factory.mktemp("data"), settings) as running:
        for name in ("known", "undrained"):
            assert http_request("PUT", f"{running.url}/api/v1/topics/{name}").status_code == 201
        for number in range(4):
            headers = {**CE, "ce-partitionkey": str(number), "ce-id": str(number)}
            http_request("POST", f"{running.url}/topics/undrained:publish", headers=headers)
        yield running


def publish(content: bytes | str = b"", headers: dict[str, str] | None = None, topic: str = "known") -> tuple:
    return "POST", f"/topics/{topic}:publish", headers or {}, content


def settle(body: object) -> tuple:
    content = body if isinstance(body, bytes) else json.dumps(body)
    return "POST", f"{SUBSCRIPTION}:acknowledge", {"content-type": "application/json"}, content


def plain(method: str, path: str, content: bytes = b"") -> tuple:
    return method, path, {}, content


CASES = {
    # publish
    "bad JSON": (400, publish(b"{nope", STRUCTURED)),
    "bad JSON in a batch": (400, publish(b"[{}", BATCH)),
    "not an object": (400, publish(b"[]", STRUCTURED)),
    "not an array": (400, publish(json.dumps(EVENT), BATCH)),
    "invalid UTF-8": (400, publish(b'{"specversion":"1.0","id":"\xff"}', STRUCTURED)),
    "missing attributes": (400, publish(b"", {"ce-id": "1"})),
    "no headers at all": (400, publish(b"")),
    "unknown specversion": (400, publish(b"", {**CE, "ce-specversion": "2.0"})),
    "bad time": (400, publish(b"", {**CE, "ce-time": "yesterday"})),
    "bad attribute name": (400, publish(b"", {**CE, "ce-bad-name": "1"})),
    "content type of another kind": (415, publish(b"{}", {"content-type": "application/json"})),
    "another event format": (415, publish(b"<e/>", {"content-type": "application/cloudevents+xml"})),
    "another batch format": (415, publish(b"<e/>", {"content-type": "application/cloudevents-batch+xml"})),
    "another charset": (415, publish(b"{}", {"content-type": "application/cloudevents+json; charset=utf-16"})),
    "coded body": (415, publish(b"\x1f\x8b", {**CE, "content-encoding": "gzip"})),
    "body over the limit": (413, publish(b"x" * (LIMIT + 1), CE)),
    "batch over the limit": (413, publish(json.dumps([EVENT] * 4), BATCH)),
    "subject too deep": (400, publish(b"", {**CE, "ce-subject": "/" * 1000})),
    "illegal topic": (400, publish(b"", CE, "a.b")),
    "topic with an encoded slash": (400, publish(b"", CE, "a%2Fb")),
    "topic that is not UTF-8": (400, publish(b"", CE, "%ff%fe")),
    "topic too long": (400, publish(b"", CE, "a" * 128)),
    "no topic": (404, publish(b"", CE, "")),
    "system topic": (403, publish(b"", CE, "%25DLQ%25workers")),
    "unknown topic": (404, publish(b"", CE, "unknown")),
    "publish by GET": (405, plain("GET", "/topics/known:publish")),
    # pull
    "maxEvents of 0": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxEvents=0")),
    "maxEvents of 101": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxEvents=101")),
    "maxEvents of text": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxEvents=many")),
    "maxWaitTime of -1": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxWaitTime=-1")),
    "maxWaitTime of 121": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxWaitTime=121")),
    "maxWaitTime of nan": (400, plain("POST", f"{SUBSCRIPTION}:receive?maxWaitTime=nan")),
    "receive from an unknown topic": (404, plain("POST", "/topics/unknown/eventsubscriptions/g:receive")),
    "receive that may create nothing, of a topic": (
        404,
        plain("POST", "/topics/unknown/eventsubscriptions/g:receive?create=false"),
    ),
    "receive that may create nothing, of a group": (
        404,
        plain("POST", "/topics/known/eventsubscriptions/nobody:receive?maxWaitTime=0&create=false"),
    ),
    "create of text": (400, plain("POST", f"{SUBSCRIPTION}:receive?create=perhaps")),
    "receive from an unknown dead-letter topic": (
        404,
        plain("POST", "/topics/%25DLQ%25nobody/eventsubscriptions/g:receive"),
    ),
    "receive from an illegal topic": (400, plain("POST", "/topics/a.b/eventsubscriptions/g:receive")),
    "receive from a system topic of no kind": (403, plain("POST", "/topics/%25X/eventsubscriptions/g:receive")),
    "receive with an encoded slash": (400, plain("POST", "/topics/a%2Fb/eventsubscriptions/g:receive")),
    "illegal group": (400, plain("POST", "/topics/known/eventsubscriptions/a.b:receive")),
    "group with an encoded slash": (400, plain("POST", "/topics/known/eventsubscriptions/a%2Fb:receive")),
    "group too long": (400, plain("POST", f"/topics/known/eventsubscriptions/{'g' * 121}:receive")),
    "negative delay": (400, plain("POST", f"{SUBSCRIPTION}:release?releaseDelayInSeconds=-1")),
    "unknown verb": (404, plain("POST", f"{SUBSCRIPTION}:forget")),
    "tokens in bad JSON": (400, settle(b"{")),
    "tokens in invalid UTF-8": (400, settle(b'{"lockTokens":["\xff"]}')),
    "no tokens": (400, settle({})),
    "an empty list of tokens": (400, settle({"lockTokens": []})),
    "too many tokens": (400, settle({"lockTokens": [""] * 1001})),
    "tokens that are no text": (400, settle({"lockTokens": [1]})),
    "tokens over the limit": (413, settle({"lockTokens": ["x" * LIMIT]})),
    "settling an illegal topic": (
        400,
        plain("POST", "/topics/a.b/eventsubscriptions/g:acknowledge", b'{"lockTokens":["x"]}'),
    ),
    "settling a group too long": (
        400,
        plain("POST", f"/topics/known/eventsubscriptions/{'g' * 300}:acknowledge", b'{"lockTokens":["x"]}'),
    ),
    # administration
    "unknown field": (400, plain("PUT", "/api/v1/topics/new", b'{"queue":1}')),
    "wrong type": (400, plain("PUT", "/api/v1/topics/new", b'{"queues":"4"}')),
    "boolean for a number": (400, plain("PUT", "/api/v1/topics/new", b'{"queues":true}')),
    "null for a number": (400, plain("PUT", "/api/v1/topics/new", b'{"queues":null}')),
    "queues out of range": (400, plain("PUT", "/api/v1/topics/new", b'{"queues":0}')),
    "unknown type": (400, plain("PUT", "/api/v1/topics/new", b'{"type":"FIFO"}')),
    "body of a PUT in bad JSON": (400, plain("PUT", "/api/v1/topics/new", b"{")),
    "body of a PUT over the limit": (413, plain("PUT", "/api/v1/topics/new", b" " * (LIMIT + 1))),
    "queues shrink": (409, plain("PUT", "/api/v1/topics/undrained", b'{"queues":1}')),
    "illegal topic name": (400, plain("PUT", "/api/v1/topics/a.b")),
    "system topic name": (403, plain("PUT", "/api/v1/topics/%25new")),
    "unknown topic to show": (404, plain("GET", "/api/v1/topics/unknown")),
    "unknown topic to delete": (404, plain("DELETE", "/api/v1/topics/unknown")),
    "illegal group name": (400, plain("PUT", "/api/v1/groups/a%2Fb")),
    "bad start": (400, plain("PUT", "/api/v1/groups/new", b'{"start":"soon"}')),
    "attempts out of range": (400, plain("PUT", "/api/v1/groups/new", b'{"maxAttempts":0}')),
    "unknown group to show": (404, plain("GET", "/api/v1/groups/unknown")),
    "unknown group to delete": (404, plain("DELETE", "/api/v1/groups/unknown")),
    # routes
    "unknown route": (404, plain("GET", "/nothing/here")),
    "a slash too many": (404, plain("GET", "/healthz/")),
    "wrong method": (405, plain("POST", "/healthz")),
    "wrong method of a pull": (405, plain("GET", f"{SUBSCRIPTION}:receive")),
}


@cases("name", CASES)
def test_bad_input_is_answered_with_a_problem(client, name):
    status, (method, path, headers, content) = CASES[name]
    answer = client.request(method, path, headers=headers, content=content)
    _is_problem(answer, status)
    assert "Traceback" not in answer.text
    _still_works(client)


def test_a_batch_names_the_event_at_fault(client):
    answer = client.post("/topics/known:publish", content=json.dumps([EVENT, {**EVENT, "id": ""}]), headers=BATCH)
    _is_problem(answer, 400)
    assert "event 1 of the batch" in answer.json()["detail"] and answer.json()["attribute"] == "id"
    deep = {**EVENT, "subject": "/" * 1000}
    answer = client.post("/topics/known:publish", content=json.dumps([EVENT, EVENT, deep]), headers=BATCH)
    _is_problem(answer, 400)
    assert "event 2 of the batch" in answer.json()["detail"]
    assert _received(client) == []  # none of a bad batch is kept


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: HttpServer, client):
    head = "".join(f"{name}: {value}\r\n" for name, value in CE.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(
            f"POST /topics/known:publish HTTP/1.1\r\nhost: [::1]\r\n{head}transfer-encoding: chunked\r\n\r\n".encode()
        )
        for _ in range(5):
            raw.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")
    _still_works(client)


def test_a_declared_length_over_the_limit_is_refused_before_the_body(server: HttpServer, client):
    head = "".join(f"{name}: {value}\r\n" for name, value in CE.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw:
        raw.sendall(
            f"POST /topics/known:publish HTTP/1.1\r\nhost: [::1]\r\n{head}content-length: 99999999\r\n\r\n".encode()
        )
        assert raw.recv(4096).startswith(b"HTTP/1.1 413")
    _still_works(client)


def test_bytes_that_are_not_http_are_refused(server: HttpServer, client):
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw:
            raw.sendall(junk)
            assert raw.recv(4096).startswith(b"HTTP/1.1 400")
    _still_works(client)


def test_queues_that_are_not_drained_do_not_go(client):
    assert client.put("/api/v1/topics/full", json={"queues": 2}).status_code == 201
    for _ in range(4):
        assert client.post("/topics/full:publish", headers=CE, content=b"x").status_code == 200
    _is_problem(client.put("/api/v1/topics/full", json={"queues": 1}), 409)
    assert client.get("/api/v1/topics/full").json()["queues"] == 2


def test_a_fault_of_ours_is_told_without_details(server: HttpServer, client, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("the secret")

    monkeypatch.setattr(server.store.topology, "topic", broken)
    with capture_logs() as logged:
        for path in ("/topics/known:publish", f"{SUBSCRIPTION}:receive"):
            answer = client.post(path, headers=CE)
            _is_problem(answer, 500)
            assert "secret" not in answer.text
    assert [(entry["log_level"], str(entry["exc_info"])) for entry in logged] == [("error", "the secret")] * 2
    monkeypatch.undo()
    _still_works(client)


def _is_problem(answer: httpx2.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] and problem["title"] and problem["detail"]
    assert problem["error"]["code"] and problem["error"]["message"] == problem["detail"]


def _still_works(client: httpx2.Client) -> None:
    assert client.post("/topics/known:publish", headers=CE, content=b"ok").status_code == 200
    received = _received(client)
    assert [one["event"]["data_base64"] for one in received] == ["b2s="]
    tokens = [one["brokerProperties"]["lockToken"] for one in received]
    answer = client.post(f"{SUBSCRIPTION}:acknowledge", json={"lockTokens": tokens})
    assert answer.json()["failedLockTokens"] == []


def _received(client: httpx2.Client) -> list[dict]:
    return client.post(f"{SUBSCRIPTION}:receive?maxWaitTime=0&maxEvents=100").json()["value"]


def test_members_are_named_as_json_has_them(client: httpx2.Client) -> None:
    """Whatever is wrong with a member of a body, the refusal names it in the API's spelling."""
    document = client.get("/openapi.json").json()
    asked = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None or not path.startswith("/api/v1/") or "namespaces" in path:
                continue
            url = path.replace("{name}", "known").replace("{", "").replace("}", "")
            for member in content["schema"].get("properties", ()):  # a body of several kinds has none in common
                for value in BAD_VALUES:
                    answer = client.request(method, url, json={member: value})
                    asked += answer.status_code == 400
                    said = answer.json()["detail"] if answer.status_code == 400 else ""
                    assert not SNAKE.search(said.partition(", not ")[0]), (url, member, value, said)
    assert asked > 50
    for member, value in (("writeQueues", 99), ("maxBacklog", -1), ("retentionSeconds", 0)):
        answer = client.put("/api/v1/topics/members", json={member: value})
        assert answer.json()["detail"].startswith(f"{member} must be "), answer.text
        many = client.put("/api/v1/topics", json={"value": [{"name": "members", member: value}]}).json()["value"]
        assert many[0]["error"]["message"].startswith(f"{member} must be ")
    for member, value in (("maxAttempts", 0), ("invisibleSeconds", 99_999), ("maxInFlight", 0)):
        answer = client.put("/api/v1/groups/members", json={member: value})
        assert answer.json()["detail"].startswith(f"{member} must be "), answer.text
    retry = {"kind": "exponential", "initialMs": -5}
    _is_problem(answer := client.put("/api/v1/groups/members", json={"retry": retry}), 400)
    assert answer.json()["detail"].startswith("initialMs must be ")
