"""Operations of the HTTP door, and the rights that each needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.e2e.http import rabbitmq_grid

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
CLUSTER = ("UPDATE", "Cluster:default")
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
    *of_both("GET", "/api/v1/webhooks/none", ALL_CONTENTS),
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
    *of_both("GET", "/api/v1/topics/grid/messages", ("GET", "Topic:grid")),
    *of_both("GET", "/api/v1/topics/none:watch", ("SUB", "Topic:none/#")),
    *of_both("GET", "/api/v1/topics/grid/messages/0/0", ("GET", "Topic:grid")),
    *of_both("GET", "/api/v1/topics/grid/messages/0/0/body", ("SUB", "Topic:grid/#")),
    *of_both("GET", "/api/v1/groups", ("LIST", "Group:*")),
    *of_both("GET", "/api/v1/groups/workers", ("GET", "Group:workers")),
    *of_both("GET", "/api/v1/groups/workers/lag", ("GET", "Group:workers")),
    *of_both("GET", "/api/v1/groups/workers/consumers", ("GET", "Group:workers")),
    *of_both("PUT", "/api/v1/groups/workers", ("UPDATE", "Group:workers"), json={}),
    *of_both("DELETE", "/api/v1/groups/gone", ("DELETE", "Group:gone")),
    *of_both(
        "POST",
        "/api/v1/groups/workers:reset",
        ("UPDATE", "Group:workers"),
        ("SUB", "Topic:grid/#"),
        json={"topic": "grid", "to": "latest"},
    ),
    *of_both("GET", "/api/v1/groups/workers/dead-letters", ("SUB", "Group:workers")),
    *of_both("GET", "/api/v1/groups/workers/dead-letters:export", ("SUB", "Group:workers")),
    *of_both("GET", "/api/v1/groups/workers/dead-letters:reasons", ("SUB", "Group:workers")),
    *of_both("POST", "/api/v1/groups/workers/dead-letters:delete", ("DELETE", "Group:workers"), json={"offsets": [9]}),
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
    *of_both("GET", "/api/v1/journeys?id=00&topic=grid", ("SUB", "Topic:grid/#")),
    http(
        "POST",
        "/api/v1/messages:try",
        ("PUB", "Topic:grid/s"),
        json={
            "door": "http",
            "topic": "grid",
            "event": {"specversion": "1.0", "id": "1", "type": "t", "source": "/", "subject": "s"},
        },
    ),
    *of_both("GET", "/api/v1/timers", ALL_CONTENTS),
    *of_both("GET", "/api/v1/timers?topic=grid", ("SUB", "Topic:grid/#")),
    *of_both("GET", "/api/v1/transactions", ALL_CONTENTS),
    *of_both("GET", "/api/v1/transactions?topic=grid", ("SUB", "Topic:grid/#")),
    http("GET", "/api/v1/namespaces", ("LIST", "Namespace:*")),
    http("GET", "/api/v1/namespaces/plant", ("GET", "Namespace:plant")),
    http("PUT", "/api/v1/namespaces/plant", ("CREATE", "Namespace:plant"), json={}),
    http("DELETE", "/api/v1/namespaces/gone", ("DELETE", "Namespace:gone")),
    http("GET", "/api/v1/tiering", ("LIST", "Topic:*")),
    *(
        http("POST", f"/api/v1{below}/topics/{name}:restore", CLUSTER, ("UPDATE", f"Topic:{full}"), json={})
        for below, name, full in (("", "grid", "grid"), ("/namespaces/plant", "grid", "$ns/plant/grid"))
    ),
    http("POST", "/api/v1/tiering:attach", CLUSTER, json={"url": "s3://b"}),
    http("POST", "/api/v1/namespaces/plant/tiering:attach", CLUSTER, json={"url": "s3://b"}),
    *(
        http("POST", f"/api/v1{below}/tiering:accept", CLUSTER, ("UPDATE", f"Topic:{full}"), json={"topic": "grid"})
        for below, full in (("", "grid"), ("/namespaces/plant", "$ns/plant/grid"))
    ),
    http("GET", "/api/v1/overview", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/overview/history?span=300", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/overview:watch?every=0", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/gateways", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/brokers", ("LIST", "Cluster:default")),
    http("PUT", "/api/v1/brokers/b", ("UPDATE", "Cluster:default"), json={"isDraining": True}),
    http("POST", "/api/v1/brokers/b:elect", ("UPDATE", "Cluster:default"), json={"to": 1}),
    http("GET", "/api/v1/brokers/b/backup", ("GET", "Cluster:default")),
    http("POST", "/api/v1/brokers/b:backup", ("UPDATE", "Cluster:default")),
    http("DELETE", "/api/v1/brokers/b", ("DELETE", "Cluster:default")),
    http("PUT", "/api/v1/brokers/b/replicas/3", ("UPDATE", "Cluster:default"), json={"isObserver": True}),
    http("DELETE", "/api/v1/brokers/b/replicas/3", ("DELETE", "Cluster:default")),
    http("GET", "/api/v1/controllers", ("LIST", "Cluster:default")),
    http("POST", "/api/v1/controllers", ("UPDATE", "Cluster:default"), json={"controller": 4, "address": "a:1"}),
    http("DELETE", "/api/v1/controllers/4", ("DELETE", "Cluster:default")),
    *(http("GET", f"/metrics{path}", ("GET", "Cluster:default")) for path in ("", "/rabbitmq", "/rabbitmq/per-object")),
    http("GET", "/api/v1/retained?filter=grid/%23", ("SUB", "Topic:grid/#")),
    http("GET", "/api/v1/retained/grid%2Fa", ("SUB", "Topic:grid/a")),
    http("DELETE", "/api/v1/retained?filter=grid/%23", ("PUB", "Topic:grid/#")),
    http("DELETE", "/api/v1/retained/grid%2Fa", ("PUB", "Topic:grid/a")),
    http("GET", "/api/v1/settings", ("GET", "Cluster:default")),
    http("GET", "/api/v1/bridges", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/rocketmq-bridges", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/ingest-jobs", ("LIST", "Cluster:default")),
    http("DELETE", "/api/v1/ingest-jobs/none", ("UPDATE", "Cluster:default")),
    http("GET", "/api/v1/clients", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/clients/c", ("GET", "Cluster:default")),
    http("DELETE", "/api/v1/clients/c", ("UPDATE", "Cluster:default")),
    http("GET", "/api/v1/clients/c/events", ("GET", "Cluster:default")),
    http("POST", "/api/v1/clients:disconnect", ("UPDATE", "Cluster:default"), json={"ids": ["c"]}),
    http("GET", "/api/v1/connected-clients", ("LIST", "Cluster:default")),
    http(
        "POST",
        "/api/v1/connected-clients:disconnect",
        ("UPDATE", "Cluster:default"),
        json={"clients": [{"door": "mqtt", "id": "c"}]},
    ),
    http("GET", "/api/v1/amqp/connections", ("LIST", "Cluster:default")),
    http("GET", "/api/v1/amqp/connections/c", ("GET", "Cluster:default")),
    http("GET", "/api/v1/amqp/consumers", ("LIST", "Cluster:default")),
    http("POST", "/api/v1/amqp/connections:close", ("UPDATE", "Cluster:default"), json={"names": ["c"]}),
    http("GET", "/api/v1/rocketmq/clients", ("LIST", "Cluster:default")),
    http("DELETE", "/api/v1/rocketmq/clients/c", ("UPDATE", "Cluster:default")),
    http("POST", "/api/v1/rocketmq/clients:disconnect", ("UPDATE", "Cluster:default"), json={"ids": ["c"]}),
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
    http("GET", "/api/v1/acls:effective?subject=x"),
    http("GET", "/api/v1/acls:who?resource=Topic:a"),
    http("GET", "/api/v1/acls/x"),
    http("PUT", "/api/v1/acls/x", json={"statements": []}),
    http("DELETE", "/api/v1/acls/gone"),
    http("GET", "/api/v1/audit"),
    http("GET", "/api/v1/traces"),
    http("PUT", "/api/v1/traces/c", json={}),
    http("GET", "/api/v1/traces/c"),
    http("DELETE", "/api/v1/traces/c"),
    *(http(method, path, json=body) for method, path, _, body in rabbitmq_grid.FOR_SUPER_USERS),
]
OWN = [
    http("GET", "/asyncapi.json"),
    http("GET", "/subscriptions"),
    http("GET", "/namespaces/plant/subscriptions"),
    http("GET", "/api/v1/webhooks"),
    http("GET", "/api/v1/namespaces/plant/webhooks"),
    http("GET", "/api/v1/event-rules"),
    http("GET", "/api/v1/namespaces/plant/event-rules"),
]
"""They show what the caller may see."""
LOGIN = [http("POST", "/api/v1/session", json={}), http("DELETE", "/api/v1/session")]
"""Open to everybody; tests of their own tell what they do (`test_http_login.py`)."""
BY_TOKEN = [http(method, "/webhooks/consent/default/none/token") for method in ("GET", "POST")]
"""The token in the path is the right."""
PUBLIC = [
    http("GET", "/healthz"),
    http("GET", "/readyz"),
    http("GET", "/openapi.json"),
    http("GET", "/api/v1/session"),
    *(http("OPTIONS", f"{below}/topics/grid:publish") for below in ("", "/namespaces/plant")),
]
BY_TIMER_HANDLE = {("DELETE", "/api/v1/timers/{handle}"), ("PUT", "/api/v1/timers/{handle}")}
"""Their handles are made in a test of their own."""
