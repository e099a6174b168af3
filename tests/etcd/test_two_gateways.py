"""Two gateways in front of one RocketMQ cluster share facts in etcd, and neither takes the other for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import aiomqtt
import pytest

from entrepot.gateway.clock import SystemClock
from entrepot.store_client.etcd import EtcdSettings, open_etcd
from tests.support.clock import ManualClock
from tests.support.etcd.cluster import EtcdCluster
from tests.support.processes.deployment import BrokerProcess, GatewayProcess, NameServerProcess
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


async def test_sessions_are_with_brokers_and_the_rest_in_etcd(tmp_path: Path):
    """A gateway that dies leaves its session to the other one; etcd has no key of it."""
    rocketmq = RocketMqServer(SystemClock())
    await rocketmq.start()
    name_server = NameServerProcess(tmp_path, None, "nameserver")
    broker = BrokerProcess(tmp_path, [name_server], {}, "broker-0")
    gateways: list[GatewayProcess] = []
    with EtcdCluster(tmp_path, 1) as etcd:
        try:
            await asyncio.to_thread(name_server.start)
            await asyncio.to_thread(broker.start)
            settings = {
                "rocketmq.name_servers": f'["127.0.0.1:{rocketmq.port}"]',
                "facts.url": f"etcd://{','.join(etcd.addresses)}/",
                "facts.sessions": f"cluster://{name_server.address('nameserver')}/",
            }
            for name in ("one", "two"):
                gateways.append(GatewayProcess(tmp_path, [], {**settings, "server.name": name}, name))
                await asyncio.to_thread(gateways[-1].start)
            await _session_moves(*gateways)
            facts = await open_etcd(EtcdSettings(etcd.addresses, "entrepot/default/"))
            kept = {each.key.partition("/")[0] for each in await facts.scan("")}
            await facts.close()
            assert not {each for each in kept if each.startswith("session") or each in ("gateway", "peer")}, kept
            assert await asyncio.to_thread(gateways[1].stop) == 0
        finally:
            for process in (*gateways, broker, name_server):
                process.kill()
            await rocketmq.close()


async def _session_moves(one: GatewayProcess, two: GatewayProcess) -> None:
    def client(gateway: GatewayProcess, name: str, **others: Any) -> aiomqtt.Client:
        host, port = gateway.address("mqtt").rsplit(":", 1)
        return aiomqtt.Client(host, int(port), identifier=name, **others)

    async with client(one, "lasting", clean_session=False) as lasting:
        await lasting.subscribe("line/#", qos=1)
        await lasting.publish("line/a", b"1", qos=1)
        first = await asyncio.wait_for(anext(aiter(lasting.messages)), PATIENCE_SECONDS)
        assert first.payload == b"1"
    await asyncio.to_thread(one.kill)
    async with client(two, "other") as other:
        await other.publish("line/a", b"2", qos=1)
    async with client(two, "lasting", clean_session=False) as lasting:
        second = await asyncio.wait_for(anext(aiter(lasting.messages)), PATIENCE_SECONDS)
        assert second.payload == b"2"


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
