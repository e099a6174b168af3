"""The audit log: every administrative change has one entry, without secrets, and pages go on where they ended."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.row.change_names import change_of, resource_of
from entrepot.gateway.settings import SecuritySettings, Settings
from tests.e2e.http.every_route import every_route
from tests.e2e.http.operations import ONLY_SUPER, OPERATIONS, SINK, Operation
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving

AUDIT = "/api/v1/audit"
TRAFFIC = re.compile(
    r".*/topics/[^/]*:publish|.*:(receive|acknowledge|release|reject|renewLock)|.*/members/[^/]+|.*/offsets|"
    r"/api/exchanges/.*/publish|/webhooks/consent/.*|/api/v1/session"
)
"""Paths that change nothing for an operator, or that tell the audit log themselves."""
OF_SEVERAL = re.compile(r"/api/v1/.*:(close|disconnect)|/api/users/bulk-delete")
"""Paths with an entry for each connection or user that was there, which is none here."""
UNSURE = {500, 503, 504}
TOLD_BELOW = re.compile(r"/api/(v1/)?(users|acls|permissions)/.*")
"""Changes that `Administration` audits, whatever their way."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    cheap = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    with serving("memory", tmp_path_factory.mktemp("data"), Settings(security=cheap)) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url, auth=("root", "root")) as client:
        assert client.put("/api/v1/namespaces/plant", json={}).status_code == 201
        for below in ("", "/namespaces/plant"):
            for path in (f"/api/v1{below}/topics/grid", f"/api/v1{below}/groups/workers"):
                assert client.put(path, json={}).status_code == 201
        yield client


