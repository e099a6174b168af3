"""What a pop has claimed is nobody's until its answer goes: the count of what waits never falls and rises again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all, bodies, pop
from tests.support.waiting import until


class HeldSync:
    """In place of the answer of the sync process: it comes when it is let go."""

    def __init__(self, store: Broker) -> None:
        self._finish = store.core.commit._on_synced
        self.is_waiting = False
        store.core.loop.remove_reader(store.engine.log_channel.fileno())
        store.core.loop.add_reader(store.engine.log_channel.fileno(), self._come)
        self._store = store

    def _come(self) -> None:
        self.is_waiting = True
        self._store.core.loop.remove_reader(self._store.engine.log_channel.fileno())

    def let_go(self) -> None:
        self._store.core.loop.add_reader(self._store.engine.log_channel.fileno(), self._finish)


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
async def test_an_answer_that_waits_is_nobody_s(store: Broker, is_cancelled: bool) -> None:
    sync = HeldSync(store)
    popping = asyncio.create_task(pop(store, "t"))
    await until(lambda: sync.is_waiting, "the pop waits for the log")
    assert await held(store) == [0, 0]
    if is_cancelled:
        popping.cancel()
        await asyncio.wait((popping,))
        assert await held(store) == [0, 0]
    sync.let_go()
    await asyncio.wait((popping,))
    if is_cancelled:
        assert sorted(bodies(await pop(store, "t"))) == ["0", "1", "2", "3"]
    assert await held(store) == [2, 2]
    assert not store.consumption._popping.unanswered
