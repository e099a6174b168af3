"""The routes of RabbitMQ's API for the authorisation grid: method, path, the rights it needs, a body."""

from __future__ import annotations

from typing import Any

Row = tuple[str, str, tuple[tuple[str, str], ...], dict[str, Any] | None]


def needs(method: str, path: str, *rights: tuple[str, str], body: dict[str, Any] | None = None) -> Row:
    return method, f"/api{path}", rights, body


LOOK, LIST = ("GET", "Cluster:default"), ("LIST", "Cluster:default")
TOPICS = ("LIST", "Topic:*")
GOVERN = ("UPDATE", "Topic:*")
POLICY = {"pattern": "^q", "definition": {"max-length": 1}}
Q, NS_Q = "/queues/%2F/jobs", "/queues/plant/jobs"
X = "/exchanges/%2F/shop"
BETWEEN = "/bindings/%2F/e/shop/q/jobs"

ROUTES: list[Row] = [
    *(needs("GET", path, LOOK) for path in ("/overview", "/cluster-name", "/feature-flags", "/nodes", "/nodes/n")),
    *(
        needs("GET", f"/health/checks/{name}", LOOK)
        for name in (
            *("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical"),
            *("port-listener/x", "protocol-listener/http", "certificate-expiration/4/weeks"),
        )
    ),
    needs("GET", "/healthchecks/node", LOOK),
    needs("GET", "/whoami"),
    needs("GET", "/extensions"),
    needs(
        "GET",
        "/aliveness-test/%2F",
        ("CREATE", "Topic:aliveness-test"),
        ("PUB", "Topic:aliveness-test"),
        ("SUB", "Group:aliveness-test"),
    ),
    needs("GET", "/vhosts", ("LIST", "Namespace:*")),
    needs("GET", "/vhosts/%2F", ("GET", "Namespace:default")),
    needs("PUT", "/vhosts/plant", ("CREATE", "Namespace:plant")),
    needs("DELETE", "/vhosts/gone", ("DELETE", "Namespace:gone")),
    *(needs("GET", f"/vhosts/%2F/{kind}", LIST) for kind in ("connections", "channels")),
    needs("GET", "/connections/username/x", LIST),
    needs("DELETE", "/connections/username/x", ("UPDATE", "Cluster:default")),
    *(needs("GET", path, TOPICS) for path in ("/vhost-limits/%2F", "/parameters/c", "/parameters/c/%2F")),
    *(needs("GET", path, LIST) for path in ("/connections", "/channels", "/consumers", "/consumers/%2F")),
    *(needs("GET", path, LOOK) for path in ("/connections/c", "/connections/c/channels", "/channels/c")),
    needs("DELETE", "/connections/c", ("UPDATE", "Cluster:default")),
    *(needs("GET", path, TOPICS) for path in ("/exchanges", "/exchanges/%2F", "/queues", "/queues/%2F")),
    *(needs("GET", path, TOPICS) for path in ("/bindings", "/bindings/%2F", "/parameters", "/vhost-limits")),
    *(needs("GET", path, ("GET", "Topic:shop")) for path in (X, f"{X}/bindings/source", f"{X}/bindings/destination")),
    needs("PUT", X, ("CREATE", "Topic:shop"), body={"type": "topic"}),
    needs("DELETE", X, ("DELETE", "Topic:shop")),
    needs("POST", f"{X}/publish", ("PUB", "Topic:shop/a"), body={"routing_key": "a", "payload": "x"}),
    needs("GET", Q, ("GET", "Topic:jobs")),
    needs("GET", NS_Q, ("GET", "Topic:$ns/plant/jobs")),
    needs("GET", f"{Q}/bindings", ("GET", "Topic:jobs")),
    needs("PUT", Q, ("CREATE", "Topic:jobs"), body={}),
    needs("PUT", NS_Q, ("CREATE", "Topic:$ns/plant/jobs"), body={}),
    needs("DELETE", Q, ("DELETE", "Topic:jobs")),
    needs("DELETE", f"{Q}/contents", ("SUB", "Group:jobs")),
    needs("DELETE", f"{NS_Q}/contents", ("SUB", "Group:$ns/plant/jobs")),
    needs("POST", f"{Q}/get", ("SUB", "Group:jobs"), body={}),
    needs("GET", BETWEEN, ("GET", "Topic:shop")),
    needs("GET", f"{BETWEEN}/k", ("GET", "Topic:shop")),
    needs("POST", BETWEEN, ("UPDATE", "Topic:jobs"), ("SUB", "Topic:shop"), body={}),
    needs("DELETE", f"{BETWEEN}/k", ("UPDATE", "Topic:jobs")),
    *(
        needs("GET", f"/{kind}{path}", TOPICS)
        for kind in ("policies", "operator-policies")
        for path in ("", "/%2F", "/%2F/p")
    ),
    *(
        needs(method, f"/{kind}/%2F/p", GOVERN, body=POLICY if method == "PUT" else None)
        for kind in ("policies", "operator-policies")
        for method in ("PUT", "DELETE")
    ),
]

PERMISSION = {"configure": "", "write": "", "read": ""}
FOR_SUPER_USERS: list[Row] = [
    needs("GET", "/users"),
    needs("GET", "/users/root"),
    needs("PUT", "/users/root", body={"tags": "administrator"}),
    needs("DELETE", "/users/gone"),
    needs("GET", "/users/root/permissions"),
    needs("GET", "/vhosts/%2F/permissions"),
    needs("GET", "/permissions"),
    needs("GET", "/permissions/%2F/x"),
    needs("PUT", "/permissions/%2F/x", body=PERMISSION),
    needs("DELETE", "/permissions/%2F/x"),
    *(needs("GET", path) for path in ("/topic-permissions", "/topic-permissions/%2F/x")),
    *(needs("GET", path) for path in ("/users/root/topic-permissions", "/vhosts/%2F/topic-permissions")),
    needs("PUT", "/topic-permissions/%2F/x", body={"exchange": "amq.topic", "write": "", "read": ""}),
    needs("DELETE", "/topic-permissions/%2F/x"),
    needs("GET", "/users/without-permissions"),
    needs("POST", "/users/bulk-delete", body={"users": []}),
    *(needs("GET", path) for path in ("/user-limits", "/user-limits/x", "/global-parameters", "/global-parameters/x")),
    *(
        needs(method, f"/{kind}/x/max-connections", body={"value": 5} if method == "PUT" else None)
        for kind in ("user-limits", "vhost-limits")
        for method in ("PUT", "DELETE")
    ),
    needs("PUT", "/global-parameters/x", body={"value": 1}),
    needs("DELETE", "/global-parameters/x"),
    needs("GET", "/definitions"),
    needs("GET", "/definitions/%2F"),
    needs("POST", "/definitions", body={}),
    needs("POST", "/definitions/%2F", body={}),
]
