"""Positions of groups: resets, and the beginning of a group at a time, which RocketMQ does not know.

A broker begins a new group at its first message or at its end, when the group asks first.  For a group that begins at a
time, each queue without an offset of the group is reset to that time before the first pop from here.  So is one that
begins at the end, to the time at which it was made here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from entrepot.domain.broker_of_queue import broker_number, first_queue
from entrepot.domain.definitions.consumer_group import LATEST, ConsumerGroup, parse_start
from entrepot.domain.names import dead_letter_group
from entrepot.domain.position import Position, PositionKind
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.routes import Route, RouteQueue


class Positions:
    """Positions of groups in queues."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster, self._reading = cluster, reading
        most = cluster.settings.max_remembered
        self._begun: Remembered[tuple[str, str], asyncio.Task[None]] = Remembered(most)
        self._made: Remembered[str, int] = Remembered(most)
        self._taken: Remembered[tuple[str, str, int], int] = Remembered(most)
        """The offset behind what was delivered through this gateway: brokers tell some seconds later."""

    def made(self, group: str) -> None:
        """Note that a group was made now."""
        self._made.setdefault(group, self._cluster.clock.now_ms() + 1)  # behind what is stored now

    def gone(self, group: str) -> None:
        """Forget a group that was deleted."""
        self._made.pop(group, None)
        for key in [key for key in self._begun if key[0] == group]:
            del self._begun[key]
        for place in [place for place in self._taken if place[0] == group]:
            del self._taken[place]

    def taken(self, group: str, topic: str, broker: str, ends: Mapping[int, int]) -> None:
        """Note the offsets behind what a pop brought, by queue of its broker."""
        first = first_queue(broker_number(broker))
        for local_id, end in ends.items():
            place = group, topic, first + local_id
            self._taken[place] = max(self._taken.get(place, 0), end)
            self._taken.move_to_end(place)

    async def head(self, group: str, topic: str, queue: RouteQueue) -> int:
        """Return the offset at which a pop of a group goes on, as far as it is known here."""
        bounds, committed = await asyncio.gather(
            self._reading.bounds_of(topic, queue), self.committed(group, topic, queue)
        )
        known = (committed or 0, self._taken.get((group, topic, queue.queue_id), 0))
        return max([bounds.min_offset, *(each for each in known if each <= bounds.max_offset)])

    async def reset(self, group: str, topic: str, queue: RouteQueue, offset: int) -> None:
        """Have a group go on from an offset.  Its consumers meet the reset at their next request."""
        self._taken.pop((group, topic, queue.queue_id), None)
        fields = {**self._names(group, topic, queue), "offset": offset, "timestamp": 0, "isForce": True}
        await self._cluster.ask(queue.address, codes.RESET_OFFSET, fields, what=f"reset group {group!r}")

    async def begin(self, group: ConsumerGroup, route: Route) -> None:
        """Have a group begin where its definition says, at the first call for a topic."""
        start_ms = self._made.get(group.name) if group.start == LATEST else parse_start(group.start)
        if start_ms is None or dead_letter_group(route.topic) is not None:
            return
        key = group.name, route.topic
        begun = self._begun.get(key)
        if begun is None:
            begun = self._begun[key] = self._cluster.spawn(self._begin(group.name, route, start_ms))
        try:
            await asyncio.shield(begun)
        except Exception:
            self._begun.pop(key, None)  # the next pop tries again
            raise

    async def _begin(self, group: str, route: Route, start_ms: int) -> None:
        position = Position(PositionKind.TIME, start_ms)

        async def begin(queue: RouteQueue) -> None:
            if await self.committed(group, route.topic, queue) is None:
                offset = await self._reading.offset_of(route.topic, queue, position)
                await self.reset(group, route.topic, queue, offset)

        await asyncio.gather(*map(begin, route.queues.values()))

    async def committed(self, group: str, topic: str, queue: RouteQueue) -> int | None:
        """Return the committed offset of a group in a queue, or None."""
        fields = {
            "consumerGroup": self._cluster.names.resource(group),
            "topic": self._cluster.names.resource(topic),
            "queueId": queue.local_id,
            "setZeroIfNotFound": False,
            "bname": queue.broker,
        }
        good = (SUCCESS, codes.NOT_FOUND)
        answer = await self._cluster.ask(
            queue.address, codes.QUERY_OFFSET, fields, what="tell the offset of a group", good=good
        )
        return int(answer.fields.get("offset", "0")) if answer.code == SUCCESS else None

    async def commit(self, group: str, topic: str, queue: RouteQueue, offset: int) -> None:
        """Commit an offset of a group, forwards or backwards, as a consumer of its own does.  Raises
        CONSUMER_GROUP_NOT_FOUND."""
        fields = {
            "consumerGroup": self._cluster.names.resource(group),
            "topic": self._cluster.names.resource(topic),
            "queueId": queue.local_id,
            "commitOffset": offset,
            "bname": queue.broker,
        }
        await self._cluster.ask(queue.address, codes.COMMIT_OFFSET, fields, what=f"commit an offset of group {group!r}")

    def _names(self, group: str, topic: str, queue: RouteQueue) -> dict[str, object]:
        names = self._cluster.names
        return {
            "topic": names.resource(topic),
            "group": names.resource(group),
            "queueId": queue.local_id,
            "bname": queue.broker,
        }
