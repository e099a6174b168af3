"""The authorisation grid: protocol x operation x decision, and every route in it.

An operation says what it needs.  For each, a user who has exactly that is let through, and users who have none of it,
or all but one part, or a denial besides, are not.  Another protocol adds its operations and its way to try one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from domain.timestamp import to_rfc3339
from gateway.http.access import HttpAccess
from gateway.http.app import build_rest
from gateway.http.rights import DOCUMENTATION, RULES, MissingRuleError, SuperUsers, check_rules, routes_of
from gateway.settings import SecuritySettings, Settings
from tests.e2e.http import rabbitmq_grid
from tests.support.http_server import HttpServer, serving

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}
BATCH = "application/cloudevents-batch+json"


@dataclass(frozen=True)
class Operation:
    """One thing to do at a door, and the rights that it needs: (action, resource) each."""

    protocol: str
    name: str
    needs: tuple[tuple[str, str], ...]
    send: Callable[[httpx2.Client], httpx2.Response] = field(repr=False, compare=False)


def http(method: str, path: str, *needs: tuple[str, str], **options: Any) -> Operation:
    return Operation("http", f"{method} {path}", needs, lambda client: client.request(method, path, **options))


def of_both(method: str, path: str, *needs: tuple[str, str], **options: Any) -> list[Operation]:
    """The plain route, and that of a namespace, whose resources have other names."""
    api, rest = ("/api/v1", path.removeprefix("/api/v1")) if path.startswith("/api/v1") else ("", path)
    named = tuple(
        (action, resource if resource.endswith(":*") else resource.replace(":", ":$ns/plant/", 1))
        for action, resource in needs
    )
    return [http(method, path, *needs, **options), http(method, f"{api}/namespaces/plant{rest}", *named, **options)]


SINK = {"sink": "https://receiver.example/", "protocol": "HTTP"}
CONSUMING = (("SUB", "Topic:grid/#"), ("SUB", "Group:workers"))
SUBSCRIPTION = "/topics/grid/eventsubscriptions/workers"
TOKENS = {"json": {"lockTokens": ["x"]}}
MEMBERS = "/api/v1/groups/workers/topics/grid"
ALL_CONTENTS = ("SUB", "Topic:*")

OPERATIONS = [
    *of_both("POST", "/topics/grid:publish", ("PUB", "Topic:grid"), headers=EVENT),
    *of_both("POST", "/topics/grid:publish", ("PUB", "Topic:grid/line/1"), headers={**EVENT, "ce-subject": "line/1"}),
    http(
        "POST",
        "/topics/grid:publish",
        ("PUB", "Topic:grid/a"),
        ("PUB", "Topic:grid/b"),
        headers={"content-type": BATCH},
        json=[{"specversion": "1.0", "id": s, "type": "t", "source": "/", "subject": s} for s in ("a", "b")],
    ),
    *of_both("POST", f"{SUBSCRIPTION}:receive?maxWaitTime=0", *CONSUMING),
    *[
        one
        for verb in ("acknowledge", "release", "reject", "renewLock")
        for one in of_both("POST", f"{SUBSCRIPTION}:{verb}", *CONSUMING, **TOKENS)
    ],
    *of_both("GET", "/topics/grid/events?start=nonsense", ("SUB", "Topic:grid/#")),
    *of_both("POST", "/subscriptions", ("SUB", "Topic:grid/#"), json={**SINK, "source": "grid", "filters": [{}]}),
    *of_both("GET", "/subscriptions/none", ALL_CONTENTS),
    *of_both("PUT", "/subscriptions/none", ALL_CONTENTS, json={}),
    *of_both("DELETE", "/subscriptions/none", ALL_CONTENTS),
    *of_both("GET", "/api/v1/topics/grid/event-rules", ("GET", "Topic:grid")),
    *of_both("PUT", "/api/v1/topics/grid/event-rules", ("UPDATE", "Topic:grid"), json={}),
    *of_both("DELETE", "/api/v1/topics/grid/event-rules", ("UPDATE", "Topic:grid")),
    *of_both("GET", "/api/v1/topics", ("LIST", "Topic:*")),
    *of_both("PUT", "/api/v1/topics", ("CREATE", "Topic:*"), ("UPDATE", "Topic:*"), json={"value": [{"name": "many"}]}),
    *of_both("GET", "/api/v1/topics/grid", ("GET", "Topic:grid")),
    *of_both("PUT", "/api/v1/topics/grid", ("UPDATE", "Topic:grid"), json={}),
    *of_both("DELETE", "/api/v1/topics/gone", ("DELETE", "Topic:gone")),
    *of_both("GET", "/api/v1/topics/grid/queues/0/messages?offset=0", ("SUB", "Topic:grid/#")),
    *of_both("GET", "/api/v1/groups", ("LIST", "Group:*")),
    *of_both("GET", "/api/v1/groups/workers", ("GET", "Group:workers")),
    *of_both("PUT", "/api/v1/groups/workers", ("UPDATE", "Group:workers"), json={}),
    *of_both("DELETE", "/api/v1/groups/gone", ("DELETE", "Group:gone")),
    *of_both(
        "POST", "/api/v1/groups/workers:reset", ("UPDATE", "Group:workers"), json={"topic": "grid", "to": "latest"}
    ),
    *of_both("GET", "/api/v1/groups/workers/dead-letters", ("SUB", "Group:workers")),
    *of_both("GET", "/api/v1/groups/workers/dead-letters:export", ("SUB", "Group:workers")),
    *of_both("POST", "/api/v1/groups/workers/dead-letters:resend", ("UPDATE", "Group:workers"), json={"all": True}),
    *of_both("GET", f"{MEMBERS}/members", *CONSUMING),
    *of_both("POST", f"{MEMBERS}/members/m1", *CONSUMING),
    *of_both("DELETE", f"{MEMBERS}/members/m1", *CONSUMING),
    *of_both(
        "POST",
        f"{MEMBERS}/offsets",
        *CONSUMING,
        json={"member": "m1", "generation": 1, "offsets": [{"queueId": 0, "offset": 0}]},
    ),
    *of_both("GET", "/api/v1/messages?topic=grid", ("SUB", "Topic:grid/#")),
    http("GET", "/api/v1/messages/00", ALL_CONTENTS),
    http("GET", "/api/v1/messages/00/consumers", ALL_CONTENTS),
    http("GET", "/api/v1/messages/00/trace", ALL_CONTENTS),
    *of_both("GET", "/api/v1/timers", ALL_CONTENTS),
    *of_both("GET", "/api/v1/timers?topic=grid", ("SUB", "Topic:grid/#")),
    http("GET", "/api/v1/namespaces", ("LIST", "Namespace:*")),
    http("GET", "/api/v1/namespaces/plant", ("GET", "Namespace:plant")),
    http("PUT", "/api/v1/namespaces/plant", ("CREATE", "Namespace:plant"), json={}),
    http("DELETE", "/api/v1/namespaces/gone", ("DELETE", "Namespace:gone")),
    http("GET", "/api/v1/brokers", ("LIST", "Cluster:default")),
    http("PUT", "/api/v1/brokers/b", ("UPDATE", "Cluster:default"), json={"isDraining": True}),
    http("DELETE", "/api/v1/brokers/b", ("DELETE", "Cluster:default")),
    http("GET", "/metrics", ("GET", "Cluster:default")),
    http("GET", "/api/v1/retained?filter=grid/%23", ("SUB", "Topic:grid/#")),
    http("GET", "/api/v1/retained/grid%2Fa", ("SUB", "Topic:grid/a")),
    http("DELETE", "/api/v1/retained?filter=grid/%23", ("PUB", "Topic:grid/#")),
    http("DELETE", "/api/v1/retained/grid%2Fa", ("PUB", "Topic:grid/a")),
    http("GET", "/api/v1/bridges", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/clients", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/clients/c", ("GET", "Cluster:default")),
    http("DELETE", "/api/v1/clients/c", ("UPDATE", "Cluster:default")),
    http("GET", "/api/v1/subscriptions", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/slow-subscribers", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/sessions", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/sessions/c", ("GET", "Cluster:default")),
    http("DELETE", "/api/v1/sessions/c", ("UPDATE", "Cluster:default")),
    *(http(method, path, *needs, json=body) for method, path, needs, body in rabbitmq_grid.ROUTES),
]
ONLY_SUPER = [
    http("GET", "/api/v1/users"),
    http("GET", "/api/v1/users/root"),
    http("PUT", "/api/v1/users/root", json={}),
    http("DELETE", "/api/v1/users/gone"),
    http("GET", "/api/v1/acls"),
    http("GET", "/api/v1/acls:explain?subject=x&action=PUB&resource=Topic:a"),
    http("GET", "/api/v1/acls/x"),
    http("PUT", "/api/v1/acls/x", json={"statements": []}),
    http("DELETE", "/api/v1/acls/gone"),
    http("GET", "/api/v1/audit"),
    http("PUT", "/api/v1/traces/c", json={}),
    http("GET", "/api/v1/traces/c"),
    http("DELETE", "/api/v1/traces/c"),
    *(http(method, path, json=body) for method, path, _, body in rabbitmq_grid.FOR_SUPER_USERS),
]
OWN = [http("GET", "/asyncapi.json"), http("GET", "/subscriptions"), http("GET", "/namespaces/plant/subscriptions")]
"""They show what the caller may see."""
BY_TOKEN = [http(method, "/webhooks/consent/default/none/token") for method in ("GET", "POST")]
"""The token in the path is the right."""
PUBLIC = [http("GET", "/healthz"), http("GET", "/readyz"), http("GET", "/openapi.json")]
BY_TIMER_HANDLE = {("DELETE", "/api/v1/timers/{handle}"), ("PUT", "/api/v1/timers/{handle}")}
"""Their handles are made in a test of their own."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    cheap = SecuritySettings(
        argon2_memory_bytes=65_536, argon2_iterations=1, initial_admin="root", initial_admin_password="root"
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
    return httpx2.Client(base_url=server.url, auth=auth, timeout=20, trust_env=False)


