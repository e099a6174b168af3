"""Expired: pops of messages whose time is over, which RocketMQ does not know.

A broker gives whatever comes next.  So the heads of the queues are read first, and a pop asks a queue for no more
messages than are over there.  A head lies behind the offset that the broker has as committed, which it tells some
seconds late, and behind the messages that were delivered through this gateway.  A message that comes nevertheless and
lives still is given back at once: another gateway took the head meanwhile, or it came from the retry topic.  Retry
topics are not looked at: a message there is found to be over when it is delivered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from entrepot.domain.delivery import Delivery
from entrepot.domain.message import is_over
from entrepot.domain.ports import PopRequest
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.routes import Route, RouteQueue
from entrepot.store_client.rocketmq.settling import Settling

MAX_HEAD: Final = 32
"""Messages that are read of one queue for one pop."""
PopQueue = Callable[[RouteQueue, int], Awaitable[list[Delivery]]]
"""Pops so many messages of one queue."""


class Expired:
    """Finds and takes the messages whose time is over at the heads of queues."""

    def __init__(self, cluster: Cluster, reading: Reading, positions: Positions, settling: Settling) -> None:
        self._cluster, self._reading, self._positions, self._settling = cluster, reading, positions, settling

    async def take(self, request: PopRequest, route: Route, pop: PopQueue) -> list[Delivery]:
        """Return messages that are over, of each queue up to the first one that is not."""
        found: list[Delivery] = []
        for queue in route.queues.values():
            left = request.max_messages - len(found)
            if left <= 0:
                break
            if queue.has_master and (count := await self._over_at(request, queue, min(left, MAX_HEAD))):
                found += await self._sorted_out(request, await pop(queue, count))
        return found

    async def _over_at(self, request: PopRequest, queue: RouteQueue, most: int) -> int:
        """Return the number of messages at the head of a queue that are over."""
        topic = request.topic
        head = await self._positions.head(request.group, topic, queue)
        now_ms, count = self._cluster.clock.now_ms(), 0
        for message in await self._reading.read(topic, queue.queue_id, head, most):
            if not is_over(message, now_ms, request.lifetime_ms):
                break
            count += 1
        return count

    async def _sorted_out(self, request: PopRequest, popped: list[Delivery]) -> list[Delivery]:
        """Return those that are over, and give back the others."""
        now_ms = self._cluster.clock.now_ms()
        over = [each for each in popped if is_over(each.message, now_ms, request.lifetime_ms)]
        if len(over) < len(popped):
            kept = {id(each) for each in over}
            others = [each.receipt_handle for each in popped if id(each) not in kept]
            await self._settling.change_invisible_duration(request.topic, request.group, others, 0, release=True)
        return over
