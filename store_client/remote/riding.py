"""Riding: messages and requests that wait while the mastership of their broker moves.

Requests that wait here were certainly not executed: they had not left, or were refused by a replica that is not master,
or about to leave.  Or they are appends in doubt, which only the next master can settle.  They go to that one, messages
in the order in which they were first sent, or fail when their time is over.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

P = ParamSpec("P")
T = TypeVar("T")

RIDE_SECONDS: Final = 6.0
"""Longest wait for the next master: the default lease of a silent master, and as long again to elect."""
MAX_RIDING_BYTES: Final = 64 << 20
"""Limit of all that waits; beyond it, messages are refused at once."""
AGAIN_SECONDS: Final = 0.02
"""Pause before a broker that seems ready is asked again."""


@dataclass(order=True, slots=True)
class Ride:
    """A waiting request.  `sequence`: order of first sending.  `until`: end of its wait, in seconds of the event loop.
    `go` sends it; `give_up` refuses it."""

    sequence: int
    broker: int = field(compare=False)
    size: int = field(compare=False)
    until: float = field(compare=False)
    go: Callable[[], None] = field(compare=False)
    give_up: Callable[[], None] = field(compare=False)
    timer: asyncio.TimerHandle | None = field(default=None, compare=False)


class Riding:
    """All waiting requests, by broker number."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, list[Ride]] = {}
        self._bytes = 0
        cluster.ready_watchers.append(self._on_ready)

    def deadline(self) -> float:
        """Return the end of a wait that begins now."""
        return self._loop.time() + RIDE_SECONDS

    def take(self, client: BrokerClient, ride: Ride) -> bool:
        """Let a request wait, if its broker has replicas and there is room; returns True if so."""
        if ride.until <= self._loop.time():
            return False
        is_full = self._bytes > 0 and self._bytes + ride.size > MAX_RIDING_BYTES  # a large one may ride alone
        if is_full or not has_replicas(client):
            return False
        self._bytes += ride.size
        insort(self._waiting.setdefault(ride.broker, []), ride)
        ride.timer = self._loop.call_at(ride.until, self._give_up, ride)
        return True

    def _give_up(self, ride: Ride) -> None:
        self._waiting[ride.broker].remove(ride)
        self._bytes -= ride.size
        ride.give_up()

    def _on_ready(self, client: BrokerClient, is_ready: bool) -> None:
        if not is_ready:
            return
        rides = self._waiting.pop(client.number, [])
        for ride in rides:
            self._bytes -= ride.size
            if ride.timer is not None:
                ride.timer.cancel()
        for ride in rides:
            ride.go()


def has_replicas(client: BrokerClient) -> bool:
    return client.known is not None and bool(client.known.replicas)


async def next_master(cluster: Cluster, until: float) -> bool:
    """Wait for a broker with replicas; returns True if asking again in time is worthwhile."""
    brokers = [client for client in cluster.clients.values() if has_replicas(client)]
    left = until - asyncio.get_running_loop().time()
    if not brokers or left <= 0:
        return False
    if all(client.is_ready for client in brokers):
        await asyncio.sleep(min(AGAIN_SECONDS, left))
        return True
    return await wait_ready(cluster, lambda client: True, left)


async def wait_ready(cluster: Cluster, wanted: Callable[[BrokerClient], bool], seconds: float) -> bool:
    """Wait until a wanted broker comes; returns True if one has come in time."""
    come: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def noted(client: BrokerClient, is_ready: bool) -> None:
        if is_ready and wanted(client) and not come.done():
            come.set_result(None)

    cluster.ready_watchers.append(noted)
    try:
        await asyncio.wait((come,), timeout=seconds)
    finally:
        cluster.ready_watchers.remove(noted)
    return come.done()


async def riding(cluster: Cluster, go: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what a request returns; one that no master took goes to the next one."""
    until = 0.0
    while True:
        try:
            return await go()
        except ConnectionLostError:
            until = until or asyncio.get_running_loop().time() + RIDE_SECONDS
            if not await next_master(cluster, until):
                raise


def rides(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a method of a port that rides."""

    @wraps(call)
    async def method(*arguments: P.args, **named: P.kwargs) -> T:
        return await riding(cast("Any", arguments[0])._cluster, lambda: call(*arguments, **named))

    return method
