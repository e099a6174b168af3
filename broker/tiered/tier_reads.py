"""TierReads: cold messages as the broker's ports read them, of the loaded tables, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from entrepot.broker.cold.reads import ColdFound, ColdPage, ColdQuery, may_be_cold, merged
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.settings.tier import ReadPolicy
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.tiered.holes import Holes
from entrepot.broker.tiered.loaded_tables import LoadedTables
from entrepot.broker.tiered.read_threads import ReadThreads
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.tiering import Hole
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.records import ENTRY, encode_run

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic

SETTLE_SECONDS, LOOK_SECONDS = 3.0, 0.02
"""Time after a start for which questions wait for a table to be loaded, and the pause between two looks."""
_NOTHING: Final = np.empty(0, ENTRY)


class TierReads:
    """A broker's `ColdReads`.  `problem`: why messages of a topic cannot be read, or empty; `is_hopeless`: their table
    is not loaded soon."""

    def __init__(
        self,
        policy: ReadPolicy,
        engine: StorageEngine,
        registry: Registry,
        tables: LoadedTables,
        threads: ReadThreads,
        holes: Holes,
        *,
        problem: Callable[[str], str],
        is_hopeless: Callable[[str], bool],
    ) -> None:
        self._policy, self._engine, self._registry = policy, engine, registry
        self._tables, self._threads, self._holes = tables, threads, holes
        self._problem, self._is_hopeless = problem, is_hopeless
        self._loop = asyncio.get_running_loop()
        self._settled_at = self._loop.time() + SETTLE_SECONDS

    def pending(self, queue: ConsumeQueue) -> EntrepotError | None:
        if self._policy is ReadPolicy.DISABLED or not queue.min_offset:
            return None
        topic = self._registry.topics.get(queue.topic)
        if topic is None or not may_be_cold(self._registry, topic) or self._tables.of(topic) is not None:
            return None
        return self._not_known(queue.topic)

    async def settle(self, topic: str) -> None:
        found = self._registry.topics.get(topic)
        while found is not None and self._tables.of(found) is None and not self._is_hopeless(topic):
            if self._loop.time() > self._settled_at:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def min_offset(self, queue: ConsumeQueue) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset if self.pending(queue) is None else 0
        bounds = cold.bounds(queue.queue_id)
        if bounds is None or bounds.first == bounds.next_offset:
            return queue.min_offset
        return min(bounds.first, queue.min_offset)

    def hot_from(self, queue: ConsumeQueue) -> int:
        cold = self._cold_of(queue) if self._policy is ReadPolicy.FORCE else None
        bounds = None if cold is None else cold.bounds(queue.queue_id)
        return queue.min_offset if bounds is None else max(queue.min_offset, bounds.next_offset)

    async def read(self, queue: ConsumeQueue, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        cold = self._cold_of(queue)
        if cold is None:
            raise self._not_known(queue.topic)
        hole = self._holes.from_offset(queue, cold, first)
        if hole is not None and hole.first <= first:
            return ColdPage([], self._holes.step_over(queue, first, hole))
        page: ColdPage = await self._threads.run(cold.read, queue.queue_id, first, most, wanted)
        end = queue.visible_offset if hole is None else min(queue.visible_offset, hole.first)
        if page.next_offset <= end:
            return page
        return ColdPage([each for each in page.messages if each.queue_offset < end], end)  # it goes on elsewhere

    async def run(self, queue: ConsumeQueue, first: int, to_offset: int, limits: tuple[int, int]) -> bytes:
        cold = self._cold_of(queue)
        if cold is None:
            raise self._not_known(queue.topic)
        bounds = self.min_offset(queue), queue.visible_offset
        hole = self._holes.from_offset(queue, cold, first)
        if hole is not None and hole.first <= first:
            behind = self._holes.step_over(queue, first, Hole(hole.first, min(hole.end, to_offset)))
            return encode_run(_NOTHING, b"", (behind, *bounds))
        end = min(to_offset, queue.visible_offset if hole is None else hole.first)
        found: bytes = await self._threads.run(cold.run, queue.queue_id, first, end, bounds, limits)
        return found

    async def since(self, queue: ConsumeQueue, time_ms: int) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset
        offset: int = await self._threads.run(cold.since, queue.queue_id, time_ms)
        return min(self._holes.behind(queue, cold, offset), queue.visible_offset)

    async def bytes_between(self, queue: ConsumeQueue, first: int, end: int) -> int:
        cold = self._cold_of(queue)
        return 0 if cold is None else await self._threads.run(cold.bytes_between, queue.queue_id, first, end)

    async def behind(self, queue: ConsumeQueue, commit_log_offset: int) -> int:
        cold = self._cold_of(queue)
        if cold is None:
            return queue.min_offset
        offset: int = await self._threads.run(cold.behind, queue.queue_id, commit_log_offset)
        return self._holes.behind(queue, cold, offset)

    async def search(self, query: ColdQuery) -> ColdFound:
        if self._policy is ReadPolicy.DISABLED:
            return ColdFound([], None)
        names = [query.topic] if query.topic else list(self._registry.topics)
        parts: list[ColdFound] = []
        for topic in [self._registry.topics[name] for name in names if name in self._registry.topics]:
            queues = self._engine.dispatcher.first_queues(topic.name, topic.queues)
            below = {queue.queue_id: queue.min_offset for queue in queues if queue.min_offset}
            if not below or not may_be_cold(self._registry, topic) or self._is_of_another_log(topic, query):
                continue
            if (cold := self._tables.of(topic)) is None:
                raise self._not_known(topic.name)
            part: ColdFound = await self._threads.run(cold.search, query, below)
            for message in part.messages:
                message.topic = topic.name  # a row has the place in its table's topic, which may be a further one
            parts.append(part)
        return merged(parts, query.limit)

    def _is_of_another_log(self, topic: Topic, query: ColdQuery) -> bool:
        """True where a query by places in the log meets rows with places of another log."""
        origin = self._registry.origin_of(topic.name)
        return origin is not None and (query.place is not None or (origin.is_attached and not query.topic))

    def _cold_of(self, queue: ConsumeQueue) -> ColdTopic | None:
        """Return the cold part of a queue's topic; None where it is not known, or not to be read."""
        if self._policy is ReadPolicy.DISABLED:
            return None
        topic = self._registry.topics.get(queue.topic)
        return None if topic is None else self._tables.of(topic)

    def _not_known(self, topic: str) -> EntrepotError:
        problem, text = self._problem(topic), f"the cold messages of topic {topic!r} cannot be read yet"
        return EntrepotError(Code.UNAVAILABLE, f"{text}: {problem}" if problem else text)
