"""Everything that a page could ask a server for, taken from what the server says of its routes, and what there is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess

EVENT: Final = {"specversion": "1.0", "id": "1", "source": "/page", "type": "stolen"}
ADMINISTRATOR: Final = {"name": "mallory", "password": "mallory", "tags": "administrator"}
NAMES: Final = {
    "topics": "known",
    "groups": "workers",
    "eventsubscriptions": "workers",
    "namespaces": "plant",
    "users": "mallory",
    "acls": "anonymous",
    "vhosts": "plant",
    "permissions": "%2F",
    "exchanges": "%2F",
    "queues": "%2F",
    "bindings": "%2F",
    "policies": "%2F",
    "operator-policies": "%2F",
    "definitions": "%2F",
    "%2F": "made",
}
"""What a parameter of a path is, by the segment before it."""
BODIES: Final[dict[str, Any]] = {
    "/api/definitions": {"users": [ADMINISTRATOR], "queues": [{"name": "made", "vhost": "/", "durable": True}]},
    "/api/v1/users/{name}": {"password": "mallory", "super": True},
    "/api/users/{name}": ADMINISTRATOR,
    "/api/v1/acls/{subject}": {"statements": []},
    "/api/permissions/{vhost}/{user}": {"configure": ".*", "write": ".*", "read": ".*"},
    "/api/exchanges/{vhost}/{name}/publish": {"routing_key": "known", "payload": "stolen", "properties": {}},
    "/api/queues/{vhost}/{name}/get": {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    "/subscriptions": {"source": "known", "sink": "https://evil.example/", "protocol": "HTTP"},
    "/api/v1/groups/{name}:reset": {"topic": "known", "to": "latest"},
    "/topics/{topic}:publish": EVENT,
}
PUBLIC: Final = re.compile(r"/(healthz|readyz|webhooks/consent/.*)")
"""What everybody may ask for, by whatever name."""
SHOWN: Final = (
    *("/api/v1/topics", "/api/v1/topics/known", "/api/v1/groups", "/api/v1/groups/workers", "/api/v1/namespaces"),
    *("/api/v1/users", "/api/v1/acls", "/subscriptions", "/api/v1/timers", "/api/v1/sessions", "/api/v1/retained"),
    *("/api/definitions", "/api/v1/topics/known/event-rules", "/api/v1/messages?topic=known"),
)


@dataclass(frozen=True)
class Attempt:
    """One request."""

    method: str
    path: str
    body: str

    @property
    def changes(self) -> bool:
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def takes_json(self) -> bool:
        """Whether its body is JSON and nothing else."""
        return self.changes and not self.path.endswith(":publish") and "/consent/" not in self.path


def client_of(server: ServerProcess) -> httpx2.Client:
    return http_client(f"http://{server.address('http')}")


def prepare(client: httpx2.Client) -> None:
    """Something that can be changed, and taken away."""
    for path in ("/api/v1/topics/known", "/api/v1/groups/workers", "/api/v1/namespaces/plant"):
        assert client.put(path, json={}).status_code in (200, 201)
    structured = {"content-type": "application/cloudevents+json"}
    client.post("/topics/known:publish", content=json.dumps(EVENT), headers=structured).raise_for_status()


def attempts(client: httpx2.Client) -> list[Attempt]:
    """A request of every operation that the server has, but the handshake of webhooks, which is everybody's."""
    found = []
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in (each for each in operations if each != "options"):
            plain = path.replace("/namespaces/{namespace}", "")
            body = BODIES.get(plain, BODIES.get(path, {}))
            found.append(Attempt(method.upper(), "/".join(_segments(path)), json.dumps(body)))
    return found


def _segments(path: str) -> Iterator[str]:
    before = ""
    for segment in path.split("/"):
        named = re.sub(r"\{[a-z_]+\}", NAMES.get(before, "0"), segment)
        before = named if named.startswith("%") else segment
        yield named


def state(client: httpx2.Client) -> dict[str, Any]:
    """What there is."""
    shown = {path: client.get(path) for path in SHOWN}
    for path, answer in shown.items():
        assert answer.status_code == 200, (path, answer.text)
    return {path: answer.json() for path, answer in shown.items()}
