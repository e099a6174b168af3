"""The authorisation grid: protocol x operation x decision, and every route in it.

An operation says what it needs.  For each, a user who has exactly that is let through, and users who have none of it,
or all but one part, or a denial besides, are not.  Another protocol adds its operations and its way to try one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.http.app import pages
from entrepot.gateway.http.requests.methods import routes_of
from entrepot.gateway.settings import SecuritySettings, Settings
from tests.e2e.http.every_route import every_route
from tests.e2e.http.operations import (
    BY_TIMER_HANDLE,
    BY_TOKEN,
    EVENT,
    LOGIN,
    ONLY_SUPER,
    OPERATIONS,
    OWN,
    PUBLIC,
    SINK,
    Operation,
)
from tests.e2e.rights.rows_http import ROWS
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.access import allow, new_user, said
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    cheap = SecuritySettings(
        **CHEAP_HASHES,
        initial_admin="root",
        initial_admin_password="root",
        max_failed_logins=10_000,
    )
    with serving("memory", tmp_path_factory.mktemp("data"), Settings(security=cheap)) as running:
        with as_user(running, "root", "root") as root:
            assert root.put("/api/v1/namespaces/plant", json={}).status_code == 201
            for below in ("", "/namespaces/plant"):
                for path in (f"/api/v1{below}/topics/grid", f"/api/v1{below}/groups/workers"):
                    assert root.put(path, json={}).status_code == 201
        yield running


def as_user(server: HttpServer, name: str | None, password: str = "pw") -> httpx2.Client:
    auth = None if name is None else (name, password)
    return http_client(server.url, auth=auth)


@pytest.fixture(scope="module")
def root(server: HttpServer) -> Iterator[httpx2.Client]:
    with as_user(server, "root", "root") as client:
        yield client


@pytest.fixture
def user(server: HttpServer, root: httpx2.Client) -> Iterator[Callable[..., httpx2.Client]]:
    """Makes a user with statements, and a client of his."""
    with ExitStack() as opened:

        def make(*statements: dict[str, Any]) -> httpx2.Client:
            return opened.enter_context(as_user(server, new_user(root, *statements)))

        yield make


@pytest.fixture
def person(server: HttpServer, root: httpx2.Client) -> Iterator[Callable[..., httpx2.Client]]:
    """Gives one user other statements, and his client."""
    name = new_user(root)
    with as_user(server, name) as client:

        def change(*statements: dict[str, Any]) -> httpx2.Client:
            allow(root, name, *statements)
            return client

        yield change


def is_denied(answer: httpx2.Response) -> bool:
    """Whether rights were missing: other refusals, of what is not there, come from behind the decision."""
    assert answer.status_code != 401, answer.text
    if answer.status_code != 403:
        return False
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "FORBIDDEN"
    return True


each = cases("operation", OPERATIONS, ids=lambda operation: f"{operation.protocol} {operation.name}")


@each
def test_who_has_what_it_needs_is_let_through(person: Callable[..., httpx2.Client], operation: Operation) -> None:
    answer = operation.send(person(*said("ALLOW", *operation.needs)))
    assert not is_denied(answer), answer.text
    unhealthy = 503 if "/health/checks/" in operation.name else 501
    assert answer.status_code < 500 or answer.status_code in (501, unhealthy), answer.text


@each
def test_who_lacks_a_part_is_not(person: Callable[..., httpx2.Client], operation: Operation) -> None:
    for lacking in operation.needs:
        others = [need for need in operation.needs if need != lacking]
        other_actions = {
            "effect": "ALLOW",
            "actions": [a for a in ("PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST") if a != lacking[0]],
            "resources": [lacking[1]],
        }
        elsewhere = {"effect": "ALLOW", "actions": [lacking[0]], "resources": [f"{lacking[1].split(':')[0]}:other"]}
        if any(need[1] == lacking[1] for need in others):
            other_actions["actions"] = [need[0] for need in others]
        assert is_denied(operation.send(person(*said("ALLOW", *others), other_actions, elsewhere)))


@each
def test_a_denial_goes_before_all(person: Callable[..., httpx2.Client], operation: Operation) -> None:
    everything = {
        "effect": "ALLOW",
        "actions": ["ALL"],
        "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"],
    }
    for need in operation.needs:
        assert is_denied(operation.send(person(everything, *said("DENY", need))))


@cases("operation", ONLY_SUPER, ids=lambda operation: operation.name)
def test_users_and_policies_are_for_super_users(
    root: httpx2.Client, person: Callable[..., httpx2.Client], operation: Operation
) -> None:
    everything = {
        "effect": "ALLOW",
        "actions": ["ALL"],
        "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"],
    }
    assert is_denied(operation.send(person(everything)))
    assert operation.send(root).status_code < 500


@pytest.fixture
def strangers(server: HttpServer) -> Iterator[list[httpx2.Client]]:
    with (
        as_user(server, None) as one,
        as_user(server, "root", "wrong") as two,
        as_user(server, "unknown", "x") as three,
    ):
        yield [one, two, three]


@cases("operation", [*OPERATIONS, *ONLY_SUPER, *OWN], ids=lambda operation: operation.name)
def test_nobody_comes_in_without_credentials(strangers: list[httpx2.Client], operation: Operation) -> None:
    for client in strangers:
        answer = operation.send(client)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.json()["code"] == "UNAUTHORIZED"


@cases("operation", PUBLIC, ids=lambda operation: operation.name)
def test_what_is_public(server: HttpServer, operation: Operation) -> None:
    with as_user(server, None) as client:
        assert operation.send(client).status_code == 200


@cases("operation", BY_TOKEN, ids=lambda operation: operation.name)
def test_a_consent_needs_its_token_and_no_user(server: HttpServer, operation: Operation) -> None:
    with as_user(server, None) as client:
        assert operation.send(client).status_code == 404


def test_who_may_not_consume_a_topic_sees_none_of_its_subscriptions(
    server: HttpServer, user: Callable[..., httpx2.Client]
) -> None:
    with as_user(server, "root", "root") as root:
        made = root.post("/subscriptions", json={**SINK, "source": "grid", "config": {"handshake": "off"}})
        assert made.status_code == 201, made.text
    path = f"/subscriptions/{made.json()['id']}"
    reader = user(*said("ALLOW", ("SUB", "Topic:grid/#"), ("UPDATE", "Topic:grid")))
    other = user(*said("ALLOW", ("SUB", "Topic:other/#")))
    assert [one["id"] for one in reader.get("/subscriptions").json()] == [made.json()["id"]]
    assert other.get("/subscriptions").json() == []
    for method in ("GET", "PUT", "DELETE"):
        assert is_denied(other.request(method, path, json={**SINK, "source": "grid"}))
    moved = reader.put(path, json={**SINK, "source": "other"})
    assert moved.status_code == 400
    assert reader.delete(path).status_code == 204


def test_timers_belong_to_who_may_publish(server: HttpServer, user: Callable[..., httpx2.Client]) -> None:
    with as_user(server, "root", "root") as root:
        now_ms = server.parts.clock.now_ms()
        later = {**EVENT, "ce-deliverytime": str(to_rfc3339(now_ms + 3_600_000))}
        assert root.post("/topics/grid:publish", headers=later).status_code == 200
        handle = root.get("/api/v1/timers?topic=grid").json()["value"][0]["handle"]
    reader = user(*said("ALLOW", ("SUB", "Topic:*"), ("PUB", "Topic:grid")))
    assert is_denied(reader.delete(f"/api/v1/timers/{handle}"))
    changed = {"deliverAt": now_ms + 7_200_000}
    assert is_denied(reader.put(f"/api/v1/timers/{handle}", json=changed))
    writer = user(*said("ALLOW", ("PUB", "Topic:grid/#")))
    moved = writer.put(f"/api/v1/timers/{handle}", json=changed)
    assert moved.status_code == 200
    assert writer.delete(f"/api/v1/timers/{moved.json()['handle']}").status_code == 204


# -- every route -------------------------------------------------------------------------------------------------------


def test_rules_are_listed_of_topics_that_the_caller_may_see(
    user: Callable[..., httpx2.Client], root: httpx2.Client
) -> None:
    for name in ("listed-a", "listed-b", "listed-c"):
        assert root.put(f"/api/v1/topics/{name}", json={}).status_code in (200, 201)
        assert root.put(f"/api/v1/topics/{name}/event-rules", json={"dedupSeconds": 1}).status_code == 200
    client = user({"effect": "ALLOW", "actions": ["GET"], "resources": ["Topic:listed-a", "Topic:listed-c"]})
    first = client.get("/api/v1/event-rules", params={"name": "listed-", "limit": 1}).json()
    assert ([each["topic"] for each in first["value"]], first["next"]) == (["listed-a"], "listed-a")
    last = client.get("/api/v1/event-rules", params={"name": "listed-", "limit": 1, "after": "listed-a"}).json()
    assert ([each["topic"] for each in last["value"]], last["next"]) == (["listed-c"], None)


def test_who_diverts_events_must_be_allowed_to_send_them_there(user: Callable[..., httpx2.Client]) -> None:
    path, rule = "/api/v1/topics/grid/event-rules", {"onInvalid": "divert"}
    may_change = {"effect": "ALLOW", "actions": ["UPDATE"], "resources": ["Topic:grid"]}
    may_send = {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:dump/#", "Topic:grid/#"]}
    may_make = {"effect": "ALLOW", "actions": ["CREATE"], "resources": ["Topic:dump"]}
    for statements, target, expected in (
        ([may_change], "dump", 403),
        ([may_change, may_send], "dump", 403),
        ([may_change, may_send, may_make], "dump", 200),
        ([may_change, may_send], "dump", 200),
    ):
        client = user(*statements)
        assert client.put(path, json={**rule, "divertTo": target}).status_code == expected, (statements, target)
        assert client.put(path, json={"onInvalid": "refuse"}).status_code == 200


def test_the_framework_s_routes_are_pages_that_everybody_may_read() -> None:
    """They hold no data: the documentation, and the dashboard's files."""
    found = {path for _, path in routes_of(pages())}
    documentation = {"/openapi.json", "/docs", "/docs/page.js", "/docs/page.css"}
    assert found == {"/", "/dashboard", "/dashboard/{file:path}", *documentation}


def test_every_operation_stands_in_the_grid() -> None:
    every = every_route()
    assert len({(route.method, route.path) for route in every}) == len(every), "each is in one place"
    tried = {
        tuple(one.name.partition("?")[0].split(" ", 1))
        for one in (*OPERATIONS, *ONLY_SUPER, *OWN, *BY_TOKEN, *LOGIN, *PUBLIC)
    }
    in_the_other = {tuple(row.verb.split(" ", 1)) for row in ROWS}
    """Of the grid of rights, by which names are tried as well."""
    for route in every:
        if (route.method, route.path) not in BY_TIMER_HANDLE:
            verbs = tried if route.is_for_all else tried | in_the_other
            found = any(verb == route.method and fits(route.path, given) for verb, given in verbs)
            assert found, f"{route.method} {route.path} needs a row in tests/e2e/http/operations.py"
    assert sum(route.is_for_supers for route in every) == len(ONLY_SUPER)


def fits(template: str, path: str) -> bool:
    wanted, given = template.split("/"), path.split("/")
    return len(wanted) == len(given) and all(
        want == got or ("{" in want and got.endswith(want.partition("}")[2]))
        for want, got in zip(wanted, given, strict=True)
    )
