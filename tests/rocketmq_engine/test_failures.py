"""Servers of Apache RocketMQ that die, stop and come back under a gateway's store: nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from entrepot.domain.errors import AWAY, PASSING, Code
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.java_process import START_SECONDS
from tests.support.rocketmq.store_load import Publisher, Tails, bodies_of, everything
from tests.support.seed import seeded
from tests.support.stores.steps import refusal_of
from tests.support.waiting import until

pytestmark = on_rocketmq

KILLS = 5
QUEUES = (0, 1)
TOPIC = "kept"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with RocketMqCluster(tmp_path_factory.mktemp("failing"), 1) as started:
        yield started


@pytest.fixture
async def store(cluster: RocketMqCluster) -> AsyncIterator[Store]:
    address = f"127.0.0.1:{cluster.name_server_port}"
    await until(cluster.knows_all, "the broker is back after the test before", START_SECONDS)
    opened = await open_rocketmq([address], SystemClock(), request_timeout_ms=3_000)
    await opened.topology.put_topic(Topic(TOPIC, queues=len(QUEUES)))
    yield opened
    await opened.close()


async def test_a_broker_that_is_killed_again_and_again_loses_nothing_confirmed(cluster: RocketMqCluster, store: Store):
    """Its process dies, not its machine: what it has written is in the page cache."""
    publisher, tails = Publisher(store, TOPIC, "k"), Tails(store, TOPIC, QUEUES)
    chance, broker = seeded("kills"), cluster.process("broker-0-0")
    for _ in range(KILLS):
        await publisher.goes_on(chance.randrange(1, 200))
        broker.kill()
        broker.start()
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    found = await everything(store, TOPIC)
    publisher.tell(f"{KILLS} kills", bodies_of(found))
    assert publisher.findings(bodies_of(found)) == ([], [])
    assert set(publisher.codes) <= PASSING
    for queue_id in QUEUES:
        stored = [each.body.decode() for each in found[queue_id]]
        await until(lambda q=queue_id, s=stored: len(tails.bodies(q)) >= len(s), "the tails go on")
        assert tails.bodies(queue_id) == stored
    tails.close()


async def test_a_broker_that_hangs_leaves_outcomes_unknown_and_goes_on(cluster: RocketMqCluster, store: Store):
    publisher, broker = Publisher(store, TOPIC, "h"), cluster.process("broker-0-0")
    await publisher.goes_on()
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        await until(lambda: publisher.codes[Code.REQUEST_TIMEOUT], lambda: f"{publisher.codes}")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    lost, _ = publisher.findings(bodies_of(await everything(store, TOPIC)))
    assert lost == []


async def test_without_name_servers_known_topics_go_on(cluster: RocketMqCluster, store: Store):
    publisher, name_server = Publisher(store, TOPIC, "u"), cluster.process("namesrv")
    await publisher.goes_on()
    name_server.kill()
    try:
        await publisher.goes_on()
        assert await refusal_of(store.topology.put_topic(Topic("another"))) in AWAY
    finally:
        name_server.start()
    await until(lambda: cluster._listens(cluster.name_server_port), "it is back", START_SECONDS)
    await publisher.stop()
    assert set(publisher.codes) <= {Code.TOO_MANY_REQUESTS}, "what a broker of a busy machine says"
