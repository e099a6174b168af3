"""A cluster with a secret, and those who do not have it: fakes of each part are refused, by all the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.service import Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.all_operations import OPERATIONS
from entrepot.protocols.wire.authentication import ClusterSecret, Role
from entrepot.protocols.wire.operation import Operation
from entrepot.store_client.blocking.store import BlockingStore
from entrepot.store_client.remote import RemoteSettings, open_remote
from tests.controller.failing_over import another, held, taken
from tests.support.brokers.controllers import listening
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append
from tests.support.waiting import until

SECRET = "the secret of this cluster alone"
MEMBER = ClusterTrust(secret=SECRET)
STRANGERS = [
    pytest.param(NO_TRUST, "the cluster has a secret, and you have none", id="without a secret"),
    pytest.param(
        ClusterTrust(secret="the secret of another one"), "does not know the cluster's secret", id="with another"
    ),
]
TWO = Rule(RuleKind.IN_SYNC, 2, min_in_sync=1)


@asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[ReplicatedGroup]:
    async with ReplicatedGroup(directory, TWO, controllers=1, trust=MEMBER) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a")
        await group.in_sync()
        yield group


@asynccontextmanager
async def linked(address: str, trust: ClusterTrust, role: Role = Role.GATEWAY) -> AsyncIterator[Link]:
    link = Link(
        address, LinkSettings("stranger", trust=WireTrust.of_client(trust), role=role, backoff_seconds=(0.05, 0.05))
    )
    link.start()
    try:
        yield link
    finally:
        await link.close()


def ports(group: ReplicatedGroup) -> dict[str, str]:
    """Address of each kind of part."""
    return {
        "name server": group.name_server_address,
        "master": group.addresses[group.master],
        "slave": group.addresses[3 - group.master],
        "controller": group.controllers.addresses[1],
    }


async def test_the_parts_of_a_cluster_know_each_other(tmp_path: Path) -> None:
    """All of it works as without a secret: replication, elections, gateways."""
    async with cluster(tmp_path) as group:
        old = group.master
        await group.crash(old)
        assert await another(group, old) != old
        await taken(group, "b")
        await group.start(old)
        await group.in_sync()
        await held(group, "a", "b")


@pytest.mark.failure(
    "A stranger connects to a broker, a name server or a controller, or pretends to be one",
    group="Strangers and floods",
    does="Without the cluster's secret, or with another one, it can ask nothing, and it is asked nothing.",
    lost="nothing",
    told="the reason, to who connects",
)
@pytest.mark.parametrize(("trust", "words"), STRANGERS)
async def test_no_port_lets_a_stranger_in(tmp_path: Path, trust: ClusterTrust, words: str) -> None:
    async with cluster(tmp_path) as group:
        for part, address in ports(group).items():
            async with linked(address, trust) as link:
                await until(lambda: words in link.problem, lambda: f"{part}: {link.problem}")  # noqa: B023
                assert not link.is_up
                with pytest.raises(EntrepotError):
                    await link.ask(rows.SCAN, "", "", 10, seconds=0.2)


@pytest.mark.failure_also("A stranger connects to a broker, a name server or a controller, or pretends to be one")
@pytest.mark.parametrize(("trust", "words"), STRANGERS)
async def test_nobody_takes_a_stranger_for_a_part(tmp_path: Path, trust: ClusterTrust, words: str) -> None:
    """A process that pretends to be a name server, a broker, a replica or a controller is asked nothing."""
    asked: list[str] = []
    service = Service()
    for operation in OPERATIONS.values():
        service.direct[operation] = lambda channel, request, name=operation.name: asked.append(name)
    fake = RemotingListener(service, found := listening(), "fake", trust=WireTrust.of_server(trust))
    address = f"127.0.0.1:{found.getsockname()[1]}"
    await fake.start()
    try:
        async with cluster(tmp_path) as group:
            for role in Role:
                async with linked(address, MEMBER, role) as link:
                    await until(lambda: "the cluster's secret" in link.problem, lambda: link.problem)
                    assert not link.is_up
            settings = RemoteSettings(name_servers=(address,), trust=MEMBER, start_seconds=0.3)
            with pytest.raises(EntrepotError, match="no broker was found"):
                await open_remote(settings, group.clock)
            with pytest.raises(EntrepotError, match="no broker was found"):
                await open_remote(replace(settings, name_servers=(), brokers=(address,)), group.clock)
        assert asked == []
    finally:
        await fake.close()


FORBIDDEN: dict[str, tuple[Operation, Callable[[ReplicatedGroup], tuple[object, ...]]]] = {
    "name server": (wire.UNREGISTER, lambda group: ("group", 1 << 60)),
    "master": (wire.SEED, lambda group: ()),
    "controller": (wire.CLOCK, lambda group: ("group", 1, 0, 0)),
}


@pytest.mark.failure(
    "The key of a gateway is stolen",
    group="Strangers and floods",
    does="Its holder can ask what gateways ask, and not what only brokers and controllers may.",
    lost="what a gateway can read or delete",
)
async def test_the_key_of_a_gateway_makes_no_broker_and_no_controller(tmp_path: Path) -> None:
    async with cluster(tmp_path) as group:
        trust = ClusterTrust(secret=ClusterSecret(SECRET).role_key(Role.GATEWAY))
        store = await open_remote(RemoteSettings(name_servers=(group.name_server_address,), trust=trust), group.clock)
        try:
            await append(store, "t", "b")
        finally:
            await store.close()
        where = ports(group)
        for part, (operation, arguments) in FORBIDDEN.items():
            async with linked(where[part], trust) as link:
                assert await link.wait_up(5)
                with pytest.raises(EntrepotError, match=f"{operation.name} is not for a gateway") as refusal:
                    await link.ask(operation, *arguments(group), seconds=5)
                assert refusal.value.code is Code.FORBIDDEN
            with pytest.raises(ValueError, match="the key of a gateway, not of a broker"):
                WireTrust.of_client(trust).secret.key(Role.BROKER)  # type: ignore[union-attr]
        with pytest.raises(EntrepotError, match="needs the cluster's secret"):
            WireTrust.of_server(trust)


@pytest.mark.failure(
    "The key of a Spark job is stolen",
    group="Strangers and floods",
    does="Its holder reads and writes messages, definitions of topics and progress; it reads no users or sessions.",
    lost="what a job can read or define",
)
async def test_the_key_of_a_job_opens_messages_and_no_more(tmp_path: Path) -> None:
    async with cluster(tmp_path) as group:
        trust = ClusterTrust(secret=ClusterSecret(SECRET).role_key(Role.JOB))
        await asyncio.to_thread(work_as_job, RemoteSettings((group.name_server_address,), trust=trust, only_reads=True))
        [found] = await group.store.key_values.get(["security/users/root"])
        assert found is None
        async with linked(ports(group)["master"], trust, Role.JOB) as link:
            assert await link.wait_up(5)
            for operation in OPERATIONS.values():
                if Role.JOB not in operation.callers:
                    with pytest.raises(EntrepotError, match=f"{operation.name} is not for a job"):
                        await link.call(operation, b"", 5)


def work_as_job(settings: RemoteSettings) -> None:
    """Ask what a job asks, and what it has no right to."""
    own, others = KeyValueChange("ingest/j", b"1"), KeyValueChange("security/users/root", b"1")
    store = BlockingStore(settings)
    try:
        store.put_topic(Topic("of-a-job", queues=1))
        assert store.append([Message("of-a-job", b"x", queue_id=0)]) == [None]
        [bounds] = store.bounds("of-a-job")
        assert store.records("of-a-job", 0, bounds.min_offset, bounds.max_offset, 1 << 20).next_offset == 1
        store.move_group("g", "of-a-job", {0: 1})
        assert store.tiering(["of-a-job"]) == []
        store.write([own, KeyValueChange("spark/written/w/0", b"1"), KeyValueChange("ingested/app", b"1")])
        assert [found.value for found in store.get([own.key]) if found] == [b"1"]
        assert [found.key for found in store.scan("ingest/")] == [own.key]
        refused: dict[str, Callable[[], object]] = {
            "write of 'security/users/root'": lambda: store.write([own, others]),
            "get of 'security/users/root'": lambda: store.get([own.key, others.key]),
            "scan of ''": lambda: store.scan(""),
            "scan of 'i'": lambda: store.scan("i"),
        }
        for words, asked in refused.items():
            with pytest.raises(EntrepotError, match=f"{words} is not for a job") as refusal:
                asked()
            assert refusal.value.code is Code.FORBIDDEN
    finally:
        store.close()


@pytest.mark.failure_also("Garbage, or nothing, comes over a connection to a broker's port")
async def test_a_half_frame_of_a_stranger_is_not_waited_for(tmp_path: Path) -> None:
    """Before it is known who it is, a frame is small; and so many may greet at a time."""
    async with cluster(tmp_path) as group:
        for address in ports(group).values():
            host, _, port = address.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write((40 << 20).to_bytes(4, "big") + bytes([1]) + bytes(11) + bytes(1000))
            assert b"the limit is 4096" in await reader.read()
            writer.close()
