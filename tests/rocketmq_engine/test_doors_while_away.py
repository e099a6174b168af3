"""Answers of each door of a gateway while Apache RocketMQ is killed, or hangs, and once it is back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.door_words import AWAY, LATE, TAKEN, Words, words
from tests.support.rocketmq.in_front import running_at
from tests.support.rocketmq.java_process import JavaProcess
from tests.support.rocketmq.store_load import GOES_ON_SECONDS

pytestmark = on_rocketmq

TOPIC = "words"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    with RocketMqCluster(tmp_path_factory.mktemp("words"), 1) as started:
        started.put_topic(TOPIC)
        yield started


@pytest.fixture
async def gateway(cluster: RocketMqCluster, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with running_at(cluster.name_server_port, tmp_path) as started:
        yield started


def hang(process: JavaProcess) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def go_on(process: JavaProcess) -> None:
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("fail", "mend", "expected"),
    [(JavaProcess.kill, JavaProcess.start, AWAY), (hang, go_on, LATE)],
    ids=["killed", "hung"],
)
async def test_doors_while_a_broker_is_away(
    cluster: RocketMqCluster,
    gateway: GatewayProcess,
    fail: Callable[[JavaProcess], None],
    mend: Callable[[JavaProcess], None],
    expected: Words,
):
    broker = cluster.process("broker-0-0")
    await until_they_say(gateway, TAKEN)
    fail(broker)
    try:
        await until_they_say(gateway, expected)
    finally:
        mend(broker)
    await until_they_say(gateway, TAKEN)


async def until_they_say(gateway: GatewayProcess, expected: Words) -> None:
    """Ask all doors until they say it: the first answers may be those of requests under way."""
    found: Words = {}
    try:
        async with asyncio.timeout(GOES_ON_SECONDS):
            while found != expected:
                found = await words(gateway, TOPIC)
    except TimeoutError:
        raise AssertionError(f"the doors say {found}, and not {expected}") from None
