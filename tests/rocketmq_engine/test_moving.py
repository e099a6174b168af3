"""Moving from Apache RocketMQ: its definitions are imported, and its topics carried both ways, through kills."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.rocketmq.remoting.signing import signed
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.gateways.rocketmq_bridges import (
    carried,
    queue_of,
    rocketmq_bridge_settings,
    rocketmq_remote,
)
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.remoting_client import RemotingClient, RemotingError
from tests.support.stores.steps import settled
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = on_rocketmq

COUNT: Final = 3_000
QUEUES: Final = 4
KILLS: Final = 3
LEASE_PATIENCE_SECONDS: Final = 3 * PATIENCE_SECONDS
ADMIN: Final = ("admin", "a long password")
KEY, SECRET = "operator", "12345678"
CREATE_USER, CREATE_ACL = 3001, 3006
_AUTH: Final = "org.apache.rocketmq.auth"
WITH_RIGHTS: Final[Mapping[str, Any]] = {
    "authenticationEnabled": True,
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": json.dumps({"username": KEY, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": KEY, "secretKey": SECRET}),
    "authorizationEnabled": True,
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
"""Settings of brokers with ACL 2.0."""


BATCH: Final = {"content-type": "application/cloudevents-batch+json"}


async def open_at(cluster: RocketMqCluster, **others: Any) -> Store:
    return await open_rocketmq(
        [f"127.0.0.1:{cluster.name_server_port}"], SystemClock(), request_timeout_ms=10_000, **others
    )


async def imported(
    cluster: RocketMqCluster, server: ServerProcess, capfd: pytest.CaptureFixture[str], *arguments: str
) -> dict[str, Any]:
    """What `entrepot import rocketmq` reports."""
    place = ("--name-servers", f"127.0.0.1:{cluster.name_server_port}", "--server", f"http://{server.address('http')}")
    capfd.readouterr()
    code = await asyncio.to_thread(run, ("import", "rocketmq", *place, "--json", *arguments))
    out, err = capfd.readouterr()
    assert code in (0, 1), err
    report: dict[str, Any] = json.loads(out)
    assert code == bool(report["left_out"])
    return report


def get(server: ServerProcess, path: str) -> Any:
    url = f"http://{server.address('http')}/api/v1{path}"
    answer = httpx2.get(url, auth=ADMIN, timeout=PATIENCE_SECONDS, trust_env=False)
    return None if answer.status_code == 404 else answer.raise_for_status().json()


async def test_topics_and_groups_are_imported(
    rocketmq_cluster: RocketMqCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rocketmq_cluster.put_topic("moved-orders", queues=6, message_type="FIFO")
    rocketmq_cluster.put_topic("moved-closed", queues=2, permission=4)
    rocketmq_cluster.put_topic("moved-half", queues=2, brokers=1)
    rocketmq_cluster.put_group("moved-workers", fifo=True, max_attempts=4)
    store = await open_at(rocketmq_cluster)
    await store.topology.put_topic(Topic("moving/moved-inside", queues=1))
    await store.close()
    with ServerProcess(tmp_path) as server:
        report = await imported(rocketmq_cluster, server, capfd)
        left = {(row["namespace"], row["name"]): row["reason"] for row in report["left_out"]}
        assert "brokers differ" in left["default", "moved-half"]
        assert [row for row in report["left_out"] if row["kind"] in ("users", "policies")] == [], "it has none"
        made = {(row["kind"], row["namespace"], row["name"]) for row in report["made"]}
        assert ("topics", "moving", "moved-inside") in made
        unwanted = ("TBW102", "RMQ_SYS", "SCHEDULE", "TRANS_CHECK", "BenchmarkTest", "broker-", "OFFSET_MOVED", "CID_")
        names = [*(name for _, _, name in made), *(name for _, name in left)]
        assert [name for name in names if name.startswith(unwanted)] == []
        orders, closed = get(server, "/topics/moved-orders"), get(server, "/topics/moved-closed")
        assert (orders["queues"], orders["type"], orders["permission"]) == (6, "NORMAL", "READ_WRITE")
        assert closed["permission"] == "READ"
        workers = get(server, "/groups/moved-workers")
        assert (workers["fifo"], workers["maxAttempts"], workers["start"]) == (True, 4, "earliest")
        again = await imported(rocketmq_cluster, server, capfd)
        assert (again["made"], again["done"]) == ([], report["done"])


def ask_signed(port: int, code: int, fields: dict[str, str], content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    with RemotingClient(port) as client:
        client.ask(code, signed(fields, body, KEY, SECRET, ""), body)


async def test_users_and_rights_are_imported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTREPOT_ROCKETMQ_SECRET", SECRET)
    with RocketMqCluster(tmp_path, settings=WITH_RIGHTS) as cluster:
        port = cluster.brokers[0].port
        alice = {"username": "alice", "password": "her own secret", "userType": "Normal", "userStatus": "enable"}
        wait_until(lambda: is_made(port, alice), "the first user is there")
        entries = [
            {"resource": "Topic:orders*", "actions": ["Pub", "Sub"], "sourceIps": ["192.0.2.7"], "decision": "Allow"},
            {"resource": "Group:workers", "actions": ["Sub"], "decision": "Allow"},
        ]
        policy = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": entries}]}
        ask_signed(port, CREATE_ACL, {"subject": "User:alice"}, policy)
        (tmp_path / "server").mkdir()
        with ServerProcess(tmp_path / "server") as server:
            token = {"authorization": f"Bearer {server.setup_token}"}
            url, admin = f"http://{server.address('http')}/api/v1/users/admin", {"password": ADMIN[1], "super": True}
            httpx2.put(url, json=admin, headers=token, trust_env=False).raise_for_status()
            monkeypatch.setenv("ENTREPOT_USER", ADMIN[0])
            monkeypatch.setenv("ENTREPOT_PASSWORD", ADMIN[1])
            report = await imported(cluster, server, capfd, "--access-key", KEY)
            assert report["left_out"] == []
            assert (report["done"]["users"], report["done"]["policies"]) == (2, 1)
            user, operator = get(server, "/users/alice"), get(server, f"/users/{KEY}")
            assert (user["super"], user["enabled"], user["hasSigningSecret"]) == (False, True, True)
            assert operator["super"] is True
            statements = get(server, "/acls/alice")["statements"]
            said = [(each["actions"], each["resources"], each["sources"]) for each in statements]
            assert said == [(["PUB", "SUB"], ["Topic:orders*"], ["192.0.2.7"]), (["SUB"], ["Group:workers"], [])]


def is_made(port: int, user: dict[str, Any]) -> bool:
    """True once a user can be made: a broker makes its first user a moment after its start."""
    try:
        ask_signed(port, CREATE_USER, {"username": user["username"]}, user)
    except RemotingError:
        return False
    return True


# -- carried topics --------------------------------------------------------------------------------------------------


class Producer:
    """Appends numbered messages to the queues of a topic in turn, and remembers what was confirmed."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store, self._topic = store, topic
        self.confirmed: list[str] = []

    async def run(self, count: int) -> None:
        for first in range(0, count, 20):
            bodies = [f"{number}" for number in range(first, first + 20)]
            confirmation = self._store.messages.append([Message(self._topic, body.encode()) for body in bodies])
            try:
                refusals = await confirmation.wait(0, len(bodies)) or [None] * len(bodies)
            except EntrepotError:  # what became of them is not known
                continue
            self.confirmed += [body for body, refusal in zip(bodies, refusals, strict=True) if refusal is None]


