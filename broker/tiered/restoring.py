"""Tables that become topics: which ones are there, up to where they go, and how one is taken over.

Every call blocks, and raises TierError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from broker.metadata.origin import Starts
from broker.tiered.fence import Fence
from broker.tiered.objects import ObjectStore, TierError
from broker.tiered.table import TopicTable, folder_of
from broker.tiered.verification import roots
from domain.clock import Clock
from domain.errors import Code
from domain.shard import broker_of_queue, local_queue

LIVE_SECONDS: Final = 60.0
"""A table that had a commit so shortly ago may have a broker that is alive."""
MAX_NAMED: Final = 20
"""Named limit: of tables that a refusal names."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """`number`: of the broker whose queues are in it.  `ends`: by queue of that broker, how far the table goes."""

    root: str
    number: int
    ends: Starts

    @property
    def queues(self) -> int:
        """Number of queues of a topic that has all of these."""
        return max(queue_id for queue_id, _ in self.ends) + 1


def table_of(
    objects: ObjectStore, topic: str | None, wanted: str | None, is_meant: Callable[[str], bool] = lambda root: True
) -> str:
    """The path of a topic's table; `topic` None: of any topic's.  `wanted`: the one that is named.  `is_meant`: of
    several, those that it says are taken first."""
    found = roots(objects, "" if topic is None else f"{folder_of(topic)}/")
    if wanted is not None:
        if wanted.strip("/") in found:
            return wanted.strip("/")
        raise _missing(objects, f"there is no table {wanted!r}" + (f" of topic {topic!r}" if topic else ""), found)
    if not found:
        raise _missing(objects, "there is no table" + (f" of topic {topic!r}" if topic else ""), [])
    if len(found) > 1:
        found = [root for root in found if is_meant(root)] or found
    if len(found) > 1:
        of_topic = f" of topic {topic!r}" if topic else ""
        raise TierError(f"there are {len(found)} tables{of_topic}, name one: {_named(found)}", Code.BAD_REQUEST)
    return found[0]


def _missing(objects: ObjectStore, text: str, found: list[str]) -> TierError:
    there = _named(found or roots(objects))
    return TierError(f"{text} in {objects.url}; there is {there or 'none at all'}", Code.TOPIC_NOT_FOUND)


def _named(found: list[str]) -> str:
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(islice(found, MAX_NAMED)) + more


def look_at(table: TopicTable) -> FoundTable:
    """Contents of a table."""
    if not table.open():
        raise TierError(f"there is no table {table.root}", Code.TOPIC_NOT_FOUND)
    queues = table.progressing()
    if not queues:
        raise TierError(f"the table {table.root} has no messages", Code.PRECONDITION_FAILED)
    numbers = sorted({broker_of_queue(queue_id) for queue_id in queues})
    if len(numbers) > 1:
        named = ", ".join(map(str, numbers))
        raise TierError(f"the table {table.root} has queues of several brokers: {named}", Code.MESSAGE_CORRUPTED)
    ends = sorted((local_queue(queue_id), table.bounds(queue_id).next_offset) for queue_id in queues)
    return FoundTable(table.root, numbers[0], ends)


def is_of(table: TopicTable, number: int) -> bool:
    """True where queues of a broker are in a table."""
    return table.open() and any(broker_of_queue(queue_id) == number for queue_id in table.progressing())


def take_over(table: TopicTable, fence: Fence, number: int, clock: Clock, *, is_forced: bool) -> FoundTable:
    """Have a lost broker's table from now on; whoever had it is shut out.

    `number`: of the broker that is to have it.  `is_forced`: though it was written a moment ago.
    """
    found = look_at(table)
    if found.number != number:
        raise TierError(
            f"the table {table.root} is that of broker number {found.number}, and this one is number {number}: "
            f"restore it on a broker with broker.number = {found.number}",
            Code.PRECONDITION_FAILED,
        )
    written_ms = table.written_ms()
    age = (clock.now_ms() - written_ms) / 1000
    if age < LIVE_SECONDS and not fence.is_own(table.snapshot) and not is_forced:
        raise TierError(
            f"the table {table.root} was written {max(age, 0):.0f} s ago: is its broker alive? End it for good and "
            f"try again after {LIVE_SECONDS:.0f} s, or say --force: then its next upload is refused",
            Code.PRECONDITION_FAILED,
        )
    table.take_over(fence)
    return found
