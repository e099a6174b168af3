"""Two gateways lose the leader of their etcd under load: what was confirmed holds, at the other gateway, too."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pika  # type: ignore[import-untyped]
import pytest

from entrepot.gateway.clock import SystemClock
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.etcd.cluster import EtcdCluster, EtcdMember
from tests.support.etcd.door_load import ADA, ADMIN, BOB, DoorLoad, admitted, connects, put_user
from tests.support.http.client import http_client
from tests.support.processes.deployment import GatewayProcess, start_all
from tests.support.rocketmq.cluster import on_rocketmq
from tests.support.rocketmq.server import RocketMqServer
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

ROUNDS: Final = 2
SETTINGS: Final = {
    "security.initial_admin": ADMIN[0],
    "security.initial_admin_password": ADMIN[1],
    "security.anonymous": "always",
    **CHEAP_FLAGS,
}
TYPES: Final = ("Topic", "Group", "Namespace", "Cluster")
EVERYTHING: Final = {"effect": "ALLOW", "actions": ["ALL"], "resources": [f"{each}:*" for each in TYPES]}


@pytest.fixture
async def name_server(request: pytest.FixtureRequest) -> AsyncIterator[int]:
    """The port of a name server: of a model of RocketMQ, or of RocketMQ itself."""
    if request.param == "rocketmq":
        yield request.getfixturevalue("rocketmq_cluster").name_server_port
        return
    model = RocketMqServer(SystemClock())
    await model.start()
    yield model.port
    await model.close()


@pytest.mark.failure_also("A member of etcd, which keeps the facts beside a RocketMQ cluster, is killed or hangs")
@pytest.mark.parametrize(
    ("name_server", "how"),
    [
        pytest.param("model", signal.SIGKILL, id="model-killed"),
        pytest.param("model", signal.SIGSTOP, id="model-hangs"),
        pytest.param("rocketmq", signal.SIGKILL, id="rocketmq-killed", marks=on_rocketmq),
    ],
    indirect=["name_server"],
)
async def test_what_doors_confirmed_holds(tmp_path: Path, name_server: int, how: signal.Signals):
    with EtcdCluster(tmp_path, 3) as etcd:
        gateways = gateways_at(tmp_path, name_server, etcd)
        try:
            await asyncio.to_thread(start_all, gateways)
            await asyncio.to_thread(holds, etcd, gateways, how)
            for gateway in gateways:
                assert await asyncio.to_thread(gateway.stop) == 0
        finally:
            for gateway in gateways:
                gateway.kill()


def gateways_at(directory: Path, name_server: int, etcd: EtcdCluster) -> list[GatewayProcess]:
    """Two, of which one asks the leader first, and the other one last."""
    leader = etcd.leader().address
    others = [each for each in etcd.addresses if each != leader]
    shared = {
        **SETTINGS,
        "rocketmq.name_servers": f'["127.0.0.1:{name_server}"]',
        "rocketmq.namespace": f"n{uuid.uuid4().hex[:10]}",
    }
    orders = {"one": [leader, *others], "two": [*others, leader]}
    return [
        GatewayProcess(directory, [], {**shared, "server.name": name, "facts.url": f"etcd://{','.join(asked)}/"}, name)
        for name, asked in orders.items()
    ]


def holds(etcd: EtcdCluster, gateways: list[GatewayProcess], how: signal.Signals) -> None:
    """Lose the leader again and again under load, then compare."""
    one, two = gateways
    with http_client(f"http://{one.address('http')}", auth=ADMIN) as root:
        assert root.put("/api/v1/acls/anonymous", json={"statements": [EVERYTHING]}).is_success
    put_user(one, *ADA)
    wait_until(lambda: admitted(two, *ADA), "the other gateway knows the user")
    load = DoorLoad(gateways)
    try:
        load.begin()
        for _ in range(ROUNDS):
            load.goes_on()
            with lost(etcd, how):
                load.cut()
                assert all(admitted(each, *ADA) for each in gateways), "users are known without a leader"
                put_user(one, *BOB)
                declare_late(one)
                load.goes_on()
                load.cut_until_repeated()
            load.goes_on()
        load.end()
        told = load.told()
        print({"said again": load.repeated, **told})
        assert not load.failures, load.failures
        assert all(figures["lost"] == figures["phantom"] == figures["twice"] == 0 for figures in told.values()), told
        same_at_both(gateways, load)
    finally:
        load.stop()


@contextmanager
def lost(etcd: EtcdCluster, how: signal.Signals) -> Iterator[EtcdMember]:
    """The leader is lost for the length of a block."""
    leader = etcd.leader()
    leader.signal(how)
    try:
        yield leader
    finally:
        if how is signal.SIGSTOP:
            leader.signal(signal.SIGCONT)
        else:
            leader.wait()
            leader.start()
            etcd.wait_ready(leader)


def declare_late(gateway: GatewayProcess) -> None:
    """Make an exchange and its binding, as often as it takes: a connection may end at a refusal."""

    def done() -> bool:
        try:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateway.port("amqp"))) as connection:
                channel = connection.channel()
                channel.exchange_declare("late", "direct", durable=True)
                channel.queue_declare("late-all", durable=True)
                channel.queue_bind("late-all", "late", "k")
                return True
        except (pika.exceptions.AMQPError, OSError):
            return False

    wait_until(done, "an exchange is made without the leader")


def same_at_both(gateways: list[GatewayProcess], load: DoorLoad) -> None:
    """Objects made before the losses, and during them, are at both gateways."""
    for gateway in gateways:
        for user, password in (ADA, BOB):
            wait_until(lambda: admitted(gateway, user, password), f"{user} logs in")  # noqa: B023 - asked at once
            assert connects(gateway, user, password)
            assert not admitted(gateway, user, "wrong")
            assert not connects(gateway, user, "wrong")
        load.check_retained(gateway)
    bodies: list[Any] = []
    for number, gateway in enumerate(gateways):
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateway.port("amqp"))) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("late", "k", b"%d" % number, pika.BasicProperties(delivery_mode=2), mandatory=True)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateways[1].port("amqp"))) as connection:
        for method, _, body in connection.channel().consume("late-all", inactivity_timeout=PATIENCE_SECONDS):
            assert method is not None, f"{bodies} alone have come"
            bodies.append(body)
            if len(bodies) == len(gateways):
                break
    assert sorted(bodies) == [b"0", b"1"]
