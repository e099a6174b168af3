"""Pages of other origins, and pages whose own name leads here, against every route: nothing is done for them.

The headers are sent by hand; `test_http_chromium.py` has them from a browser.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.cases import cases
from tests.support.http.foreign_pages import PUBLIC, Attempt, attempts, client_of, prepare, state
from tests.support.http.websocket_client import WebSocketClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

FORMS = ("text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
PERMISSION = {"configure": "", "write": "", "read": ""}
STREAM = "/topics/known/eventsubscriptions/workers:stream"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("pages"), {"mqtt.ws_port": "0"}) as running:
        with client_of(running) as client:
            prepare(client)
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[httpx2.Client]:
    with client_of(server) as running:
        yield running


def statuses(client: httpx2.Client, asked: list[Attempt], headers: dict[str, str]) -> dict[str, int]:
    """The status of each, by method and path; and nothing is otherwise than it was."""
    before = state(client)
    found = {
        f"{each.method} {each.path}": client.request(
            each.method, each.path, headers=headers, content=each.body if each.changes else None
        ).status_code
        for each in asked
    }
    assert state(client) == before
    return found


@pytest.mark.parametrize(
    "marks",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://localhost:8080", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
    ids=lambda marks: " ".join(marks.values()),
)
def test_pages_of_other_origins_reach_no_route(client: httpx2.Client, marks: dict[str, str]) -> None:
    asked = attempts(client)
    assert len(asked) > 150
    found = statuses(client, asked, {**marks, "content-type": "text/plain"})
    assert {name: status for name, status in found.items() if status != 403} == {}


def test_a_page_whose_own_name_leads_here_reaches_what_is_public(client: httpx2.Client, server: ServerProcess) -> None:
    """Its requests are of its own origin for the browser: of any method, any type, and with any credentials."""
    port = server.port("http")
    asked = [each for each in attempts(client) if not PUBLIC.fullmatch(each.path)]
    for name in (f"evil.example:{port}", "127.0.0.1.evil.example"):
        marks = {"host": name, "origin": f"http://{name}", "sec-fetch-site": "same-origin"}
        found = statuses(client, asked, {**marks, "content-type": "application/json", "authorization": "Basic YTpi"})
        assert {path: status for path, status in found.items() if status != 421} == {}


@pytest.mark.parametrize("media_type", FORMS)
def test_bodies_that_need_no_preflight_are_taken_by_no_route_of_json(client: httpx2.Client, media_type: str) -> None:
    asked = [each for each in attempts(client) if each.takes_json]
    assert len(asked) > 60
    asked.append(Attempt("POST", "/api/v1/groups/workers/topics/known/members/x:publish", "{}"))
    found = statuses(client, asked, {"content-type": media_type})
    assert {name: status for name, status in found.items() if status != 415} == {}


def test_an_empty_body_may_be_called_a_form(server: ServerProcess) -> None:
    """Python's urllib calls every body so that has no other type."""
    path = "/topics/known/eventsubscriptions/workers:receive?maxWaitTime=0"
    url = f"http://127.0.0.1:{server.port('http')}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("door", "path", "protocol"),
    [("http", "/mqtt", "mqtt"), ("ws", "/mqtt", "mqtt"), ("http", STREAM, "cloudevents.json")],
)
def test_websockets(server: ServerProcess, door: str, path: str, protocol: str) -> None:
    port = server.port(door)
    for origin, host, status in (
        ("http://evil.example", f"127.0.0.1:{port}", 403),
        ("null", f"127.0.0.1:{port}", 403),
        ("http://127.0.0.1:1", f"127.0.0.1:{port}", 403),
        (f"http://evil.example:{port}", f"evil.example:{port}", 421),
        (f"http://localhost:{port}", f"localhost:{port}", 101),
        (f"http://127.0.0.1:{port}", f"127.0.0.1:{port}", 101),
    ):
        with WebSocketClient(port, path, protocol, Origin=origin, Host=host) as socket:
            assert socket.status == status, (origin, host)