@pytest.fixture
def user(server: HttpServer) -> Iterator[Callable[..., httpx2.Client]]:
    """Makes a user with statements, and a client of his."""
    opened: list[httpx2.Client] = []

    def make(*statements: dict[str, Any]) -> httpx2.Client:
        name = f"u{uuid.uuid4().hex[:10]}"
        with as_user(server, "root", "root") as root:
            assert root.put(f"/api/v1/users/{name}", json={"password": "pw"}).status_code == 201
            made = root.put(f"/api/v1/acls/{name}", json={"statements": list(statements)})
            assert made.status_code == 201, made.text
        opened.append(as_user(server, name))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def said(effect: str, *needs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"effect": effect, "actions": [action], "resources": [resource]} for action, resource in needs]


def is_denied(answer: httpx2.Response) -> bool:
    """Whether rights were missing: other refusals, of what is not there, come from behind the decision."""
    assert answer.status_code != 401, answer.text
    if answer.status_code != 403:
        return False
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "FORBIDDEN"
    return True


each = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.protocol} {operation.name}")


@each
def test_who_has_what_it_needs_is_let_through(user: Callable[..., httpx2.Client], operation: Operation) -> None:
    answer = operation.send(user(*said("ALLOW", *operation.needs)))
    assert not is_denied(answer), answer.text
    assert answer.status_code < 500 or answer.status_code == 501, answer.text