async def killed_under_way(server: ServerProcess, field: str) -> None:
    """Kill the server whenever some messages were carried, and start it again."""
    for _ in range(KILLS):
        await carried(server, lambda told: told[field] > 0, LEASE_PATIENCE_SECONDS)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)


async def test_in_through_kills_nothing_is_lost(rocketmq_cluster: RocketMqCluster, tmp_path: Path) -> None:
    cluster = await open_at(rocketmq_cluster)
    await cluster.topology.put_topic(Topic("carried-in", queues=QUEUES // 2))
    rule = {"direction": "in", "topics": ["carried-i*"], "start": "earliest"}
    settings = rocketmq_bridge_settings(rocketmq_remote(rocketmq_cluster.name_server_port, rule))
    producer = Producer(cluster, "carried-in")
    with ServerProcess(tmp_path, settings) as server:
        producing = asyncio.create_task(producer.run(COUNT))
        await killed_under_way(server, "received")
        await producing
        end = len(producer.confirmed)
        assert end > COUNT * 0.9

        def is_all_here(told: dict[str, Any]) -> bool:
            return bool(told["topics"]) and told["topics"][0]["position"] >= end

        await carried(server, is_all_here, LEASE_PATIENCE_SECONDS)
        queues = [await asyncio.to_thread(queue_of, server, "carried-in", queue_id) for queue_id in range(QUEUES // 2)]
        found = [str(each["text"]) for queue in queues for each in queue]
        assert set(producer.confirmed) - set(found) == set(), "lost"
        print(f"in: {end} confirmed there, {len(found)} here, {len(found) - len(set(found))} twice, {KILLS} kills")
    await cluster.close()


def is_published(server: ServerProcess, batch: list[dict[str, Any]]) -> bool:
    try:
        http_json(server, "POST", "/topics/carried-out:publish", batch, BATCH)
    except (AssertionError, OSError, KeyError, HTTPException):
        return False
    return True


async def test_out_through_kills_nothing_is_lost(rocketmq_cluster: RocketMqCluster, tmp_path: Path) -> None:
    rule = {"direction": "both", "topics": ["carried-out"], "start": "earliest"}
    settings = rocketmq_bridge_settings(rocketmq_remote(rocketmq_cluster.name_server_port, rule))
    with ServerProcess(tmp_path, settings) as server:
        confirmed: list[str] = []

        async def produce() -> None:
            for first in range(0, COUNT, 20):
                batch = [
                    {"specversion": "1.0", "id": str(n), "source": "/s", "type": "t", "data": n}
                    for n in range(first, first + 20)
                ]
                while not await asyncio.to_thread(is_published, server, batch):
                    await asyncio.sleep(0.05)  # it was killed
                confirmed.extend(str(each["id"]) for each in batch)

        producing = asyncio.create_task(produce())
        await killed_under_way(server, "sent")
        await producing
        cluster = await open_at(rocketmq_cluster)
        found: list[str] = []

        async def are_all_there() -> bool:
            found.clear()
            for bounds in await cluster.messages.bounds("carried-out"):
                at = bounds.min_offset
                while at < bounds.max_offset:
                    pulled = await cluster.messages.pull("carried-out", bounds.queue_id, at, 500)
                    found.extend(message.body.decode() for message in pulled.messages)
                    at = pulled.next_offset
            return set(confirmed) <= set(found)

        async with asyncio.timeout(LEASE_PATIENCE_SECONDS):
            while not await are_all_there():
                await asyncio.sleep(0.1)
        told = await carried(server, lambda told: told["topics"] and told["topics"][0]["waiting"] == 0)
        assert told["received"] == 0, "nothing that went out comes in again"
        print(f"out: {len(confirmed)} confirmed here, {len(found)} there, {len(found) - len(set(found))} twice")
        await cluster.close()


async def test_a_message_keeps_what_it_has_both_ways(rocketmq_cluster: RocketMqCluster, tmp_path: Path) -> None:
    """From the cluster to here, and a topic that is made while the bridge runs."""
    cluster = await open_at(rocketmq_cluster)
    rule = {"direction": "in", "topics": ["carried-w*"], "start": "earliest", "local_prefix": "old-"}
    settings = rocketmq_bridge_settings(rocketmq_remote(rocketmq_cluster.name_server_port, rule))
    with ServerProcess(tmp_path, settings) as server:
        await carried(server, lambda told: told["state"] == "connected")
        await cluster.topology.put_topic(Topic("carried-whole", queues=1))
        await cluster.topology.put_group(ConsumerGroup("carried-whole"))
        sent = Message(
            "carried-whole",
            b"whole",
            queue_id=0,
            tag="red",
            keys=("k1", "k2"),
            message_id=bytes(range(16)),
            born_time_ms=1_700_000_000_123,
            properties=(("a", "1"), ("b", "x y")),
        )
        assert await settled(cluster.messages.append([sent])) is None
        await carried(server, lambda told: told["received"] == 1)
        queues = [await asyncio.to_thread(queue_of, server, "old-carried-whole", queue_id) for queue_id in (0,)]
        [found] = [each for queue in queues for each in queue]
        assert (found["tag"], found["keys"], found["id"]) == ("red", ["k1", "k2"], bytes(range(16)).hex().upper())
        assert (found["subTopic"], found["bornTime"]) == ("old-carried-whole", "2023-11-14T22:13:20.123Z")
        assert found["properties"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "x y"}]
    await cluster.close()
