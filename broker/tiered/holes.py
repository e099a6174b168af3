"""Holes: messages of a tiered topic that left the disk before they were uploaded.

They are lost: the tier was off meanwhile, `max_kept_bytes` was reached, or a table was accepted that has less. A table
has its holes as runs without rows; one that is being made lies between its end and the disk's beginning. Nobody steps
over a hole without a word: reads are refused there, or go on behind it and say so (`tier.missing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.tiered.settings import Missing
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.shard import first_queue
from entrepot.domain.tiering import MAX_HOLES, Hole, hole_from

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic

MOST_SHOWN: Final = 4
"""Most holes in a text."""
log = structlog.get_logger(__name__)


def holes_of(queue: ConsumeQueue, cold: ColdTopic) -> tuple[Hole, ...]:
    """Return the holes of a queue, in order."""
    bounds = cold.bounds(queue.queue_id)
    found = cold.holes(queue.queue_id)
    if bounds is not None and bounds.next_offset < queue.min_offset:
        return (*found, Hole(bounds.next_offset, queue.min_offset))
    return found


def shown(missing: int, holes: Sequence[tuple[int, int, int]]) -> str:
    """Return the problem of a topic that misses messages. `holes`: with their queues."""
    if not missing:
        return ""
    where = ", ".join(f"queue {queue}: {first} to {end}" for queue, first, end in holes[:MOST_SHOWN])
    more = ", and others" if len(holes) > MOST_SHOWN else ""
    places = f" ({where}{more})" if where else ""
    return f"{missing} messages are missing{places}: they left the disk before they were uploaded"


def missing_behind(queues: Sequence[ConsumeQueue], cold: ColdTopic) -> int:
    """Return how many messages of queues are missing between the table's end and the disk's beginning."""
    ends = [(queue.min_offset, cold.bounds(queue.queue_id)) for queue in queues]
    return sum(max(0, first - bounds.next_offset) for first, bounds in ends if bounds is not None)


def named(queues: Sequence[ConsumeQueue], cold: ColdTopic, number: int) -> tuple[tuple[int, int, int], ...]:
    """Return the holes of a broker's queues with their world's numbers, at most `MAX_HOLES`."""
    base = first_queue(number)
    found = ((base + queue.queue_id, *hole) for queue in queues for hole in holes_of(queue, cold))
    return tuple(islice(found, MAX_HOLES))


class Holes:
    """The holes as readers meet them. `skipped`: messages stepped over since the start."""

    def __init__(self, missing: Missing) -> None:
        self._missing = missing
        self.skipped = 0

    def from_offset(self, queue: ConsumeQueue, cold: ColdTopic, offset: int) -> Hole | None:
        """Return the first hole of a queue that has an offset or lies behind it."""
        return hole_from(holes_of(queue, cold), offset)

    def behind(self, queue: ConsumeQueue, cold: ColdTopic, offset: int) -> int:
        """Return an offset, or the end of the hole that has it."""
        hole = self.from_offset(queue, cold, offset)
        return hole.end if hole is not None and hole.first <= offset else offset

    def step_over(self, queue: ConsumeQueue, first: int, hole: Hole) -> int:
        """Return the end of a hole that a reader meets at an offset. Raises COLD_CORRUPTED where that is refused."""
        text = f"messages {first} to {hole.end} of queue {queue.queue_id} of topic {queue.topic!r} are missing"
        if self._missing is Missing.REFUSE:
            raise EntrepotError(
                Code.COLD_CORRUPTED, f"{text}: they left the disk before they were uploaded (tier.missing)"
            )
        self.skipped += hole.end - first
        log.warning("a reader steps over missing messages", seldom=f"hole {queue.topic} {hole}", problem=text)
        return hole.end