def test_what_is_no_foreign_page_is_let_in(client: httpx2.Client, server: ServerProcess) -> None:
    port = server.port("http")
    own = {"origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    put = "/api/v1/topics/known"
    assert client.put(put, json={}, headers=own).status_code == 200
    assert client.put(put, content=b"{}").status_code == 200, "without a content type"
    assert client.put(put, content=b"{}", headers={"origin": "events.example"}).status_code == 200, "a webhook's sender"
    assert client.get("/api/v1/topics", headers={"sec-fetch-site": "none"}).status_code == 200, "the address bar"
    assert client.get("/docs", headers=link).status_code == 200
    assert client.get("/api/v1/topics", headers=link).status_code == 403
    assert client.get("/docs", headers={**link, "sec-fetch-dest": "iframe"}).status_code == 403
    for host in (f"localhost:{port}", "LOCALHOST.", f"[::1]:{port}", "10.1.2.3"):
        assert client.get("/api/v1/topics", headers={"host": host}).status_code == 200, host
    consent = client.options("/topics/known:publish", headers={"webhook-request-origin": "events.example"})
    assert consent.status_code == 200 and consent.headers["webhook-allowed-origin"] == "events.example"


def test_settings_name_origins_and_hosts(tmp_path: Path) -> None:
    settings = {
        "http.allowed_origins": '["https://app.example"]',
        "http.hosts": '["gw.example"]',
        "mqtt.ws_origins": '["https://panel.example"]',
        "mqtt.ws_port": "0",
    }
    with ServerProcess(tmp_path, settings) as server, client_of(server) as client:
        prepare(client)
        named, other = {"origin": "https://APP.example"}, {"origin": "https://panel.example"}
        assert client.put("/api/v1/topics/known", json={}, headers={**named, "host": "gw.example"}).status_code == 200
        assert client.put("/api/v1/topics/known", json={}, headers=other).status_code == 403
        for door, origin, status in (
            ("http", "https://app.example", 101),
            ("http", "https://panel.example", 101),
            ("http", "https://other.example", 403),
            ("ws", "https://panel.example", 101),
            ("ws", "https://app.example", 403),
        ):
            with WebSocketClient(server.port(door), Origin=origin, Host="gw.example") as socket:
                assert socket.status == status, (door, origin)
        owner = {"authorization": f"Bearer {server.setup_token}"}
        root = {"password": "root", "super": True}
        assert client.put("/api/v1/users/root", json=root, headers=owner).status_code == 201
        assert client.get("/api/v1/topics", headers={"host": "any.example"}, auth=("root", "root")).status_code == 200
        assert client.get("/api/v1/topics", headers={"host": "any.example"}).status_code == 401


@cases(
    "method, path, body",
    [
        ("PUT", "/api/v1/users/root", {"password": "x", "super": True}),
        ("DELETE", "/api/v1/users/root", None),
        ("PUT", "/api/users/root", {"password": "x", "tags": "administrator"}),
        ("DELETE", "/api/users/root", None),
        ("POST", "/api/definitions", {"users": [{"name": "root", "password": "x", "tags": "administrator"}]}),
        ("POST", "/api/definitions", {"permissions": [{"user": "*", "vhost": "/", **PERMISSION}]}),
        ("PUT", "/api/v1/acls/anonymous", {"statements": []}),
        ("DELETE", "/api/v1/acls/anonymous", None),
        ("PUT", "/api/permissions/%2F/bob", PERMISSION),
    ],
)  # fmt: skip
def test_users_and_policies_take_the_setup_token(
    client: httpx2.Client, server: ServerProcess, method: str, path: str, body: object
) -> None:
    """Being on the machine is not enough, whatever else is shown."""
    before = state(client)
    for headers in ({}, {"authorization": "Bearer entrepot-setup-wrong"}, {"authorization": "Digest x"}):
        answer = client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 401, answer.text
        assert answer.json()["setupTokenFile"] == str(server.data_dir / "setup-token")
    assert state(client) == before
