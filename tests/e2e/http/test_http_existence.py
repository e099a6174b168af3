"""Who has no rights learns nothing of what there is: every route with names in its path answers the same for a name
that is there and for one that is not."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx2
import pytest

from entrepot.domain.recall_handle import RecallHandle
from entrepot.domain.timestamp import to_rfc3339
from tests.e2e.http.documented import operations
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.foreign_pages import BODIES, client_of
from tests.support.http.websocket_client import WebSocketClient
from tests.support.processes.server import ServerProcess

CHEAP = CHEAP_FLAGS
ROOT = {"security.initial_admin": "root", "security.initial_admin_password": "root"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/me", "type": "t"}
TYPED = {"content-type": "application/cloudevents+json"}
SINK = {"sink": "https://receiver.example/", "protocol": "HTTP", "config": {"handshake": "off"}}
ABSENT = "absent"
PARAMETER = re.compile(r"\{[a-z_]+\}")
OF_THEIR_OWN = {"vhosts": "plant", "namespaces": "plant", "users": "bob", "acls": "bob", "groups": "workers"}
"""Names that are there, by the segment before them; others are `known`."""


@dataclass(frozen=True)
class Site:
    """A server with one of each thing, and a user who may do nothing."""

    server: ServerProcess
    nobody: httpx2.Client
    subscription: str
    handle: str
    absent_handle: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        ServerProcess(tmp_path_factory.mktemp("existence"), {**CHEAP, **ROOT}) as server,
        client_of(server) as root,
        client_of(server) as nobody,
    ):
        root.auth, nobody.auth = httpx2.BasicAuth("root", "root"), httpx2.BasicAuth("bob", "pw")
        for path, body in (
            ("/api/v1/users/bob", {"password": "pw"}),
            ("/api/v1/acls/bob", {"statements": []}),
            ("/api/v1/namespaces/plant", {}),
            *((f"/api/v1{below}/topics/known", {}) for below in ("", "/namespaces/plant")),
            *((f"/api/v1{below}/groups/workers", {}) for below in ("", "/namespaces/plant")),
            *((f"/api/v1{below}/topics/known/event-rules", {}) for below in ("", "/namespaces/plant")),
            ("/api/queues/plant/known", {}),
            ("/api/exchanges/plant/known", {"type": "direct"}),
            ("/api/policies/plant/known", {"pattern": "^x", "definition": {"max-length": 1}}),
        ):
            assert root.put(path, json=body).status_code in (200, 201, 204), path
        later = to_rfc3339((int(time.time()) + 86_400) * 1000)
        made = root.post("/namespaces/plant/subscriptions", json={**SINK, "source": "known"})
        assert made.status_code == 201, made.text
        assert (
            root.post("/topics/known:publish", json={**EVENT, "deliverytime": later}, headers=TYPED).status_code == 200
        )
        (timer,) = root.get("/api/v1/timers").json()["value"]
        handle = RecallHandle.decode(timer["handle"])
        absent = RecallHandle(handle.topic, bytes(16), handle.deliver_at_ms).encode()
        yield Site(server, nobody, made.json()["id"], timer["handle"], absent)


def names_in(site: Site, path: str) -> list[str]:
    """A name that is there, for each parameter of a path."""
    found, before = [], ""
    for segment in path.split("/"):
        if parameter := PARAMETER.match(segment):
            of_api = parameter[0] == "{vhost}"
            special = {"{id}": site.subscription, "{handle}": site.handle, "{queue}": "0", "{group}": "workers"}
            found.append("plant" if of_api else special.get(parameter[0]) or OF_THEIR_OWN.get(before, "known"))
        before = segment
    return found


def filled(path: str, names: list[str]) -> str:
    left = iter(names)
    return PARAMETER.sub(lambda _: next(left), path)


def told(site: Site, method: str, path: str, names: list[str], hidden: tuple[str, ...]) -> tuple[int, str]:
    """The answer to who has no rights, without the names that were asked for."""
    plain = path.replace("/namespaces/{namespace}", "")
    body = EVENT if path.endswith(":publish") else BODIES.get(plain, {})
    body = {**SINK, "source": "known"} if plain == "/subscriptions" else body
    request = site.nobody.build_request(method, filled(path, names), json=None if method == "GET" else body)
    if path.endswith(":publish"):
        request.headers.update(TYPED)
    answer = site.nobody.send(request)
    text = answer.text
    for name in hidden:
        text = text.replace(name, "_")
    return answer.status_code, text


def test_no_route_tells_what_there_is(site: Site) -> None:
    described = operations(site.nobody.get("/openapi.json").json())
    asked = [(method, path) for method, path, _ in described if "{" in path and method != "OPTIONS"]
    assert len(asked) > 120
    differences = []
    for method, path in asked:
        names = names_in(site, path)
        there = list(names)
        for place, name in enumerate(names):
            absent = site.absent_handle if name == site.handle else "77" if name == "0" else ABSENT
            hidden = (name, absent)
            missing = [*there[:place], absent, *there[place + 1 :]]
            one, other = (told(site, method, path, each, hidden) for each in (there, missing))
            if one != other:
                differences.append((method, path, absent, one, other))
            if "/webhooks/consent/" not in path and (method, one[0]) != ("GET", 200):
                assert one[0] == 403, (method, path, one)
    assert differences == []


def test_nor_does_the_websocket_of_a_consumer(site: Site) -> None:
    statuses = set()
    for path in (
        "/topics/known/eventsubscriptions/workers:stream",
        "/topics/absent/eventsubscriptions/workers:stream",
        "/topics/known/eventsubscriptions/absent:stream",
        "/namespaces/plant/topics/known/eventsubscriptions/workers:stream",
        "/namespaces/absent/topics/known/eventsubscriptions/workers:stream",
    ):
        with WebSocketClient(
            site.server.port("http"), path, "cloudevents.json", Authorization="Basic Ym9iOnB3"
        ) as socket:
            statuses.add(socket.status)
    assert statuses == {403}
