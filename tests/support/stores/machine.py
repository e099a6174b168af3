"""What state machines over a store of any kind share: a loop, a clock, a store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.ports import Store
from entrepot.store_client.embedded import open_embedded
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

T = TypeVar("T")


class StoreMachine(RuleBasedStateMachine):
    """Says `kind`: "memory" or "embedded"."""

    kind = ""
    hold_back_limit = 32_768

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.directory = TemporaryDirectory()
        self.store = self.ask(self.open_store())

    async def open_store(self) -> Store:
        if self.kind == "memory":
            return MemoryStore(self.clock, hold_back_limit=self.hold_back_limit)
        layout = CommitLogLayout(segment_size_bytes=256 << 10, preallocate_bytes=64 << 10, reserve_bytes=16 << 10)
        path = Path(self.directory.name) / "data"
        settings = BrokerSettings(path, layout=layout, hold_back_limit=self.hold_back_limit)
        return await open_embedded(settings, self.clock)

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(question)

    def teardown(self) -> None:
        self.ask(self.store.close())
        self.loop.close()
        self.directory.cleanup()