def entries(root: httpx2.Client, **query: Any) -> list[dict[str, Any]]:
    answer = root.get(AUDIT, params={"limit": 1000, **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["value"]
    return found


def last_number(root: httpx2.Client) -> int:
    return max((entry["number"] for entry in entries(root)), default=0)


@cases("operation", [*OPERATIONS, *ONLY_SUPER], ids=lambda operation: f"{operation.protocol} {operation.name}")
def test_each_change_has_one_entry(root: httpx2.Client, operation: Operation) -> None:
    before = last_number(root)
    answer = operation.send(root)
    new = [entry for entry in entries(root, kind="changes") if entry["number"] > before]
    method, _, path = operation.name.partition(" ")
    plain = path.partition("?")[0]
    is_change = method != "GET" and not TRAFFIC.fullmatch(plain) and not OF_SEVERAL.fullmatch(plain)
    expected = int(is_change and (answer.status_code < 300 or answer.status_code in UNSURE))
    assert len(new) == expected, (answer.status_code, new)
    for entry in new:
        assert entry["subject"] == "root"
        assert entry["source"] == "127.0.0.1"
        assert entry["resource"]
        if not TOLD_BELOW.fullmatch(path):
            assert entry["action"].startswith(f"{method} /")
            assert f"status {answer.status_code}" in entry["detail"]


def test_no_route_leaves_the_audit_unseen(server: HttpServer) -> None:
    """A new route of a writing method is audited, or this test is told why not."""
    writing = [route for route in every_route() if route.method in ("POST", "PUT", "DELETE", "PATCH")]
    unaudited = [(route.method, route.path) for route in writing if not route.change]
    assert unaudited
    for method, path in unaudited:
        given = re.sub(r"\{\w+\}", "x", path)
        assert TRAFFIC.fullmatch(given) or TOLD_BELOW.fullmatch(given), f"{method} {path}"


def test_names_come_from_the_template() -> None:
    assert change_of("PUT", "/api/v1/topics/{name}") == "topic changed"
    assert change_of("DELETE", "/api/v1/namespaces/{namespace}/topics/{name}/event-rules") == "event rule deleted"
    assert change_of("POST", "/api/v1/groups/{name}:reset") == "group reset"
    assert change_of("PUT", "/api/policies/{vhost}/{name}") == "policy changed"
    assert change_of("GET", "/api/v1/topics") == ""
    assert resource_of("/api/v1/topics/{name}/event-rules", {"name": "a"}) == "topic a"
    both = {"name": "a", "namespace": "plant"}
    assert resource_of("/api/v1/namespaces/{namespace}/groups/{name}:reset", both) == "group plant/a"
    assert resource_of("/api/queues/{vhost}/{name}", {"vhost": "/", "name": "jobs"}) == "queue jobs"
    assert resource_of("/api/queues/{vhost}/{name}", {"vhost": "team", "name": "jobs"}) == "queue team/jobs"


def test_what_is_told_of_a_change(root: httpx2.Client) -> None:
    before = last_number(root)
    made = root.put("/api/v1/topics/told", json={})
    assert made.status_code == 201
    assert root.put("/api/v1/topics/told", json={"retentionSeconds": 60}).status_code == 200
    assert root.put("/api/v1/topics/told", json={"retentionSeconds": "x"}).status_code == 400
    many = root.put("/api/v1/topics", json={"value": [{"name": "one"}, {"name": "no\u202ename"}]})
    assert many.status_code == 200
    reset = root.post("/api/v1/groups/workers:reset", json={"topic": "grid", "to": "earliest"})
    assert reset.status_code == 200
    assert root.delete("/api/v1/topics/told").status_code == 204
    new = [entry for entry in entries(root) if entry["number"] > before]
    assert [(each["event"], each["resource"], each["detail"]) for each in reversed(new)] == [
        ("topic created", "topic told", "status 201"),
        ("topic changed", "topic told", "status 200"),
        ("topics changed", "topic", "1 topics, 1 refused, status 200"),
        ("group reset", "group workers", "on topic grid to earliest, status 200"),
        ("topic deleted", "topic told", "status 204"),
    ]
    assert {(each["protocol"], each["isRefusal"], each["gateway"]) for each in new} == {
        ("http", False, new[0]["gateway"])
    }


def test_a_change_of_unknown_outcome_is_told(
    server: HttpServer, root: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*arguments: object) -> None:
        raise EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(server.parts.store.topology, "put_group", lost)
        assert root.put("/api/v1/groups/workers", json={"maxAttempts": 3}).status_code == 504
        patched.setattr(server.parts.store.key_values, "write", lost)
        assert root.put("/api/v1/users/lost", json={"password": "canary"}).status_code == 504
    user, group = entries(root)[:2]
    assert (group["event"], group["detail"]) == ("group changed (outcome unknown)", "status 504")
    assert (user["event"], user["resource"], user["detail"]) == ("user created (outcome unknown)", "lost", "")


def test_no_secret_and_no_body_is_in_an_entry(root: httpx2.Client) -> None:
    secret = {"password": "canary-password", "signingSecret": "canary-signing"}
    assert root.put("/api/v1/users/keeper", json=secret).status_code == 201
    sink = {
        **SINK,
        "source": "grid",
        "config": {"handshake": "off"},
        "protocolsettings": {"headers": {"x-api-key": "canary-header"}},
    }
    made = root.post("/subscriptions", json=sink)
    assert made.status_code == 201, made.text
    assert root.delete(f"/subscriptions/{made.json()['id']}").status_code == 204
    assert root.put("/api/v1/topics/grid/event-rules", json={"schema": {"title": "canary-schema"}}).status_code == 200
    assert root.delete("/api/v1/users/keeper").status_code == 204
    answer = root.get(AUDIT, params={"limit": 1000})
    assert "user created" in answer.text
    assert f"subscription {made.json()['id']}" in answer.text
    assert "canary" not in answer.text


def test_pages_and_filters(server: HttpServer, root: httpx2.Client) -> None:
    for name in ("page-a", "page-b", "PAGE-c"):
        assert root.put(f"/api/v1/topics/{name}", json={}).status_code == 201
    with http_client(server.url, auth=("root", "wrong")) as stranger:
        assert stranger.get("/api/v1/topics").status_code == 401
    everything = entries(root)
    assert len(everything) > 7
    keys = [(entry["time"], entry["number"]) for entry in everything]
    assert all(newer > older for newer, older in pairwise(keys))
    paged: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = root.get(AUDIT, params={"limit": 3, **({} if cursor is None else {"cursor": cursor})}).json()
        assert len(page["value"]) <= 3
        assert page["answered"] == {"asked": 1, "answered": 1, "missing": []}
        paged += page["value"]
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == everything
    assert [each["resource"] for each in entries(root, resource="topic page-")] == [
        "topic PAGE-c",
        "topic page-b",
        "topic page-a",
    ]
    assert entries(root, subject="nobody") == []
    refusals = entries(root, kind="refusals")
    assert refusals[0]["event"] == "login refused"
    assert all(each["isRefusal"] for each in refusals)
    others = [*entries(root, kind="changes"), *entries(root, kind="looks")]
    assert len(refusals) + len(others) == len(everything)
    assert {each["event"] for each in entries(root, event="LOGIN")} == {"login refused"}
    newest = everything[0]["time"]
    assert entries(root, until=everything[-1]["time"]) == []
    assert {each["time"] for each in entries(root, **{"from": newest})} == {newest}
    old_way = root.get(AUDIT, params={"before": everything[1]["number"], "limit": 2}).json()["value"]
    assert [each["number"] for each in old_way] == [each["number"] for each in everything[2:4]]


def test_bad_input_is_refused(root: httpx2.Client) -> None:
    for query in (
        {"cursor": "x"},
        {"cursor": "1/2/3"},
        {"cursor": "a" * 2000},
        {"before": 0},
        {"limit": 0},
        {"limit": 1001},
        {"kind": "secrets"},
        {"from": "yesterday"},
        {"event": "x" * 257},
    ):
        answer = root.get(AUDIT, params=query)
        assert answer.status_code == 400, query
        assert answer.headers["content-type"] == "application/problem+json"
