"""A cluster of three replicas, three controllers and two gateways, which every door has filled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from entrepot.store_client.blocking import StoreLocation
from tests.browser import client_steps, group_steps, moving
from tests.support.http.client import http_client
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.processes.server import Process
from tests.support.waiting import wait_until

ROOT: Final = moving.ADMIN
LOOKER: Final = ("looker", ROOT[1])
"""A user who may see everything and change nothing."""
GLANCER: Final = ("glancer", ROOT[1])
"""A user who may see everything but messages, and change nothing."""
NOBODY: Final = ("nobody", ROOT[1])
"""A user without rights."""
TYPES: Final = ("Topic", "Group", "Namespace", "Cluster")
GLANCING: Final = {"effect": "ALLOW", "actions": ["GET", "LIST"], "resources": [f"{each}:*" for each in TYPES]}
LOOKING: Final = {**GLANCING, "actions": ["GET", "LIST", "SUB"]}
BOTH: Final = {"asked": 2, "answered": 2, "missing": []}


@dataclass(slots=True)
class Site:
    """The cluster, with a client of the first user at each gateway.

    `stack`: what stays open as long.  `names`: what it made, by kind.  A thing that the server names is there by the
    name that its action has for it.  `page_at`: the gateway that the page is at.
    """

    cluster: ReplicatedProcesses
    roots: list[httpx2.Client]
    stack: ExitStack
    names: dict[str, str] = field(default_factory=dict)
    page_at: int = 0

    @property
    def gateways(self) -> list[Process]:
        return list(self.cluster.gateways)

    @property
    def away(self) -> Process:
        """The gateway that the page is not at."""
        return self.gateways[1 - self.page_at]

    def put(self, path: str, **body: object) -> None:
        """Make a thing, and wait until both gateways know it."""
        answer = self.roots[0].put(path, json=body)
        assert answer.is_success, answer.text
        wait_until(lambda: all(root.get(path).is_success for root in self.roots), f"{path} is known")

    def user(self, name: str, *statements: dict[str, Any], is_super: bool = False) -> tuple[str, str]:
        """A user with a policy, known at both gateways."""
        first = self.roots[0]
        assert first.put(f"/api/v1/users/{name}", json={"password": ROOT[1], "super": is_super}).is_success
        if statements:
            assert first.put(f"/api/v1/acls/{name}", json={"statements": list(statements)}).is_success
        paths = (f"/api/v1/users/{name}", *([f"/api/v1/acls/{name}"] if statements else []))
        wait_until(lambda: all(each.get(path).is_success for each in self.roots for path in paths), "it is known")
        return name, ROOT[1]


@contextmanager
def filled_site(directory: Path, **settings: str) -> Iterator[Site]:
    """The cluster with all its parts in sync, and with something on every page."""
    asked = {key: value for key, value in moving.SETTINGS.items() if key != "broker.enabled"} | settings
    with ExitStack() as stack:
        cluster = stack.enter_context(
            ReplicatedProcesses(directory, "in-sync", replicas=3, gateways=2, controllers=3, settings=asked)
        )
        roots = [
            stack.enter_context(http_client(f"http://{gateway.address('http')}", auth=ROOT))
            for gateway in cluster.gateways
        ]
        site = Site(cluster, roots, stack)
        wait_until(lambda: all(_hears_both(root) for root in roots), "they know each other")
        wait_until(lambda: in_sync(roots[0]) == 3, lambda: str(roots[0].get("/api/v1/brokers").json()))
        _fill(site, directory)
        cluster.name_servers[1].kill()  # an alarm, and no more
        wait_until(lambda: all(_has_alarm(root) for root in roots), "its absence is known")
        yield site


def _hears_both(root: httpx2.Client) -> bool:
    return bool(root.get("/api/v1/gateways").json()["answered"] == BOTH)


def _has_alarm(root: httpx2.Client) -> bool:
    return any("Name server" in each["subject"] for each in root.get("/api/v1/overview").json()["alarms"])


def in_sync(root: httpx2.Client) -> int:
    """Replicas that are in sync and have no problem."""
    brokers = root.get("/api/v1/brokers").json()["value"]
    return sum(each["isInSync"] and not each["problem"] for broker in brokers for each in broker["replicas"])


def _fill(site: Site, directory: Path) -> None:
    root, first, stack = site.roots[0], site.cluster.gateways[0], site.stack
    site.user(*LOOKER[:1], LOOKING)
    site.user(*GLANCER[:1], GLANCING)
    site.user(*NOBODY[:1])
    for body in ({"name": "plant"}, {"name": "lab"}):
        assert root.put(f"/api/v1/namespaces/{body['name']}", json={}).is_success
    group_steps.fill(root, first)
    with moving.amqp(first) as channel:
        moving.declare_shop(channel)
    signer = (group_steps.SIGNING.access_key, group_steps.SIGNING.secret)
    stack.enter_context(client_steps.mqtt(first, "line-1", "orders/#", user=ROOT))
    stack.enter_context(client_steps.mqtt(site.cluster.gateways[1], "line-2", "orders/#", user=ROOT))
    stack.enter_context(client_steps.amqp(site.cluster.gateways[1], "work", user=ROOT))
    stack.enter_context(client_steps.rocketmq(first, "rocket-1", user=signer))
    site.names["webhook"] = moving.subscribe(root, "http://127.0.0.1:9/sink", "orders-in")
    rules = {"dedupSeconds": 60}
    assert root.put("/api/v1/topics/orders-in/event-rules", json=rules).is_success
    name_servers = tuple(each.address("nameserver") for each in site.cluster.name_servers)
    moving.report_job(StoreLocation(name_servers=name_servers), directory / "job", "orders-in")
    answer = root.get("/api/v1/topics/orders-in/messages", params={"limit": 1}).json()
    site.names["message"] = answer["value"][0]["id"]
    site.names["connection"] = root.get("/api/v1/amqp/connections").json()["value"][0]["name"]