@each
def test_who_lacks_a_part_is_not(user: Callable[..., httpx2.Client], operation: Operation) -> None:
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
        assert is_denied(operation.send(user(*said("ALLOW", *others), other_actions, elsewhere)))


@each
def test_a_denial_goes_before_all(user: Callable[..., httpx2.Client], operation: Operation) -> None:
    everything = {
        "effect": "ALLOW",
        "actions": ["ALL"],
        "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"],
    }
    for need in operation.needs:
        assert is_denied(operation.send(user(everything, *said("DENY", need))))


@pytest.mark.parametrize("operation", ONLY_SUPER, ids=lambda operation: operation.name)
def test_users_and_policies_are_for_super_users(
    server: HttpServer, user: Callable[..., httpx2.Client], operation: Operation
) -> None:
    everything = {
        "effect": "ALLOW",
        "actions": ["ALL"],
        "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"],
    }
    assert is_denied(operation.send(user(everything)))
    with as_user(server, "root", "root") as root:
        assert operation.send(root).status_code < 500


@pytest.mark.parametrize("operation", [*OPERATIONS, *ONLY_SUPER, *OWN], ids=lambda operation: operation.name)
def test_nobody_comes_in_without_credentials(server: HttpServer, operation: Operation) -> None:
    for name, password in ((None, ""), ("root", "wrong"), ("unknown", "x")):
        with as_user(server, name, password) as client:
            answer = operation.send(client)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert answer.json()["code"] == "UNAUTHORIZED"


