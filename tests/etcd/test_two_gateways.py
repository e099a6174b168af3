"""Two gateways in front of one RocketMQ cluster share facts in etcd, and neither takes the other for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from tests.support.clock import ManualClock
from tests.support.etcd.cluster import EtcdCluster
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.server import RocketMqServer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.interop

EXCHANGE: Final = "/api/exchanges/%2F/shared"
STEP_SECONDS: Final = 0.05


async def eventually(ask: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Ask until the answer is the wanted one."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await ask() != wanted:
            await asyncio.sleep(STEP_SECONDS)


async def test_two_gateways_share_facts(tmp_path: Path):
    rocketmq = RocketMqServer(ManualClock())
    await rocketmq.start()
    with EtcdCluster(tmp_path, 1) as etcd:
        settings = {
            "rocketmq.name_servers": f'["127.0.0.1:{rocketmq.port}"]',
            "facts.url": f"etcd://{','.join(etcd.addresses)}/",
        }
        named = [{**settings, "server.name": name} for name in ("one", "two")]
        gateways = [GatewayProcess(tmp_path, [], each, each["server.name"]) for each in named]
        try:
            for gateway in gateways:
                await asyncio.to_thread(gateway.start)
            await shared(*(f"http://{gateway.address('http')}" for gateway in gateways))
            for gateway in gateways:
                assert await asyncio.to_thread(gateway.stop) == 0
        finally:
            for gateway in gateways:
                gateway.kill()
            await rocketmq.close()


async def shared(one: str, two: str) -> None:
    async with aiohttp.ClientSession(trust_env=False) as client:

        async def status(url: str) -> int:
            async with client.get(url + EXCHANGE) as answer:
                return answer.status

        async def names(url: str) -> set[str]:
            async with client.get(url + "/api/v1/gateways") as answer:
                return {each["name"] for each in (await answer.json())["value"]}

        for url in (one, two):
            await eventually(lambda url=url: names(url), {"one", "two"})
        async with client.put(one + EXCHANGE, json={"type": "fanout", "durable": True}) as answer:
            assert answer.status == 201, await answer.text()
        await eventually(lambda: status(two), 200)
        async with client.delete(two + EXCHANGE) as answer:
            assert answer.status == 204, await answer.text()
        await eventually(lambda: status(one), 404)
