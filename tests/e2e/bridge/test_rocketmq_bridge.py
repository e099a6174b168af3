"""Bridges to a RocketMQ cluster, at a model of it: what comes in and goes out, once, and as it was."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.bridge.rocketmq import inbound
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.gateways.rocketmq_bridges import (
    appended,
    carried,
    queue_of,
    rocketmq_bridge_settings,
    rocketmq_remote,
)
from tests.support.gateways.thread import GatewayThread
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.server import RocketMqServer
from tests.support.waiting import until

IN = {"direction": "in", "topics": ["orders*"], "start": "earliest"}
BOTH = {"direction": "both", "topics": ["orders"], "start": "earliest"}


@pytest.fixture
async def model() -> AsyncIterator[RocketMqServer]:
    server = RocketMqServer(SystemClock(), 1)
    await server.start()
    await server.put_topic(Topic("orders", 2))
    yield server
    await server.close()


@pytest.fixture
async def cluster(model: RocketMqServer) -> AsyncIterator[Store]:
    """A client of the cluster, as its own producers and consumers are."""
    opened = await open_rocketmq([f"127.0.0.1:{model.port}"], SystemClock(), route_refresh_ms=100)
    yield opened
    await opened.close()


MakeServer = Callable[..., AbstractAsyncContextManager[GatewayThread]]


@pytest.fixture
def bridged(model: RocketMqServer) -> MakeServer:
    """Makes a server with a bridge of these rules."""

    @contextlib.asynccontextmanager
    async def make(*rules: dict[str, Any]) -> AsyncIterator[GatewayThread]:
        settings = rocketmq_bridge_settings(rocketmq_remote(model.port, *rules))
        server = GatewayThread(settings, clock=SystemClock())
        await asyncio.to_thread(server.__enter__)
        try:
            yield server
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)

    return make


def numbered(topic: str, numbers: range, queue_id: int = 0) -> list[Message]:
    return [Message(topic, str(n).encode(), queue_id=queue_id) for n in numbers]


def bodies(server: Any, topic: str, queue_id: int) -> list[str]:
    return [str(each["text"]) for each in queue_of(server, topic, queue_id)]


def published(server: Any, number: int) -> None:
    event = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", "data": number}
    http_json(server, "POST", "/topics/orders:publish", event, {"content-type": "application/cloudevents+json"})


def permit(server: Any, topic: str, permission: str) -> None:
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"permission": permission})


async def test_messages_come_in_as_they_were_and_in_their_order(cluster: Store, bridged: MakeServer) -> None:
    whole = Message(
        "orders",
        b"whole",
        queue_id=1,
        tag="red",
        keys=("k1", "k2"),
        message_id=bytes(range(16)),
        born_time_ms=1_700_000_000_123,
        properties=(("a", "1"), ("b", "x y")),
    )
    await appended(cluster, [*numbered("orders", range(300)), whole])
    async with bridged({**IN, "local_prefix": "old-"}) as server:
        await carried(server, lambda told: told["received"] == 301)
        assert await asyncio.to_thread(bodies, server, "old-orders", 0) == [str(n) for n in range(300)]
        [found] = await asyncio.to_thread(queue_of, server, "old-orders", 1)
        assert (found["tag"], found["keys"], found["id"]) == ("red", ["k1", "k2"], bytes(range(16)).hex().upper())
        assert (found["subTopic"], found["bornTime"]) == ("old-orders", "2023-11-14T22:13:20.123Z")
        assert found["properties"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "x y"}]

        await appended(cluster, numbered("orders", range(300, 310)))  # a wait at the end of the queue ends
        told = await carried(server, lambda told: told["received"] == 311)
        assert told["topics"] == [
            {"topic": "orders", "localTopic": "old-orders", "queues": 2, "position": 311, "waiting": 0}
        ]


async def test_both_ways_and_nothing_comes_back(cluster: Store, bridged: MakeServer) -> None:
    await appended(cluster, [Message("orders", b"theirs", queue_id=0)])
    async with bridged(BOTH) as server:
        await carried(server, lambda told: told["received"] == 1)
        for n in range(3):
            await asyncio.to_thread(published, server, n)
        told = await carried(server, lambda told: told["sent"] == 3 and told["ignored"] == 4)
        assert (told["received"], told["sent"]) == (1, 3), "what goes out does not come in, and the other way round"
        there = [
            message for bounds in await cluster.messages.bounds("orders")
            for message in await cluster.messages.read("orders", bounds.queue_id, bounds.min_offset, 10)
        ]  # fmt: skip
        assert sorted(message.body for message in there) == [b"0", b"1", b"2", b"theirs"]
        here = [each for queue_id in (0, 1) for each in await asyncio.to_thread(queue_of, server, "orders", queue_id)]
        assert len(here) == 4


async def test_a_topic_that_begins_at_its_end(cluster: Store, bridged: MakeServer) -> None:
    await appended(cluster, [*numbered("orders", range(10)), *numbered("orders", range(5), queue_id=1)])
    [last] = await cluster.messages.read("orders", 1, 4, 1)
    await until(lambda: SystemClock().now_ms() > last.store_time_ms, "the bridge begins by a time, in milliseconds")
    async with bridged({**IN, "start": "latest"}) as server:
        await carried(server, lambda told: [each["position"] for each in told["topics"]] == [15])
        await appended(cluster, numbered("orders", range(10, 12)))
        told = await carried(server, lambda told: told["received"] == 2)
        assert told["gone"] == 0


async def test_a_queue_that_begins_anew_is_carried_from_there(
    model: RocketMqServer, cluster: Store, bridged: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "WAIT_SECONDS", 0.1)
    await appended(cluster, numbered("orders", range(10)))
    async with bridged(IN) as server:
        await carried(server, lambda told: told["received"] == 10)
        store = model.at["broker-0"].store
        await store.topology.delete_topic("orders")
        await store.topology.put_topic(Topic("orders", 2))
        await appended(cluster, numbered("orders", range(10, 13)))
        told = await carried(server, lambda told: told["received"] == 13)
        assert told["gone"] == 0
        assert await asyncio.to_thread(bodies, server, "orders", 0) == [str(n) for n in range(13)]


async def test_a_topic_that_is_closed_here_waits_until_it_is_opened(cluster: Store, bridged: MakeServer) -> None:
    await appended(cluster, numbered("orders", range(3)))
    rule = {**IN, "topics": ["orders", "open"]}
    await cluster.topology.put_topic(Topic("open", 1))
    await appended(cluster, numbered("open", range(1)))
    async with bridged({**rule, "local_prefix": "x-"}) as server:
        await carried(server, lambda told: told["received"] == 4)
        await asyncio.to_thread(permit, server, "x-orders", "READ")
        await appended(cluster, [*numbered("orders", range(3, 6)), *numbered("open", range(1, 2))])
        told = await carried(server, lambda told: told["received"] == 5 and told["lastError"] is not None)
        assert (told["refusedIn"], told["state"]) == (0, "connected"), "the other topic goes on"
        await asyncio.to_thread(permit, server, "x-orders", "READ_WRITE")
        told = await carried(server, lambda told: told["received"] == 8)
        assert await asyncio.to_thread(bodies, server, "x-orders", 0) == [str(n) for n in range(6)]


async def test_an_unknown_outcome_is_told_and_sent_again(
    model: RocketMqServer, cluster: Store, bridged: MakeServer
) -> None:
    model.faults[310].append("break")  # the message is stored, and the answer is lost
    async with bridged({**BOTH, "direction": "out"}) as server:
        await carried(server, lambda told: told["state"] == "connected")
        await asyncio.to_thread(published, server, 1)
        told = await carried(server, lambda told: told["sent"] == 1)
        assert told["unknown"] == 1 and "sent again" in told["lastError"]
        ends = [bounds.max_offset for bounds in await cluster.messages.bounds("orders")]
        assert sum(ends) == 2


async def test_a_cluster_that_is_away_is_told_and_carried_again(
    model: RocketMqServer, cluster: Store, bridged: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "WAIT_SECONDS", 0.1)
    await appended(cluster, numbered("orders", range(4)))
    async with bridged(IN) as server:
        await carried(server, lambda told: told["received"] == 4)
        await model.stop()
        told = await carried(server, lambda told: told["lastError"] is not None)
        assert told["state"] in ("connected", "back-off")
        await model.start()

        async def again() -> None:
            while True:
                with contextlib.suppress(Exception):
                    await appended(cluster, numbered("orders", range(4, 8)))
                    return
                await asyncio.sleep(0.05)

        await again()
        await carried(server, lambda told: told["received"] >= 8)


async def test_the_position_outlives_the_process(model: RocketMqServer, cluster: Store, tmp_path: Path) -> None:
    settings = rocketmq_bridge_settings(rocketmq_remote(model.port, IN))
    server = ServerProcess(tmp_path, settings)
    try:
        await asyncio.to_thread(server.start)
        await appended(cluster, numbered("orders", range(200)))
        await carried(server, lambda told: told["received"] == 200)
        assert await asyncio.to_thread(server.stop) == 0
        await appended(cluster, numbered("orders", range(200, 300)))
        await asyncio.to_thread(server.restart)
        told = await carried(server, lambda told: told["received"] >= 100)
        assert told["received"] == 100, "a stop keeps the position: nothing comes twice"
        assert await asyncio.to_thread(bodies, server, "orders", 0) == [str(n) for n in range(300)]
    finally:
        server.kill()
