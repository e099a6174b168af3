"""Every door of a gateway in front of a RocketMQ cluster: at a model of it, and at Apache RocketMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aio_pika
import aiohttp
import aiomqtt
import pytest

from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.gateway.clock import SystemClock
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq import sdk
from tests.support.rocketmq.in_front import running_at
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.steps import settled
from tests.support.waiting import PATIENCE_SECONDS

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}


@pytest.fixture
async def gateway(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    """A gateway in front of the cluster, with facts in a directory of its own."""
    model = None
    if engine == "model":
        model = RocketMqServer(SystemClock())
        await model.start()
        port = model.port
    else:
        port = request.getfixturevalue("rocketmq_cluster").name_server_port
    try:
        async with running_at(port, tmp_path) as started:
            yield started
    finally:
        if model is not None:
            await model.close()


def topic_of(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own, at a cluster that others use, too."""
    return f"doors-{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return topic_of(request)


def mqtt(gateway: GatewayProcess, name: str, **others: Any) -> aiomqtt.Client:
    host, port = gateway.address("mqtt").rsplit(":", 1)
    return aiomqtt.Client(host, int(port), identifier=name, **others)


async def received(client: aiomqtt.Client) -> tuple[str, Any]:
    """The next message."""
    found = await asyncio.wait_for(anext(aiter(client.messages)), PATIENCE_SECONDS)
    return str(found.topic), found.payload


async def test_mqtt(gateway: GatewayProcess, topic: str):
    """Fan-out, wildcards, QoS 2, retained messages, a lasting session and a shared subscription."""
    lasting = {"clean_session": False}
    async with mqtt(gateway, "stays", **lasting) as stays, mqtt(gateway, "shares") as shares:
        await stays.subscribe(f"{topic}/+/temp", qos=2)
        await shares.subscribe(f"$share/workers/{topic}/#", qos=1)
        await stays.publish(f"{topic}/line1/temp", b"21", qos=2)
        assert await received(stays) == (f"{topic}/line1/temp", b"21")
        assert await received(shares) == (f"{topic}/line1/temp", b"21")
    async with mqtt(gateway, "sends") as sends:
        await sends.publish(f"{topic}/line2/temp", b"kept", qos=1, retain=True)
    async with mqtt(gateway, "stays", **lasting) as stays:
        assert await received(stays) == (f"{topic}/line2/temp", b"kept"), "it came while the client was away"
    async with mqtt(gateway, "later") as later:
        await later.subscribe(f"{topic}/#", qos=1)
        assert await received(later) == (f"{topic}/line2/temp", b"kept"), "the retained one"


async def test_amqp(gateway: GatewayProcess, topic: str):
    """A fanout to two queues with confirms, redelivery, and dead letters."""
    connection = await aio_pika.connect(f"amqp://guest:guest@{gateway.address('amqp')}/")
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.declare_exchange(f"{topic}-all", aio_pika.ExchangeType.FANOUT, durable=True)
        dead = await channel.declare_queue(f"{topic}-dead", durable=True)
        arguments: Any = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
        queues = [await channel.declare_queue(f"{topic}-{i}", durable=True, arguments=arguments) for i in range(2)]
        for queue in queues:
            await queue.bind(exchange)
        await exchange.publish(aio_pika.Message(b"a", headers={"n": 1}), "", timeout=PATIENCE_SECONDS)
        one, other = [await next_of(queue) for queue in queues]
        assert [(each.body, each.headers["n"]) for each in (one, other)] == [(b"a", 1), (b"a", 1)]
        await one.ack()
        await other.reject(requeue=False)
        buried = await next_of(dead)
        deaths: Any = buried.headers["x-death"]
        assert (buried.body, deaths[0]["queue"]) == (b"a", queues[1].name)
        await buried.ack()
        await exchange.publish(aio_pika.Message(b"b"), "", timeout=PATIENCE_SECONDS)
        await queues[0].consume(lambda message: asyncio.sleep(0))
        url = f"http://{gateway.address('http')}/api/queues/%2F/{queues[0].name}"
        login = {"authorization": aiohttp.encode_basic_auth("guest", "guest")}
        async with aiohttp.ClientSession(trust_env=False, headers=login) as client, client.get(url) as answer:
            found = await answer.json()
        assert found["consumer_capacity"] == found["consumer_utilisation"] <= 1
        assert [name for name in found if name.startswith("message_bytes")] == [], "brokers of RocketMQ tell no sizes"


async def next_of(queue: aio_pika.abc.AbstractQueue) -> aio_pika.abc.AbstractIncomingMessage:
    """The next message that a consumer of a queue gets."""
    async with queue.iterator(timeout=PATIENCE_SECONDS) as messages:
        async for each in messages:
            return each
    raise AssertionError(f"nothing came to {queue.name}")


async def test_http(gateway: GatewayProcess, topic: str):
    """Publish, receive, acknowledge, a stream by offset, and the look-up of the message."""
    url = f"http://{gateway.address('http')}"
    async with aiohttp.ClientSession(trust_env=False) as client:
        async with client.put(f"{url}/api/v1/topics/{topic}", json={"queues": 1}) as answer:
            assert answer.status == 201, await answer.text()
        async with client.post(f"{url}/topics/{topic}:publish", data=b"body", headers=EVENT) as answer:
            assert answer.status == 200, await answer.text()
        workers = f"{url}/topics/{topic}/eventsubscriptions/workers"
        found: list[Any] = []
        while not found:
            async with client.post(f"{workers}:receive?maxWaitTime=10") as answer:
                found = (await answer.json())["value"]
        token = found[0]["brokerProperties"]["lockToken"]
        async with client.post(f"{workers}:acknowledge", json={"lockTokens": [token]}) as answer:
            assert (await answer.json())["succeededLockTokens"] == [token]
        async with client.get(f"{url}/api/v1/topics/{topic}/messages") as answer:
            [shown] = (await answer.json())["value"]
        assert shown["size"] == len(b"body")


async def test_rocketmq(gateway: GatewayProcess, topic: str):
    """An SDK's messages and receipts through our gRPC door."""
    url = f"http://{gateway.address('http')}"
    async with (
        aiohttp.ClientSession(trust_env=False) as client,
        client.put(f"{url}/api/v1/topics/{topic}", json={"queues": 1}) as answer,
    ):
        assert answer.status == 201, await answer.text()
    store = await sdk.open_rocketmq([gateway.address("grpc")], SystemClock(), topics=[topic], request_timeout_ms=10_000)
    sent = Message(topic, b"sdk", message_id=b"1" * 16, tag="red", keys=("k",), properties=(("a", "1"),))
    assert await settled(store.messages.append([sent])) is None
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not found:
            found = [*await store.consumption.pop(PopRequest(topic, "g", 1, 5_000))]
    got = found[0].message
    assert (got.body, got.tag, got.keys, got.properties) == (b"sdk", "red", ("k",), (("a", "1"),))
    assert await store.consumption.acknowledge(topic, "g", [found[0].receipt_handle]) == [None]
    await store.close()
