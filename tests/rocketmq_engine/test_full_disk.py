"""A broker whose disk is full, or that is slow: each door says so in its own words, and then the flow begins again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from entrepot.domain.errors import PASSING, Code
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.door_words import FULL, TAKEN, words
from tests.support.rocketmq.remoting_client import RemotingClient
from tests.support.rocketmq.store_load import GOES_ON_SECONDS, Publisher, Tails, bodies_of, everything
from tests.support.seed import seeded
from tests.support.waiting import until

pytestmark = [*on_rocketmq, pytest.mark.timeout(600)]

DISK_BYTES = 768 << 20
FULL_TO = 0.93
PULSES = 20
UPDATE_CONFIG = 25
WAIT_MS = 200
"""RocketMQ's own limit."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(scope="module")
def cluster(disk: Path) -> Iterator[RocketMqCluster]:
    with RocketMqCluster(disk, 1, settings={"cleanResourceInterval": 1_000, "diskMaxUsedSpaceRatio": 95}) as started:
        yield started


def fill(disk: Path) -> Path:
    """Take the room of the disk up to its last percents."""
    filler, told = disk / "filler", os.statvfs(disk)
    used = told.f_blocks - told.f_bfree
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, int(told.f_blocks * FULL_TO - used) * told.f_frsize)
    return filler


@pytest.fixture
async def store(cluster: RocketMqCluster) -> AsyncIterator[Store]:
    opened = await open_rocketmq([f"127.0.0.1:{cluster.name_server_port}"], SystemClock())
    yield opened
    await opened.close()


async def test_a_full_disk_refuses_at_every_door_until_there_is_room(
    cluster: RocketMqCluster, store: Store, disk: Path, tmp_path: Path
):
    settings = {
        "rocketmq.name_servers": f'["127.0.0.1:{cluster.name_server_port}"]',
        "facts.url": f"file:{tmp_path / 'facts'}",
    }
    for name in ("words", "filled"):
        await store.topology.put_topic(Topic(name, queues=2))
    gateway = GatewayProcess(tmp_path, [], settings, "gateway")
    publisher, tails = Publisher(store, "filled", "full"), Tails(store, "filled", (0, 1))
    try:
        await asyncio.to_thread(gateway.start)
        await publisher.goes_on()
        assert await words(gateway, "words") == TAKEN
        filler = fill(disk)
        await until(lambda: publisher.codes[Code.STORAGE_FULL] > 5, lambda: f"{publisher.codes}", GOES_ON_SECONDS)
        assert await words(gateway, "words") == FULL
        confirmed = len(publisher.confirmed)
        filler.unlink()
        await publisher.goes_on()
        assert await words(gateway, "words") == TAKEN
        await publisher.stop()
        await asyncio.to_thread(cluster.wait_readable)
        found = bodies_of(await everything(store, "filled"))
        publisher.tell("full disk", found, before=confirmed)
        assert publisher.findings(found) == ([], [])
        late = Code.UNAVAILABLE  # there is room, and the broker, which tells so, has not looked yet
        assert set(publisher.codes) <= {Code.STORAGE_FULL, Code.TOO_MANY_REQUESTS, late}
        await until(lambda: sorted(tails.all()) == sorted(found), "the tails go on")
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        tails.close()
        await publisher.stop()
        gateway.kill()


async def test_a_broker_that_is_too_slow_refuses_and_loses_nothing(cluster: RocketMqCluster, store: Store):
    """It stands still for a moment again and again, as with a disk that is overrun, and refuses what waited for longer
    than it allows (flow control).  Then it allows more, and refuses nothing."""
    chance = seeded("slow")
    await store.topology.put_topic(Topic("slow", queues=8))
    publisher, tails = Publisher(store, "slow", "s", range(8), lines=64), Tails(store, "slow", range(8))
    broker = cluster.process("broker-0-0")
    await publisher.goes_on()
    allow(cluster, 1)
    for _ in range(PULSES):
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            await for_seconds(chance.uniform(0.05, 0.5))
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        await publisher.goes_on(chance.randrange(1, 60))
    await until(lambda: publisher.codes[Code.TOO_MANY_REQUESTS] > 5, lambda: f"{publisher.codes}", GOES_ON_SECONDS)
    allow(cluster, WAIT_MS)
    await publisher.goes_on()
    await publisher.stop()
    await asyncio.to_thread(cluster.wait_readable)
    found = bodies_of(await everything(store, "slow"))
    publisher.tell(f"{PULSES} pulses", found)
    assert publisher.findings(found) == ([], [])
    assert set(publisher.codes) <= PASSING - {Code.STORAGE_FULL}
    await until(lambda: sorted(tails.all()) == sorted(found), "the tails go on")
    tails.close()


def allow(cluster: RocketMqCluster, wait_ms: int) -> None:
    """Say how long a message may wait for the broker's turn."""
    with RemotingClient(cluster.brokers[0].port) as client:
        client.ask(UPDATE_CONFIG, None, f"waitTimeMillsInSendQueue={wait_ms}".encode())


async def for_seconds(seconds: float) -> None:
    """The length of a fault."""
    end = asyncio.get_running_loop().time() + seconds
    await until(lambda: asyncio.get_running_loop().time() > end, "it is time")
