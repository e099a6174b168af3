"""The HTTP door over a store, on a free loopback port, with an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import uvloop

from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.ports import Store
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.events.door import EventsDoor
from entrepot.gateway.http.door import HttpDoor
from entrepot.gateway.http.server import HttpListener
from entrepot.gateway.settings import Settings
from entrepot.store_client.embedded import open_embedded
from entrepot.store_client.remote.opening import RemoteSettings, open_remote
from tests.support.brokers.served_broker import ServedBroker, remote_store
from tests.support.gateways.parts import parts_of
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.rocketmq.in_front import AT_ROCKETMQ, ROCKETMQ, store_at
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import soak_only

STORES = ("embedded", soak_only("memory"), soak_only("remote"), AT_ROCKETMQ)
"""For a fixture's parameters: this door is the same over each, as a few tests show that run `everywhere`."""
_T = TypeVar("_T")
STOP_SECONDS: Final = 5.0


class ServerClock:
    """The system's, ahead of it by as much as a test does not want to wait."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, seconds: int) -> None:
        self._ahead_ms += seconds * 1000


class ClusterClock(ServerClock):
    """The system's alone: a cluster has its own."""

    def advance(self, seconds: int) -> None:
        pytest.skip("the test moves its clock, and a cluster has its own")


class HttpServer:
    """A running door.  `run` and `call` do something on its loop.  `cluster`: of the store kind `rocketmq`."""

    def __init__(
        self, store_kind: str, data_dir: Path, settings: Settings, cluster: RocketMqCluster | None = None
    ) -> None:
        self._store_kind, self._data_dir, self.settings = store_kind, data_dir, settings
        self._cluster = cluster
        self.clock = ServerClock() if cluster is None else ClusterClock()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop
        self.store: Store
        self.parts: Parts
        self.door: HttpDoor
        self.ready = True
        self.brokers: list[ServedBroker] = []
        """Those of the store kind `cluster`."""
        self.port = 0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._main, name="http-server", daemon=True)

    @property
    def listener(self) -> HttpListener:
        assert self.door.listener is not None
        return self.door.listener

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        if self._failure is not None:
            raise self._failure

    def begin_stop(self) -> None:
        """Let it stop; returns when it takes no connections any more."""
        self._is_stopping = True
        self.call(lambda: self._end.set())
        wait_until(lambda: not _connects(self.port), "the listener's end")

    def stop(self) -> None:
        if not self._is_stopping:
            self.begin_stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)

    def call(self, function: Callable[[], _T]) -> _T:
        async def work() -> _T:
            return function()

        return self.run(work())

    def _main(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as failure:
            self._failure = failure
            self._started.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._opened = AsyncExitStack()
        clock = self.clock
        self.store = await self._open(clock)
        parts = self.parts = parts_of(self.store, self.settings, clock, is_ready=lambda: self.ready)
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        parts = self.parts = replace(parts, sockets={"http": bound})
        events = EventsDoor(parts)
        parts.doors.append(events)
        self.door = HttpDoor(parts)
        parts.doors.append(self.door)
        await events.start()
        await parts.retained.start()
        await parts.security.start()
        await self.door.start()
        await self.door.open()
        self._started.set()
        await self._end.wait()
        until = self.loop.time() + STOP_SECONDS
        await self.door.end_waiting(until)
        self.store.consumption.release_waiting()
        parts.memberships.release_waiting()
        await self.door.close(until)
        await parts.retained.close()
        for work in self.door.last_work():
            await work()
        parts.security.close()
        await self._opened.aclose()

    async def _open(self, clock: ServerClock) -> Store:
        layout = CommitLogLayout(segment_size_bytes=16 << 20, preallocate_bytes=1 << 20, reserve_bytes=1 << 20)
        settings = BrokerSettings(self._data_dir, layout=layout)
        if self._store_kind == "remote":
            return await remote_store(settings, clock, self._opened)
        if self._store_kind == "cluster":
            return await self._open_cluster(settings, clock)
        store: Store
        if self._cluster is not None:
            store = await store_at(self._cluster, self._data_dir, clock)
        else:
            store = MemoryStore(clock) if self._store_kind == "memory" else await open_embedded(settings, clock)
        self._opened.push_async_callback(store.close)
        return store

    async def _open_cluster(self, settings: BrokerSettings, clock: ServerClock) -> Store:
        """Two brokers behind the wire, which a test may stop, and a store that finds them."""
        for number in range(2):
            own = replace(settings, data_dir=settings.data_dir / str(number), name=f"broker-{number}")
            served = await ServedBroker.open(own, clock, number, keeps=number == 0)
            self._opened.push_async_callback(served.close)
            self.brokers.append(served)
        addresses = [each.address for each in self.brokers]
        store = await open_remote(RemoteSettings(brokers=addresses, silence_seconds=30), clock)
        self._opened.push_async_callback(store.close)
        return store


def _connects(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def serving_of(
    request: pytest.FixtureRequest, data_dir: Path, settings: Settings | None = None
) -> AbstractContextManager[HttpServer]:
    """A server over the store that a fixture's parameter names."""
    cluster = request.getfixturevalue("rocketmq_cluster") if request.param == ROCKETMQ else None
    return serving(request.param, data_dir, settings, cluster)


@contextmanager
def serving(
    store_kind: str, data_dir: Path, settings: Settings | None = None, cluster: RocketMqCluster | None = None
) -> Iterator[HttpServer]:
    """A server for the length of a block."""
    server = HttpServer(store_kind, data_dir, settings or Settings(), cluster)
    server.start()
    try:
        yield server
    finally:
        server.stop()
