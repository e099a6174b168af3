"""Every store that implements `domain.ports.Store`, under the same tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.ports import Store
from entrepot.store_client.embedded import open_embedded
from tests.support.brokers.served_broker import remote_store
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

MAX_MESSAGE_BYTES = 4096


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def hold_back_limit() -> int:
    """How far a group may run ahead of a message that waits; modules that try it say a smaller one."""
    return 32_768


@pytest.fixture(params=["memory", "embedded", "remote"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, hold_back_limit: int
) -> AsyncIterator[Store]:
    settings = BrokerSettings(
        tmp_path / "data",
        max_message_bytes=MAX_MESSAGE_BYTES,
        hold_back_limit=hold_back_limit,
        layout=CommitLogLayout(segment_size_bytes=256 << 10, preallocate_bytes=64 << 10, reserve_bytes=16 << 10),
    )
    async with AsyncExitStack() as stack:
        if request.param == "remote":
            yield await remote_store(settings, clock, stack)
            return
        opened: Store
        if request.param == "memory":
            opened = MemoryStore(clock, max_message_bytes=MAX_MESSAGE_BYTES, hold_back_limit=hold_back_limit)
        else:
            opened = await open_embedded(settings, clock)
        stack.push_async_callback(opened.close)
        yield opened