@pytest.mark.parametrize("operation", PUBLIC, ids=lambda operation: operation.name)
def test_what_is_public(server: HttpServer, operation: Operation) -> None:
    with as_user(server, None) as client:
        assert operation.send(client).status_code == 200


@pytest.mark.parametrize("operation", BY_TOKEN, ids=lambda operation: operation.name)
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
    reader, other = user(*said("ALLOW", ("SUB", "Topic:grid/#"))), user(*said("ALLOW", ("SUB", "Topic:other/#")))
    assert [one["id"] for one in reader.get("/subscriptions").json()] == [made.json()["id"]]
    assert other.get("/subscriptions").json() == []
    for method in ("GET", "PUT", "DELETE"):
        assert is_denied(other.request(method, path, json={**SINK, "source": "grid"}))
    moved = reader.put(path, json={**SINK, "source": "other"})
    assert moved.status_code == 400
    assert reader.delete(path).status_code == 204


def test_timers_belong_to_who_may_publish(server: HttpServer, user: Callable[..., httpx2.Client]) -> None:
    with as_user(server, "root", "root") as root:
        now_ms = server.context.clock.now_ms()
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


def rest_of(server: HttpServer) -> FastAPI:
    access = HttpAccess(server.context.security, server.context.clock)
    return server.call(lambda: build_rest(server.context, access)[0])


def test_every_route_has_a_rule_and_stands_in_the_grid(server: HttpServer) -> None:
    rest = rest_of(server)
    routes = {route for route in routes_of(rest) if route[1] not in DOCUMENTATION}
    plain = {(method, path.replace("/namespaces/{namespace}", "")) for method, path in routes}
    assert plain == set(RULES)
    tried = {
        tuple(one.name.partition("?")[0].split(" ", 1)) for one in (*OPERATIONS, *ONLY_SUPER, *OWN, *BY_TOKEN, *PUBLIC)
    }
    for method, path in routes - BY_TIMER_HANDLE:
        assert any(method == verb and fits(path, given) for verb, given in tried), f"{method} {path}"
    supers = [route for route, rule in RULES.items() if isinstance(rule, SuperUsers)]
    assert len(supers) == len(ONLY_SUPER)


def fits(template: str, path: str) -> bool:
    wanted, given = template.split("/"), path.split("/")
    return len(wanted) == len(given) and all(
        want == got or ("{" in want and got.endswith(want.partition("}")[2]))
        for want, got in zip(wanted, given, strict=True)
    )


def test_a_route_without_a_rule_stops_the_start(server: HttpServer) -> None:
    def nothing() -> None:
        """A handler."""

    for add in (
        lambda app: app.get("/api/v1/new")(nothing),
        lambda app: app.post("/healthz")(nothing),
        lambda app: app.mount("/files", FastAPI()),
    ):
        rest = rest_of(server)
        check_rules(rest)
        add(rest)
        with pytest.raises(MissingRuleError):
            check_rules(rest)
