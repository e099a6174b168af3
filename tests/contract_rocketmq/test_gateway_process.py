"""`entrepot gateway` in front of a RocketMQ cluster: publish and receive over HTTP, with a real process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.server import RocketMqServer

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}


@pytest.fixture
def engine() -> str:
    return "model"


@pytest.fixture
def clock() -> ManualClock:
    """In step with that of the process: messages and leases carry times."""
    import time

    clock = ManualClock()
    clock.now_ms = lambda: time.time_ns() // 1_000_000  # type: ignore[method-assign]
    return clock


async def test_events_go_through_a_gateway_in_front_of_a_cluster(cluster: RocketMqServer, tmp_path: Path) -> None:
    await cluster.put_topic(Topic("orders"))
    settings = {
        "rocketmq.name_servers": f'["127.0.0.1:{cluster.port}"]',
        "facts.url": f"file:{tmp_path / 'facts'}",
    }
    gateway = GatewayProcess(tmp_path, [], settings, "gateway")
    try:
        await asyncio.to_thread(gateway.start)
        url = f"http://{gateway.address('http')}"
        async with aiohttp.ClientSession(trust_env=False) as client:
            async with client.post(f"{url}/topics/orders:publish", data=b"body", headers=EVENT) as answer:
                assert answer.status == 200, await answer.text()
            receive = f"{url}/topics/orders/eventsubscriptions/workers:receive?maxWaitTime=10"
            async with client.post(receive) as answer:
                [found] = (await answer.json())["value"]
            assert (found["event"]["id"], found["event"]["data"]) == ("1", "body")
            token = found["brokerProperties"]["lockToken"]
            acknowledge = f"{url}/topics/orders/eventsubscriptions/workers:acknowledge"
            async with client.post(acknowledge, json={"lockTokens": [token]}) as answer:
                assert (await answer.json())["succeededLockTokens"] == [token]
            async with client.put(f"{url}/api/v1/topics/other", json={"queues": 2}) as answer:
                assert answer.status == 201, await answer.text()
            made = cluster.brokers["broker-0"].topology.topic("other")
            assert made is not None and made.queues == 2
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        gateway.kill()
