"""A master that dies, or hangs, while real controllers make another replica the master: nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.domain.errors import PASSING
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.http.load import TOPIC as AT_DOORS
from tests.support.http.load import HttpLoad
from tests.support.mqtt import load as mqtt_load
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import BrokerPlace, RocketMqCluster, on_rocketmq
from tests.support.rocketmq.in_front import running_at
from tests.support.rocketmq.replicas import all_in_sync, known_everywhere, master_other_than
from tests.support.rocketmq.store_load import GOES_ON_SECONDS, Popper, Publisher, Tails, bodies_of, everything
from tests.support.seed import seeded
from tests.support.waiting import until

pytestmark = [*on_rocketmq, pytest.mark.timeout(900)]

ROUNDS = 5
QUEUES = (0, 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    """Two replicas, and three controllers: what is confirmed is at both.

    Without a minimum of two, a master of 5.5.0 that hung confirms by itself for a while, since it is told late."""
    settings = {"minInSyncReplicas": 2}
    directory = tmp_path_factory.mktemp("replicas")
    with RocketMqCluster(directory, 2, controlled=True, controllers=3, settings=settings) as started:
        yield started


@pytest.fixture
async def store(cluster: RocketMqCluster) -> AsyncIterator[Store]:
    opened = await open_rocketmq([f"127.0.0.1:{cluster.name_server_port}"], SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
async def gateway(cluster: RocketMqCluster, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with running_at(cluster.name_server_port, tmp_path) as started:
        yield started


class Doors:
    """A publisher and a subscriber by MQTT, and a publisher and a consumer by HTTP."""

    def __init__(self, gateway: GatewayProcess, name: str) -> None:
        port = gateway.port("mqtt")
        self.mqtt = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(port, client_id))
        self.subscriber = mqtt_load.Consumer(f"{name}-subscriber", f"{AT_DOORS}/#", 1)
        self.mqtt.consume(self.subscriber)
        self._gateway, self._name = gateway, name

    async def begin(self) -> None:
        await until(lambda: self.subscriber.is_ready, "it is subscribed")
        publisher = mqtt_load.Publisher(f"{self._name}mqtt", 1, f"{AT_DOORS}/m", window=2, pause_seconds=0.02)
        self.mqtt.publish(publisher)
        self.http = HttpLoad([self._gateway], f"{self._name}-pullers", pause_seconds=0.02, series=self._name)

    async def end(self) -> None:
        """End, once all that was confirmed has come."""
        self.http.is_producing = False
        await asyncio.to_thread(self.mqtt.end_producing)
        confirmed = self.http.confirmed | self.mqtt.confirmed
        await until(
            lambda: confirmed <= set(self.subscriber.taken) and confirmed <= set(self.http.taken),
            lambda: f"{confirmed - set(self.subscriber.taken)}, {confirmed - set(self.http.taken)} are missing",
            GOES_ON_SECONDS,
        )
        others = "kill" if self._name == "stop" else "stop"  # the topic is that of both
        taken = {each for each in (*self.subscriber.taken, *self.http.taken) if others not in each}
        phantom = taken - self.http.sent - self.mqtt.sent
        print(f"doors: confirmed {len(confirmed)}, lost 0, phantom {len(phantom)}, refused {self.http.refused}")
        assert not phantom
        assert not self.mqtt.failures

    def stop(self) -> None:
        self.http.stop()
        self.mqtt.stop()


async def kill(cluster: RocketMqCluster, old: BrokerPlace) -> None:
    """Kill the master, wait for the other one, and start it again."""
    process = cluster.process(old.process)
    process.kill()
    await master_other_than(cluster, old)
    process.start()


async def stop(cluster: RocketMqCluster, old: BrokerPlace) -> None:
    """Stop the master until the other one has its place."""
    process = cluster.process(old.process)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        await master_other_than(cluster, old)
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("fail", [kill, stop])
async def test_masters_change_under_load(cluster: RocketMqCluster, store: Store, gateway: GatewayProcess, fail: Any):
    how, topic = fail.__name__, f"kept-{fail.__name__}"
    chance = seeded(how)
    await all_in_sync(cluster)
    for name in (topic, AT_DOORS):
        await store.topology.put_topic(Topic(name, queues=len(QUEUES)))
        await known_everywhere(cluster, name)
    tails, popper = Tails(store, topic, QUEUES), Popper(store, topic, f"g-{how}")
    publisher, doors = Publisher(store, topic, how), Doors(gateway, how)
    await doors.begin()
    try:
        for _ in range(ROUNDS):
            master = await all_in_sync(cluster)
            await publisher.goes_on(chance.randrange(20, 200))  # at another moment of its work each time
            await fail(cluster, master)
            await publisher.goes_on()
        await publisher.stop()
        await all_in_sync(cluster)
        await asyncio.to_thread(cluster.wait_readable)
        found = await everything(store, topic)
        publisher.tell(f"{how}, {ROUNDS} rounds", bodies_of(found), pops=dict(popper.codes))
        assert publisher.findings(bodies_of(found)) == ([], [])
        assert set(publisher.codes) <= PASSING
        for queue_id in QUEUES:
            stored = [each.body.decode() for each in found[queue_id]]
            await until(
                lambda q=queue_id, s=stored: set(s) <= set(tails.bodies(q)),
                lambda q=queue_id, s=stored: f"{sorted(set(s) - set(tails.bodies(q)))[:9]} did not come by a tail",
            )
            extra = set(tails.bodies(queue_id)) - set(stored)
            print(f"queue {queue_id}: read of a master that was replaced, and gone: {sorted(extra)}")
            assert extra <= publisher.unknown
            assert [b for b in tails.bodies(queue_id) if b not in extra] == stored, "without a gap, nothing twice"
        assert tails.repeated() == []
        await until(
            lambda: set(publisher.confirmed) <= set(popper.taken),
            lambda: f"{len(set(publisher.confirmed) - set(popper.taken))} were not popped, {popper.codes}",
            GOES_ON_SECONDS,
        )
        assert set(popper.taken) <= set(publisher.sent)
        await doors.end()
    finally:
        doors.stop()
        tails.close()
        await publisher.stop()
        await popper.stop()
