"""A gateway in front of Apache RocketMQ as one more server, on which tests of the doors run.

Each has a namespace of its own at the shared cluster.  `tests/e2e/rocketmq_exceptions.py` says what is different there.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.store_client.embedded import open_embedded
from entrepot.store_client.rocketmq import RocketMqSettings
from tests.support.processes.deployment import DEPLOYMENTS, Deploy, GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq

ROCKETMQ: Final = "rocketmq"
AT_ROCKETMQ: Final = pytest.param(ROCKETMQ, marks=on_rocketmq)
"""The parameter of a fixture that makes such a server."""


def gateway_at(name_server_port: int, directory: Path, settings: dict[str, str] | None = None) -> GatewayProcess:
    """A gateway that keeps facts in its directory, not started."""
    own = {"rocketmq.name_servers": f'["127.0.0.1:{name_server_port}"]', "facts.url": f"file:{directory / 'facts'}"}
    return GatewayProcess(directory, [], {**(settings or {}), **own}, "gateway")


@asynccontextmanager
async def running_at(name_server_port: int, directory: Path) -> AsyncIterator[GatewayProcess]:
    """A running gateway for the length of a block, which ends well."""
    started = gateway_at(name_server_port, directory)
    try:
        await asyncio.to_thread(started.start)
        yield started
        assert await asyncio.to_thread(started.stop) == 0
    finally:
        started.kill()


def deploy_at(cluster: RocketMqCluster) -> Callable[..., Any]:
    """Makes gateways of a directory and settings, each in a namespace of its own."""

    def deploy(directory: Path, settings: dict[str, str] | None = None) -> GatewayProcess:
        own = {"rocketmq.namespace": f"n{uuid.uuid4().hex[:10]}"}
        return gateway_at(cluster.name_server_port, directory, {**(settings or {}), **own})

    return deploy


def deployment_of(request: pytest.FixtureRequest) -> Deploy:
    """Makes servers of the kind that a fixture's parameter names."""
    if request.param == ROCKETMQ:
        return deploy_at(request.getfixturevalue("rocketmq_cluster"))
    return DEPLOYMENTS[request.param]


async def store_at(cluster: RocketMqCluster, directory: Path, clock: Clock) -> Store:
    """A store of this process, which keeps facts in a directory.  Tests count queues: topics are at one broker."""
    from entrepot.broker.settings.store import BrokerSettings
    from entrepot.gateway.facts import StoreFacts
    from tests.contract_rocketmq.operated import SettledStore

    async def readable() -> None:
        await asyncio.to_thread(cluster.wait_readable)

    settings = RocketMqSettings(
        (f"127.0.0.1:{cluster.name_server_port}",), namespace=f"n{uuid.uuid4().hex[:10]}", request_timeout_ms=10_000
    )
    facts = StoreFacts(await open_embedded(BrokerSettings(directory), clock))
    opened = SettledStore(settings, clock, readable=readable, broker=cluster.brokers[0].name, facts=facts)
    try:
        await opened.start()
    except BaseException:
        await opened.close()
        raise
    return opened


def at_rocketmq(item: pytest.Item) -> bool:
    """True for a test with that parameter."""
    called = getattr(item, "callspec", None)
    return called is not None and ROCKETMQ in called.params.values()
