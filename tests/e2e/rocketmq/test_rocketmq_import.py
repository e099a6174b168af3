"""`entrepot import rocketmq`: what a RocketMQ cluster has, taken in by the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.topic import Permission, Topic, TopicType
from entrepot.gateway.cli.app import run
from entrepot.gateway.clock import SystemClock
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.server import RocketMqServer
from tests.support.waiting import PATIENCE_SECONDS

ADMIN = ("admin", "a long password")
SECRET = "12345678"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("import")) as process:
        yield process


@pytest.fixture
async def cluster() -> AsyncIterator[RocketMqServer]:
    """Two brokers that want signed requests."""
    model = RocketMqServer(SystemClock(), 2, accounts={"reader": SECRET})
    await model.start()
    yield model
    await model.close()


Command = Callable[..., Coroutine[Any, Any, tuple[int, str, str]]]


@pytest.fixture
def entrepot(
    server: ServerProcess,
    cluster: RocketMqServer,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    """Runs the import; returns its exit code, standard output and standard error."""
    monkeypatch.setenv("ENTREPOT_SERVER", f"http://{server.address('http')}")
    monkeypatch.setenv("ENTREPOT_ROCKETMQ_SECRET", SECRET)
    monkeypatch.setenv("ENTREPOT_USER", ADMIN[0])
    monkeypatch.setenv("ENTREPOT_PASSWORD", ADMIN[1])

    async def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        place = ("--name-servers", f"127.0.0.1:{cluster.port}", "--access-key", "reader")
        code = await asyncio.to_thread(run, ("import", "rocketmq", *place, *arguments))
        return code, *capfd.readouterr()

    return command


def get(server: ServerProcess, path: str) -> Any:
    url = f"http://{server.address('http')}/api/v1{path}"
    answer = httpx2.get(url, auth=ADMIN, timeout=PATIENCE_SECONDS, trust_env=False)
    return None if answer.status_code == 404 else answer.raise_for_status().json()


def define_admin(server: ServerProcess) -> None:
    url = f"http://{server.address('http')}/api/v1/users/{ADMIN[0]}"
    token = {"authorization": f"Bearer {server.setup_token}"}
    body = {"password": ADMIN[1], "super": True}
    answer = httpx2.put(url, json=body, headers=token, timeout=PATIENCE_SECONDS, trust_env=False)
    answer.raise_for_status()


async def fill(cluster: RocketMqServer) -> None:
    """Definitions of every kind, with such as cannot be taken."""
    await cluster.put_namespace("team")
    for topic in (
        Topic("orders", 6, write_queues=3),
        Topic("closed", 2, permission=Permission.READ),
        Topic("urgent", 3, TopicType.PRIORITY),
        Topic("team/events", 1),
        Topic("lite", 1),
    ):
        await cluster.put_topic(topic)
    await cluster.at["broker-0"].store.topology.put_topic(Topic("uneven", 5))
    await cluster.put_group(ConsumerGroup("workers", max_attempts=4, fifo=True))
    await cluster.put_group(ConsumerGroup("team/late"))
    await cluster.put_group(ConsumerGroup("CID_RMQ_SYS_TRANS"))
    cluster.configs = {
        "lite": {"attributes": {"message.type": "LITE"}},
        "team%late": {
            "consumeFromMinEnable": False,
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 100, "max": 900, "multiplier": 3},
            },
        },
    }
    cluster.users = [
        {"username": "alice", "password": "her secret", "userType": "Normal", "userStatus": "enable"},
        {"username": "boss", "password": "boss's secret", "userType": "Super", "userStatus": "disable"},
        {"username": "short", "password": "abc", "userType": "Normal", "userStatus": "enable"},
        {"username": "mute", "userType": "Normal", "userStatus": "enable"},
    ]
    entries = [
        allowed("Topic:orders", "Pub", "Sub", sourceIps=["192.0.2.0/24"]),
        allowed("Topic:team%*", "All"),
        allowed("Group:work*", "Sub"),
        allowed("Cluster:DefaultCluster", "Get"),
    ]
    denied = {**allowed("Topic:*", "Delete"), "decision": "Deny"}
    narrower = allowed("Topic:a", "All")
    unsaid = {**allowed("Cluster:DefaultCluster", "All"), "decision": "Deny"}
    cluster.acls = [
        {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": entries}]},
        {"subject": "User:boss", "policies": [{"policyType": "Custom", "entries": [entries[0], unsaid]}]},
        {"subject": "User:short", "policies": [{"policyType": "Default", "entries": [denied, narrower]}]},
    ]


def allowed(resource: str, *actions: str, **others: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": [*actions], "decision": "Allow", **others}


async def test_what_a_cluster_has_is_made_here_and_the_rest_is_told(
    server: ServerProcess, cluster: RocketMqServer, entrepot: Command
) -> None:
    await fill(cluster)
    before = {code for code, _ in cluster.calls}
    code, out, err = await entrepot(
        "--json", "--dry-run"
    )  # the first word with the server: it takes no credentials yet
    assert code == 1, out + err
    planned = json.loads(out)
    assert get(server, "/topics/orders") is None, "nothing is made"
    unmade = [row for row in planned["left_out"] if "make a super user" in row["reason"]]
    assert {row["name"] for row in unmade if row["kind"] == "users"} == {"alice", "boss", "short", "mute"}

    define_admin(server)
    planned = json.loads((await entrepot("--json", "--dry-run"))[1])
    code, out, err = await entrepot("--json")
    report = json.loads(out)
    assert code == 1, out + err
    assert report["done"] == {"namespaces": 1, "topics": 5, "groups": 2, "policies": 2, "users": 2}
    assert planned["done"] == {**report["done"], "users": 3}, "that a secret is too short is the server's to say"
    left = {(row["kind"], row["namespace"], row["name"]) for row in report["left_out"]}
    assert left == {
        ("topics", "default", "lite"),
        ("topics", "default", "uneven"),  # brokers differ
        ("policies", "", "alice"),  # without Cluster:DefaultCluster
        ("policies", "", "boss"),  # a denial that cannot be said
        ("policies", "", "short"),  # a denial that denies more
        ("users", "", "short"),
        ("users", "", "mute"),
    }
    assert "secret" not in json.dumps(report["made"])
    read_only = {21, 26, 106, 201, 3005, 3010}
    assert {code for code, _ in cluster.calls} - before <= read_only, "the cluster is only read"

    orders = get(server, "/topics/orders")
    assert (orders["queues"], orders["writeQueues"], orders["permission"]) == (6, 3, "READ_WRITE")
    assert get(server, "/topics/closed")["permission"] == "READ"
    assert get(server, "/topics/urgent")["type"] == "PRIORITY"
    assert get(server, "/namespaces/team/topics/events")["queues"] == 1
    workers, late = get(server, "/groups/workers"), get(server, "/namespaces/team/groups/late")
    assert (workers["maxAttempts"], workers["fifo"], workers["start"]) == (4, True, "earliest")
    assert (late["start"], late["retry"]["kind"], late["retry"]["maxMs"]) == ("latest", "exponential", 900)
    assert get(server, "/groups/CID_RMQ_SYS_TRANS") is None
    alice, boss = get(server, "/users/alice"), get(server, "/users/boss")
    assert (alice["super"], alice["enabled"], alice["hasSigningSecret"]) == (False, True, True)
    assert (boss["super"], boss["enabled"], boss["hasPassword"]) == (True, False, False)
    first, *others = get(server, "/acls/alice")["statements"]
    assert first == {
        "effect": "ALLOW",
        "actions": ["PUB", "SUB"],
        "resources": ["Topic:orders/#"],
        "sources": ["192.0.2.0/24"],
    }
    assert [each["resources"] for each in others] == [["Topic:$ns/team/*"], ["Group:work*"]]


async def test_it_may_be_repeated_and_changes_nothing_that_is_there(
    server: ServerProcess, cluster: RocketMqServer, entrepot: Command
) -> None:
    await cluster.put_topic(Topic("again", 2))
    await cluster.put_group(ConsumerGroup("again"))
    if get(server, "/users/admin") is None:
        define_admin(server)
    first = await entrepot("--json")
    assert first[0] == 0, first
    assert [row["name"] for row in json.loads(first[1])["made"]] == ["again", "again"]
    code, out, _ = await entrepot("--json")
    assert (code, json.loads(out)) == (0, {"done": {"topics": 1, "groups": 1}, "made": [], "left_out": []})
    await cluster.put_topic(Topic("again", 3))
    code, out, _ = await entrepot()
    assert code == 1 and "it is there, with another queues" in out
    assert get(server, "/topics/again")["queues"] == 2


async def test_users_that_cannot_be_read_are_told(cluster: RocketMqServer, entrepot: Command) -> None:
    cluster.users = []
    cluster.faults[3005] += [1, 16]
    code, out, err = await entrepot("--json", "--dry-run")
    reasons = [row["reason"] for row in json.loads(out)["left_out"] if row["kind"] == "users"]
    assert code == 1 and len(reasons) == 2, out + err
    assert all("refuses to list its users" in each for each in reasons)


async def test_a_namespace_of_the_cluster_is_the_default_one_here(
    server: ServerProcess, cluster: RocketMqServer, entrepot: Command
) -> None:
    await cluster.put_namespace("shop")
    await cluster.put_topic(Topic("shop/sales", 1))
    await cluster.put_topic(Topic("outside", 1))
    code, out, err = await entrepot("--namespace", "shop", "--dry-run")
    assert code == 1 and "outside of the namespace 'shop'" in out, out + err
    [line] = [line for line in out.splitlines() if "sales" in line]
    assert line.split()[:3] == ["topics", "default", "sales"]


async def test_a_secret_in_a_file_and_refusals(
    cluster: RocketMqServer, entrepot: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ENTREPOT_ROCKETMQ_SECRET")
    code, _, err = await entrepot("--dry-run")
    assert code == 1 and "authentication failed" in err
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    assert (await entrepot("--dry-run", "--secret-file", str(file)))[0] == 0
    for wrong in (("--address", "broker"), ("--secret-file", str(tmp_path / "none")), ("--address", "a=b")):
        assert (await entrepot(*wrong))[0] == 2
