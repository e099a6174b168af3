"""Servers of Apache RocketMQ that die, stop and come back under a gateway's store: nothing confirmed is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.domain.errors import AWAY, Code
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.rocketmq.cluster import START_SECONDS, RocketMqCluster, on_rocketmq
from tests.support.stores.steps import message, refusal_of, settled
from tests.support.waiting import until

pytestmark = on_rocketmq

KILLS = 3
TOPIC = "kept"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with RocketMqCluster(tmp_path_factory.mktemp("failing"), 1) as started:
        yield started


@pytest.fixture
async def store(cluster: RocketMqCluster) -> AsyncIterator[Store]:
    address = f"127.0.0.1:{cluster.name_server_port}"
    opened = await open_rocketmq([address], SystemClock(), request_timeout_ms=3_000)
    await opened.topology.put_topic(Topic(TOPIC, queues=2))
    yield opened
    await opened.close()


class Publisher:
    """Publishes one message after the other to each queue, and remembers what was confirmed."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.codes: set[Code] = set()
        self._is_over = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._is_over:
            body = f"{self._name}-{len(self.sent)}"
            self.sent.append(body)
            confirmation = self._store.messages.append([message(TOPIC, body, len(self.sent) % 2)])
            failure = await settled(confirmation)
            refusal = failure or next(iter(filter(None, confirmation.refusals or ())), None)
            if refusal is None:
                self.confirmed.append(body)
            else:
                self.codes.add(refusal.code)
                await asyncio.sleep(0.05)  # as clients do

    async def goes_on(self) -> None:
        """Return when more has been confirmed."""
        before = len(self.confirmed)
        await until(lambda: len(self.confirmed) > before + 50, lambda: f"{self.codes}", START_SECONDS)

    async def stop(self) -> None:
        self._is_over = True
        await self._task


async def everything(store: Store) -> list[str]:
    """All bodies of the topic."""
    found: list[str] = []
    for bounds in await store.messages.bounds(TOPIC):
        at = bounds.min_offset
        while at < bounds.max_offset:
            pulled = await store.messages.pull(TOPIC, bounds.queue_id, at, 500)
            found += [each.body.decode() for each in pulled.messages]
            at = pulled.next_offset
    return found


async def test_a_broker_that_is_killed_again_and_again_loses_nothing_confirmed(cluster: RocketMqCluster, store: Store):
    """Its process dies, not its machine: what it has written is in the page cache."""
    publisher = Publisher(store, "killed")
    live: list[StoredMessage] = []
    tails = [store.messages.tail(TOPIC, queue_id, 0, live.extend) for queue_id in (0, 1)]
    broker = cluster.processes[1]
    for _ in range(KILLS):
        await publisher.goes_on()
        broker.kill()
        broker.start()
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    found = await everything(store)
    print(f"{len(publisher.confirmed)} of {len(publisher.sent)} confirmed, {KILLS} kills, refused as {publisher.codes}")
    assert not set(publisher.confirmed) - set(found), "lost"
    assert not set(found) - set(publisher.sent), "phantoms"
    assert publisher.codes <= AWAY | {Code.STORAGE_FULL, Code.TOO_MANY_REQUESTS}
    await until(lambda: len(live) >= len(found), "the tails go on")
    assert [each.body.decode() for each in live if each.queue_id == 0] == [b for b in found if number(b) % 2 == 1]
    for tail in tails:
        tail.close()


def number(body: str) -> int:
    """Count of a message: odd ones go to queue 0."""
    return int(body.partition("-")[2])


async def test_a_broker_that_hangs_leaves_outcomes_unknown_and_goes_on(cluster: RocketMqCluster, store: Store):
    publisher = Publisher(store, "hung")
    await publisher.goes_on()
    os.kill(cluster.processes[1].pid, signal.SIGSTOP)
    try:
        await until(lambda: Code.REQUEST_TIMEOUT in publisher.codes, lambda: f"{publisher.codes}")
    finally:
        os.kill(cluster.processes[1].pid, signal.SIGCONT)
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    assert not set(publisher.confirmed) - set(await everything(store))


async def test_without_name_servers_known_topics_go_on(cluster: RocketMqCluster, store: Store, tmp_path: Path):
    publisher = Publisher(store, "unnamed")
    await publisher.goes_on()
    name_server = cluster.processes[0]
    name_server.kill()
    try:
        await publisher.goes_on()
        assert await refusal_of(store.topology.put_topic(Topic("another"))) in AWAY
    finally:
        name_server.start()
    await until(lambda: cluster._listens(cluster.name_server_port), "it is back", START_SECONDS)
    await publisher.stop()
    assert publisher.codes <= {Code.TOO_MANY_REQUESTS}, "what a broker of a busy machine says"
