"""Ends: the offsets behind what brokers confirmed to this gateway.  They let it be read a moment after the confirm."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.routes import RouteQueue

END_SECONDS: Final = 5.0
"""Time in which a broker makes readable what it has confirmed."""


class _End(NamedTuple):
    """An offset, until when it counts, and the connection: a broker that comes back may have lost it, and a queue may
    be made anew."""

    offset: int
    until: float
    address: str
    turn: int


class Ends:
    """The ends of queues, each for a while."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends: Remembered[tuple[str, int], _End] = Remembered(cluster.settings.max_remembered)

    def note(self, topic: str, queue: RouteQueue, first: int, count: int) -> None:
        """Note messages that were confirmed with their first offset."""
        until, turn = asyncio.get_running_loop().time() + END_SECONDS, self._cluster.turn_at(queue.address)
        self._ends[topic, queue.queue_id] = _End(first + count, until, queue.address, turn)
        self._ends.move_to_end((topic, queue.queue_id))

    def of(self, topic: str, queue_id: int) -> int:
        """Return the offset behind what was confirmed a moment ago, or 0: it may not be readable yet."""
        found = self._ends.get((topic, queue_id))
        if found is None or asyncio.get_running_loop().time() >= found.until:
            return 0
        return found.offset if self._cluster.turn_at(found.address) == found.turn else 0

    def read(self, topic: str, queue_id: int, end: int) -> None:
        """Note that all before an offset is readable: `of` need not tell it any more."""
        if self.of(topic, queue_id) == end:
            del self._ends[topic, queue_id]
