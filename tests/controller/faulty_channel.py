"""A replica's disk that is slow, hangs or fails, as its store sees it."""

from __future__ import annotations

import asyncio
import math

from entrepot.broker.replication.process import ReplicaProcess
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.sync_channel import SyncChannel
from entrepot.domain.errors import StoreFailedError


class FaultySyncs:
    """Syncs of a store's log take so many seconds more; infinite: they hang until the store is closed.  `fails`: the
    next one ends with an error."""

    def __init__(self, channel: SyncChannel, seconds: float) -> None:
        self._channel, self._seconds = channel, seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._paths: list[str] | None = None
        self.fails = False

    def fileno(self) -> int:
        return self._channel.fileno()

    def sync(self, paths: list[str]) -> None:
        self._paths = paths
        if self._seconds < math.inf:
            self._timer = self._loop.call_later(self._seconds, self._ask)

    def publish(self, paths: list[str], draft: str, final: str) -> None:
        self._channel.publish(paths, draft, final)

    def commit(self, paths: list[str], state_path: str, changes: bytes) -> None:
        self._channel.commit(paths, state_path, changes)

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        paths, self._paths = self._paths, None
        if paths is not None:
            self._channel.sync(paths)

    def finish(self) -> None:
        self._ask()
        self._channel.finish()
        if self.fails:
            raise StoreFailedError("making data durable failed: Input/output error")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()


def engine_of(replica: ReplicaProcess) -> StorageEngine:
    opened = replica.store.leading or replica.store.slave
    assert opened is not None
    return opened.engine


def slowed(replica: ReplicaProcess, seconds: float) -> FaultySyncs:
    """Have all further syncs of a replica's log take longer, until it opens its store anew."""
    engine = engine_of(replica)
    engine.log_channel = found = FaultySyncs(engine.log_channel, seconds)
    return found
