"""Two or three brokers, and two gateways' stores over them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.gateway.clock import SystemClock
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld


@pytest.fixture
def broker_count() -> int:
    """Modules and tests that try three say so."""
    return 2


@pytest.fixture
async def world(tmp_path: Path, broker_count: int) -> AsyncIterator[BrokerWorld]:
    async with AsyncExitStack() as stack:
        world = BrokerWorld(SystemClock(), stack)
        await world.start(tmp_path, broker_count)
        yield world


@pytest.fixture
async def store(world: BrokerWorld) -> RemoteStore:
    return await world.store()


@pytest.fixture
async def other(world: BrokerWorld, store: RemoteStore) -> RemoteStore:
    """Of another gateway."""
    return await world.store()
