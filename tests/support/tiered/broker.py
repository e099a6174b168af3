"""A broker with a tier in a folder, in a thread of the test's process, served over the wire; time goes on as told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.merging import merge
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.store_client.blocking import StoreLocation
from tests.support.brokers.served_broker import ServedBroker
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import AT_ONCE
from tests.support.waiting import PATIENCE_SECONDS, until

T = TypeVar("T")
LAYOUT = CommitLogLayout(segment_size_bytes=1 << 20, preallocate_bytes=256 << 10, reserve_bytes=64 << 10)
NUMBER = 3
"""Of the broker: its queue 1 is queue 30,001 to the world."""


class TieredBroker:
    """`topic`: retention of a minute, a tier for ever.  `folder`: of the tier."""

    def __init__(self, directory: Path, topic: str = "factory", queues: int = 3, **tier: Any) -> None:
        self.clock = ManualClock()
        self.topic, self.queues = topic, queues
        self.folder = directory / "cold"
        self._settings = BrokerSettings(
            directory / "data",
            layout=LAYOUT,
            retention_interval_seconds=0.01,
            checkpoint_interval_seconds=0.1,
            tier=TierSettings(self.folder.as_uri(), **{"number": NUMBER, **AT_ONCE, **tier}),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tiered-broker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.served = self.run(ServedBroker.open(self._settings, self.clock, NUMBER))
        self.store = self.served.broker
        self.make()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.served.stop())
        self.run(self.store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the broker's thread do something."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(4 * PATIENCE_SECONDS)

    @property
    def location(self) -> StoreLocation:
        return StoreLocation(brokers=(self.served.address,), seconds=PATIENCE_SECONDS)

    @property
    def root(self) -> str:
        """Path of the topic's table."""
        assert self.store.tier is not None
        return self.store.tier.root(self.store.registry.topics[self.topic])

    def make(self) -> None:
        """Make the topic, and one that messages may lie in, too."""
        for name in (self.topic, "other"):
            topic = Topic(name, queues=self.queues, retention_seconds=60, tier_seconds=10**9)
            self.run(self.store.topology.put_topic(topic))

    def publish(self, messages: Sequence[Message]) -> None:
        """Some messages; each hundred a second later."""
        for first in range(0, len(messages), 100):
            self.run(append_all(self.store, *messages[first : first + 100]))
            self.clock.advance(1000)

    def upload(self) -> None:
        """Wait until the table has all."""

        async def uploaded() -> None:
            queues = self._queues()
            ends = {queue.queue_id: queue.visible_offset for queue in queues if queue.visible_offset}
            await until(lambda: self._told() == ends, lambda: f"{self._told()} of {ends}")

        self.run(uploaded())

    def forget(self) -> None:
        """Have the disk let go of all."""

        async def forgotten() -> None:
            self.clock.advance(120_000)
            queues = self._queues()
            ends = [queue.visible_offset for queue in queues]
            await until(lambda: [queue.min_offset for queue in queues] == ends, "all has left the disk")

        self.upload()
        self.run(forgotten())

    def _queues(self) -> list[Any]:
        return [self.store.engine.dispatcher.queue(self.topic, number) for number in range(self.queues)]

    def _told(self) -> dict[int, int]:
        assert self.store.tier is not None
        told = self.store.tier.progress.get(self.root)
        return {} if told is None else told.ends

    def table(self) -> TopicTable:
        """The topic's table, opened by somebody else."""
        table = TopicTable(FolderStore(self.folder), self.root, self.clock, Random(1))
        assert table.open()
        return table

    def merge(self) -> int:
        """Merge segments, as the uploader does each minute, and delete what was merged; how many."""
        return self._changed(lambda table: merge(table, FolderStore(self.folder), self.clock.now_ms()))

    def expire(self, before_ms: int) -> int:
        """Remove segments that are older, and delete them; how many."""
        return self._changed(lambda table: table.expire(before_ms))

    def _changed(self, change: Callable[[TopicTable], int]) -> int:
        table = self.table()
        count = change(table)
        self.clock.advance(1)
        table.vacuum(0)
        assert self.store.tier is not None
        self.run(self.store.tier.tables.know(self.root))
        return count
