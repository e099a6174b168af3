"""Riding: messages that wait while the mastership of their broker moves.

Only what is known to be taken by nobody waits here: it had not left, or was refused by a master that was about to go.
It goes to the next master, in the order in which it was first sent, or is refused when its time is over.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from store_client.remote.broker_client import BrokerClient
from store_client.remote.cluster import Cluster

RIDE_SECONDS: Final = 1.5
"""Longest wait for the next master."""
MAX_RIDING_BYTES: Final = 64 << 20
"""Named limit: of all that waits; beyond it, messages are refused at once."""


@dataclass(order=True, slots=True)
class Ride:
    """`sequence`: when it was first sent.  `until`: how long it waits, in seconds of the event loop.  `go` sends it;
    `give_up` refuses it."""

    sequence: int
    broker: int = field(compare=False)
    size: int = field(compare=False)
    until: float = field(compare=False)
    go: Callable[[], None] = field(compare=False)
    give_up: Callable[[], None] = field(compare=False)
    timer: asyncio.TimerHandle | None = field(default=None, compare=False)


class Riding:
    """All that waits, by broker number."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, list[Ride]] = {}
        self._bytes = 0
        cluster.ready_watchers.append(self._on_ready)

    def take(self, client: BrokerClient, ride: Ride) -> bool:
        """Let it wait, if its broker has replicas, and there is room; says whether it does."""
        if ride.until <= self._loop.time():
            return False
        has_replicas = client.known is not None and bool(client.known.replicas)
        if not has_replicas or self._bytes + ride.size > MAX_RIDING_BYTES:
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
