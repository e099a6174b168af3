"""Brokers that leave and join under load, and one that says so before it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from entrepot.domain.errors import PASSING, Code
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.remoting_client import RemotingClient
from tests.support.rocketmq.store_load import GOES_ON_SECONDS, Popper, Publisher, Tails, bodies_of, everything
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [*on_rocketmq, pytest.mark.timeout(600)]

DELETE_TOPIC = 215
SHUTDOWN_SECONDS = 1
READ_ONLY = 4
LEFT_ROUNDS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    """Two brokers that answer GO_AWAY for a while before they end."""
    graceful = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": SHUTDOWN_SECONDS}
    with RocketMqCluster(tmp_path_factory.mktemp("leaving"), 2, settings=graceful) as started:
        yield started


@pytest.fixture
async def store(cluster: RocketMqCluster) -> AsyncIterator[Store]:
    opened = await open_rocketmq([f"127.0.0.1:{cluster.name_server_port}"], SystemClock())
    yield opened
    await opened.close()


async def test_a_broker_that_says_go_away_loses_nothing(cluster: RocketMqCluster, store: Store):
    """It refuses what comes, answers what is under way, and ends: its messages are refused until it is back."""
    await store.topology.put_topic(Topic("going", queues=1))
    queues = (0, 10_000)
    publisher, tails = Publisher(store, "going", "g", queues), Tails(store, "going", queues)
    broker = cluster.process("broker-0-0")
    for _ in range(LEFT_ROUNDS):
        await publisher.goes_on()
        assert await asyncio.to_thread(broker.stop) is not None
        broker.start()
        await until(cluster.knows_all, cluster.log_text, GOES_ON_SECONDS)
        await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    found = await everything(store, "going")
    publisher.tell(f"{LEFT_ROUNDS} graceful shutdowns", bodies_of(found))
    assert publisher.findings(bodies_of(found)) == ([], [])
    assert set(publisher.codes) <= PASSING
    for queue_id in queues:
        stored = [each.body.decode() for each in found[queue_id]]
        await until(lambda q=queue_id, s=stored: len(tails.bodies(q)) >= len(s), "the tails go on", GOES_ON_SECONDS)
        assert tails.bodies(queue_id) == stored
    tails.close()


async def test_a_broker_leaves_and_another_joins_under_load(cluster: RocketMqCluster, store: Store):
    topic = Topic("moving", queues=2)
    await store.topology.put_topic(topic)
    publisher, popper = Publisher(store, "moving", "j", queues=(-1,)), Popper(store, "moving", "g")
    tails = Tails(store, "moving", (0, 1, 10_000, 10_001))
    await publisher.goes_on()
    joined = await asyncio.to_thread(cluster.add_broker)
    await asyncio.to_thread(cluster.put_topic, "moving", 2)  # at all three
    await until(lambda: 20_000 in store.topology.queues(topic).writable, "the new one takes part", PATIENCE_SECONDS)
    more = Tails(store, "moving", (20_000, 20_001))
    await publisher.goes_on()
    await asyncio.to_thread(cluster.put_topic, "moving", 2, "MIXED", 1, READ_ONLY)
    await until(lambda: 0 not in store.topology.queues(topic).writable, "the first one takes nothing", PATIENCE_SECONDS)
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    found = bodies_of(await everything(store, "moving"))
    publisher.tell(f"broker-0 leaves, {joined.name} joins", found)
    assert publisher.findings(found) == ([], [])
    assert set(publisher.codes) <= PASSING | {Code.FORBIDDEN}
    await until(lambda: sorted([*tails.all(), *more.all()]) == sorted(found), "the tails have all of it")
    await until(lambda: set(found) <= set(popper.taken), lambda: f"{popper.codes}", GOES_ON_SECONDS)
    with RemotingClient(cluster.brokers[0].port) as client:
        client.ask(DELETE_TOPIC, {"topic": "moving"})
    await until(lambda: 0 not in store.topology.queues(topic).readable, "its queues are gone", PATIENCE_SECONDS)
    later = Publisher(store, "moving", "k", queues=(-1,))
    await later.goes_on()
    await later.stop()
    assert not later.codes
    await until(lambda: set(later.confirmed) <= {*tails.all(), *more.all()}, "the rest goes on")
    await until(lambda: set(later.confirmed) <= set(popper.taken), "pops go on", GOES_ON_SECONDS)
    tails.close()
    more.close()
    await popper.stop()
