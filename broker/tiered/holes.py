"""Holes: messages of a tiered topic that left the disk before they were uploaded.

They are lost: the tier was off meanwhile, `max_kept_bytes` was reached, or a table was accepted that has less. A table
has its holes as runs without rows; one that is being made lies between its end and the disk's beginning. Nobody steps
over a hole without a word: reads are refused there, or go on after it and say so (`tier.missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from entrepot.broker.settings.tier import Missing
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.broker_of_queue import first_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.tiering import MAX_HOLES, Hole, hole_from

if TYPE_CHECKING:
    from entrepot.broker.tiered.cold import ColdTopic

MOST_SHOWN: Final = 4
"""Most holes in a text."""
log = structlog.get_logger(__name__)


def behind_table(queue: ConsumeQueue, cold: ColdTopic, given_up: Hole | None = None) -> Hole | None:
    """Return the hole of a queue between the table's end and the disk's beginning, if any. Without a table of the queue
    only what was `given_up` is known."""
    bounds = cold.bounds(queue.queue_id)
    if bounds is None and given_up is not None and queue.min_offset <= given_up.end:
        first = given_up.first
    else:
        first = queue.min_offset if bounds is None else bounds.next_offset
    return Hole(first, queue.min_offset) if first < queue.min_offset else None


def holes_of(queue: ConsumeQueue, cold: ColdTopic, last: Hole | None) -> tuple[Hole, ...]:
    """Return the holes of a queue, in order; `last`: the one after its table."""
    found = cold.holes(queue.queue_id)
    return found if last is None else (*found, last)


def let_go(queues: Iterable[ConsumeQueue], cold: ColdTopic | None) -> dict[int, Hole]:
    """Return what the disk has let go of, as far as a table had it; all, where that is not known."""
    found = {}
    for queue in queues:
        bounds = None if cold is None else cold.bounds(queue.queue_id)
        first = 0 if bounds is None else bounds.first
        if first < queue.min_offset:
            found[queue.queue_id] = Hole(first, queue.min_offset)
    return found


def shown(missing: int, holes: Sequence[tuple[int, int, int]]) -> str:
    """Return the problem of a topic that misses messages. `holes`: with their queues."""
    if not missing:
        return ""
    where = ", ".join(f"queue {queue}: {first} to {end}" for queue, first, end in holes[:MOST_SHOWN])
    more = ", and others" if len(holes) > MOST_SHOWN else ""
    places = f" ({where}{more})" if where else ""
    return f"{missing} messages are missing{places}: they left the disk before they were uploaded"


def missing_of(
    queues: Sequence[ConsumeQueue],
    cold: ColdTopic | None,
    told: int,
    given_up: Callable[[int], Hole | None],
    number: int,
) -> tuple[int, tuple[tuple[int, int, int], ...]]:
    """Return how many messages of a broker's queues are missing, and the holes with the world's queues, at most
    `MAX_HOLES`. `told`: those within the table, by its uploader; `number`: of the broker."""
    if cold is None:
        return told, ()
    count, base = cold.missing, first_queue(number)
    found: list[tuple[int, int, int]] = []
    for queue in queues:
        last = behind_table(queue, cold, given_up(queue.queue_id))
        count += 0 if last is None else last.end - last.first
        found += [(base + queue.queue_id, *hole) for hole in holes_of(queue, cold, last)]
    # what was told may be of a later version of the table, in which a hole after this one is within
    return max(told, count), tuple(found[:MAX_HOLES])


class Holes:
    """The holes as readers meet them. `skipped`: messages stepped over since the start."""

    def __init__(self, missing: Missing) -> None:
        self._missing = missing
        self.skipped = 0

    def from_offset(self, queue: ConsumeQueue, cold: ColdTopic, offset: int) -> Hole | None:
        """Return the first hole of a queue that has an offset or lies after it."""
        return hole_from(holes_of(queue, cold, behind_table(queue, cold)), offset)

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
