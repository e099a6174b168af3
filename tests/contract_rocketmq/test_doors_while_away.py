"""Answers of each door of a gateway while the cluster is away, full or busy, as the model of it plays that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.rocketmq.remoting import codes
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.door_words import AWAY, BUSY, FULL, TAKEN, UNKNOWN, Words, words
from tests.support.rocketmq.in_front import gateway_at
from tests.support.rocketmq.server import RocketMqServer
from tests.support.rocketmq.store_load import GOES_ON_SECONDS
from tests.support.waiting import PATIENCE_SECONDS

TOPIC = "words"
DOORS = 4


async def until_taken(gateway: GatewayProcess) -> None:
    """Wait until every door takes messages again; each has its own pace."""
    async with asyncio.timeout(GOES_ON_SECONDS):
        while await words(gateway, TOPIC) != TAKEN:
            pass


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[tuple[RocketMqServer, GatewayProcess]]:
    server = RocketMqServer(SystemClock())
    await server.start()
    await server.put_topic(Topic(TOPIC, queues=1))
    gateway = gateway_at(server.port, tmp_path)
    try:
        await asyncio.to_thread(gateway.start)
        yield server, gateway
    finally:
        gateway.kill()
        await server.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (codes.NOT_AVAILABLE, FULL),
        (codes.SYSTEM_BUSY, BUSY),
        (codes.FLOW_CONTROL, BUSY),
        ("early", UNKNOWN),
        ((codes.FLUSH_DISK_TIMEOUT,), UNKNOWN),
    ],
    ids=["full", "busy", "flow control", "connection lost", "less safe"],
)
async def test_refusals_in_the_words_of_each_door(
    model: tuple[RocketMqServer, GatewayProcess], answer: Any, expected: Words
):
    server, gateway = model
    for code in (codes.SEND, codes.SEND_BATCH):
        server.faults[code] = [answer] * DOORS
    assert await words(gateway, TOPIC) == expected
    server.faults.clear()
    assert await words(gateway, TOPIC) == TAKEN


async def test_a_cluster_that_is_gone_in_the_words_of_each_door(model: tuple[RocketMqServer, GatewayProcess]):
    server, gateway = model
    assert await words(gateway, TOPIC) == TAKEN
    await server.stop()
    await words(gateway, TOPIC, "http")  # the connections are found to be broken
    assert await words(gateway, TOPIC) == AWAY
    await server.start()
    await until_taken(gateway)


async def test_a_session_that_was_away_misses_nothing_of_a_queue_that_lost_its_end(
    model: tuple[RocketMqServer, GatewayProcess],
):
    """Its place is beyond the end: nobody tells whether the queue is another one, so it is read from its beginning."""
    server, gateway = model
    host, port = gateway.address("mqtt").rsplit(":", 1)
    stays: dict[str, Any] = {"hostname": host, "port": int(port), "identifier": "stays", "clean_session": False}
    async with aiomqtt.Client(**stays) as client:
        await client.subscribe(f"{TOPIC}/#", qos=1)
        for number in range(8):
            await client.publish(f"{TOPIC}/a", str(number), qos=1)
            assert await payload(client) == str(number)
    await server.lose("broker-0", TOPIC, 5)
    async with aiomqtt.Client(**stays) as client:
        assert [await payload(client) for _ in range(5)] == ["0", "1", "2", "3", "4"]
        await until_taken(gateway)
        await client.publish(f"{TOPIC}/a", "new", qos=1)
        while await payload(client) != "new":
            pass


async def payload(client: aiomqtt.Client) -> str:
    """The next message."""
    found = await asyncio.wait_for(anext(aiter(client.messages)), PATIENCE_SECONDS)
    return str(found.payload, "utf-8")
