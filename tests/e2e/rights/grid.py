"""The grid's frame: rows of (door, verb, form of naming), the decisions that each is tried with, and the doors.

A row says which full names it needs which rights on.  Users are made from that alone, so every door is held to the same
names.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Connack, Connect
from tests.support.http.client import http_client
from tests.support.mqtt.client import RawClient
from tests.support.rocketmq.site import SECRET, Site

Need = tuple[str, str]
"""An action, and a resource such as `Topic:grid/a`."""
EVERYTHING = {"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"]}


class Doors(Site):
    """The doors of one server, as users come to them.  `cold`: URL of its object store."""

    cold = ""

    def user(self, *statements: dict[str, Any], name: str = "", secret: str = SECRET) -> str:
        name = name or f"u{uuid.uuid4().hex[:10]}"
        made = self.root.put(f"/api/v1/users/{name}", json={"password": "pw", "signingSecret": secret})
        assert made.status_code == 201, made.text
        self.policy(name, *statements)
        return name

    @contextmanager
    def amqp(self, name: str, vhost: str = "/", password: str = "pw") -> Iterator[Any]:
        shown = pika.PlainCredentials(name, password)
        parameters = pika.ConnectionParameters("127.0.0.1", self.server.port("amqp"), vhost, shown)
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def mqtt(self, name: str, password: str = "pw", **options: Any) -> Iterator[tuple[RawClient, Connack]]:
        with RawClient(self.server.port("mqtt")) as client:
            client.say(Connect("", 5, username=name, password=password.encode(), **options))
            yield client, client.expect(Connack)

    @contextmanager
    def http(self, name: str, password: str = "pw") -> Iterator[httpx2.Client]:
        url = f"http://{self.server.address('http')}"
        with http_client(url, auth=(name, password)) as client:
            yield client


@dataclass(frozen=True)
class Row:
    """One way to name something.  `ways`: of the product's ways those that it tries.  `is_denied` tries it as a user.
    `prepare` is done first each time, by the super user."""

    door: str
    verb: str
    form: str
    needs: tuple[Need, ...]
    is_denied: Callable[[Doors, str], bool] = field(repr=False, compare=False)
    ways: frozenset[str] = frozenset()
    prepare: Callable[[Doors], None] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.door}, {self.verb}, {self.form}"


@dataclass(frozen=True)
class Decision:
    """A user's statements, and what has to come of them."""

    name: str
    statements: tuple[dict[str, Any], ...]
    is_denied: bool


def said(effect: str, *needs: Need) -> tuple[dict[str, Any], ...]:
    return tuple({"effect": effect, "actions": [action], "resources": [resource]} for action, resource in needs)


def decisions(row: Row) -> Iterator[Decision]:
    """What a row is tried with."""
    needs = row.needs
    yield Decision("exactly what it needs", said("ALLOW", *needs), False)
    yield Decision("nothing", (), True)
    for need in needs:
        others = tuple(each for each in needs if each != need)
        if others:
            yield Decision(f"all but {need}", said("ALLOW", *others), True)
        if (bare := bare_of(need)) != need:
            yield Decision(f"the bare topic for {need}", said("ALLOW", *others, bare), True)
        inside = (need[0], inside_of(need[1]))
        yield Decision(f"a denial of {inside}", (EVERYTHING, *said("DENY", inside)), True)
        if beside := beside_of(need[1]):
            yield Decision(f"a denial of {beside}", (EVERYTHING, *said("DENY", (need[0], beside))), False)


def bare_of(need: Need) -> Need:
    """The right on the topic alone of which something in it is needed."""
    action, resource = need
    kind, _, name = resource.partition(":")
    levels = name.split("/")
    depth = 3 if levels[0] == "$ns" else 1
    is_below = kind == "Topic" and len(levels) > depth and levels[depth - 1] not in ("+", "#")
    return (action, f"{kind}:{'/'.join(levels[:depth])}") if is_below else need


def inside_of(resource: str) -> str:
    """One name of those that a resource stands for."""
    kind, _, name = resource.partition(":")
    name = "any" if name in ("*", "#") else name.replace("+", "one")
    return f"{kind}:{name.removesuffix('#')}deep/down" if name.endswith("/#") else f"{kind}:{name}"


def beside_of(resource: str) -> str:
    """A name near the only one that a resource stands for; empty where it stands for many."""
    return "" if resource.endswith(("#", "*")) or "+" in resource else f"{resource}beside"
