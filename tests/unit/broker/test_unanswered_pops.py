"""What a pop has claimed is nobody's until its answer goes: the count of what waits never falls and rises again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.broker import Broker
from broker.settings import BrokerSettings
from domain.consumer_group import ConsumerGroup
from domain.message import Message
from domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.store_steps import append_all, bodies, pop
from tests.support.waiting import until


class HeldCommit:
    """In place of the group commit: whoever waits for the log waits for `event`."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiting = 0

    async def wait(self) -> None:
        self.waiting += 1
        await self.event.wait()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Broker]:
    store = await Broker.open(BrokerSettings(tmp_path), ManualClock())
    await store.topology.put_topic(Topic("t", queues=2))
    await store.topology.put_group(ConsumerGroup("g"))
    await append_all(store, *(Message("t", b"%d" % number, queue_id=number % 2) for number in range(4)))
    yield store
    await store.close()


async def held(store: Broker) -> list[int]:
    """Messages that consumers have, of each message queue."""
    return [each.in_flight for each in (await store.topology.group_status("g")).progress]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_an_answer_that_waits_is_nobody_s(
    store: Broker, monkeypatch: pytest.MonkeyPatch, is_cancelled: bool
) -> None:
    commit = HeldCommit()
    with monkeypatch.context() as patch:
        patch.setattr(store.core.commit, "wait", commit.wait)
        popping = asyncio.create_task(pop(store, "t"))
        await until(lambda: commit.waiting, "the pop waits for the log")
        assert await held(store) == [0, 0]
        if is_cancelled:
            popping.cancel()
            await asyncio.wait((popping,))
            assert await held(store) == [0, 0]
        commit.event.set()
        await asyncio.wait((popping,))
    if is_cancelled:
        assert sorted(bodies(await pop(store, "t"))) == ["0", "1", "2", "3"]
    assert await held(store) == [2, 2]
    assert not store.consumption._unanswered
