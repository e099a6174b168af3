"""What push consumers hold, and when they are silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from domain.topic import Topic
from gateway.frontends.rocketmq.holding import Holding
from gateway.settings.grpc import GrpcSettings
from store_client.memory import MemoryStore
from tests.support.clock import ManualClock
from tests.support.store_steps import append, pop
from tests.support.waiting import until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[MemoryStore]:
    opened = MemoryStore(clock)
    await opened.put_topic(Topic("t", queues=1))
    yield opened
    await opened.close()


async def test_a_receive_that_outlives_a_goodbye(store: MemoryStore, clock: ManualClock) -> None:
    """It was no receive of the client that came back with the same id: that one is silent when nothing more comes."""
    frontend = SimpleNamespace(
        store=store, clock=clock, settings=GrpcSettings(lease_seconds=1), gateway="g", spawn=asyncio.ensure_future
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    await holding.start()
    holding.seen("one")
    polling = holding.begin_receive("one")
    await holding.goodbye("one")
    holding.seen("one")
    holding.end_receive(polling)
    await append(store, "t", "a")
    holding.hold("one", "t", [("g", "", await pop(store, "t", invisible_ms=3_600_000))])
    assert holding.held == 1
    clock.advance(31_000)  # of silence
    await until(lambda: not holding.held, "given up")
    assert [delivery.attempt for delivery in await pop(store, "t", wait_ms=5000)] == [2]
    await holding.close()
