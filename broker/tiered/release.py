"""Release: the offset up to which the disk may let go of a tiered topic's messages.

Invariant: nothing of a tiered topic leaves the disk before it is in the table, and in the durable mark of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from entrepot.broker.cold.reads import is_tiered
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.tiered.marks import TableMarks
from entrepot.domain.background import background
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.tiering import Hole
from entrepot.domain.topic import Topic

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic
    from entrepot.broker.tiered.source import Progress

log = structlog.get_logger(__name__)


class Release:
    """The bounds of retention. `root`: path of a topic's table. `cold`, `progress`, `marks`: knowledge of tables."""

    def __init__(
        self,
        settings: TierSettings,
        engine: StorageEngine,
        registry: Registry,
        root: Callable[[Topic], str],
        cold: Mapping[str, ColdTopic],
        progress: Mapping[str, Progress],
        marks: TableMarks,
    ) -> None:
        self._engine, self._registry, self._root = engine, registry, root
        self._cold, self._progress, self._marks = cold, progress, marks
        self._giving_up: dict[str, dict[int, Hole]] = {}
        self._is_noting = False
        self._first_queue, self._max_kept_bytes = first_queue(settings.number), settings.max_kept_bytes

    def kept_from(self, queue: ConsumeQueue) -> int | None:
        """Return the offset of a queue from which only this disk has its messages; None if the tier does not matter."""
        topic = self._registry.topics.get(queue.topic)
        if topic is None or not is_tiered(topic):
            return None
        root = self._root(topic)
        cold = self._cold.get(root)
        bounds = None if cold is None else cold.bounds(queue.queue_id)
        end = queue.min_offset
        if bounds is not None and bounds.next_offset <= queue.visible_offset:  # else it is of another history
            end = min(bounds.next_offset, self._marks.end(root, self._first_queue + queue.queue_id))
        return max(end, self._given_up_to(topic, root, queue, end))

    def _given_up_to(self, topic: Topic, root: str, queue: ConsumeQueue, end: int) -> int:
        """Return the offset before which retention goes on without the tier: the topic is stuck, and would keep more of
        the log than the settings allow. `end`: before it the table has all."""
        told = self._progress.get(root)
        if not self._max_kept_bytes or told is None or not told.is_stuck:
            return 0
        first = queue.first_at_or_after(self._engine.commit_log.durable_offset - self._max_kept_bytes)
        known = self._marks.given_up(root, queue.queue_id)
        if first > max(end, 0 if known is None else known.end):
            log.error("the disk no longer waits for the store", seldom=f"given up {topic.name}", topic=topic.name)
            self._give_up(root, queue.queue_id, Hole(end if known is None else min(known.first, end), first))
        return 0 if known is None else known.end

    def _give_up(self, root: str, queue_id: int, hole: Hole) -> None:
        """Note what is given up, before the disk lets go of it: a table that begins later has its hole from here."""
        self._giving_up.setdefault(root, {})[queue_id] = hole
        if not self._is_noting:
            self._is_noting = True
            background().start("given up messages", self._note_given_up())

    async def _note_given_up(self) -> None:
        try:
            while self._giving_up:
                root, holes = self._giving_up.popitem()
                await self._marks.note_given_up(root, holes)
        finally:
            self._is_noting = False
