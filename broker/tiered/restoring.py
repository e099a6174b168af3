"""Tables that become topics: their discovery, their extent, and their takeover.

Every call blocks, and raises TierError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from entrepot.broker.metadata.origin import Starts
from entrepot.broker.tiered.fence import Fence
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.table import TopicTable, folder_of
from entrepot.broker.tiered.verification import roots
from entrepot.domain.broker_of_queue import broker_of_queue, local_queue
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code

LIVE_SECONDS: Final = 60.0
"""Age of the last commit below which a table may have a living broker, in seconds."""
MAX_NAMED: Final = 20
"""Most tables named in a refusal."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table found. `number`: of the broker of its queues. `ends`: the table's end, by queue of that broker."""

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
    """Return the path of a topic's table; `topic` None: of any topic's. `wanted`: the named one. `is_meant`: a test
    that prefers some of several."""
    found = roots(objects, "" if topic is None else f"{folder_of(topic)}/")
    if wanted is not None:
        if wanted.strip("/") in found:
            return wanted.strip("/")
        raise _missing(objects, f"there is no table {wanted!r}" + (f" of topic {topic!r}" if topic else ""), found)
    if not found:
        raise _missing(objects, "there is no table" + (f" of topic {topic!r}" if topic else ""), found)
    if len(found) > 1:
        found = [root for root in found if is_meant(root)] or found
    if len(found) > 1:
        of_topic = f" of topic {topic!r}" if topic else ""
        raise TierError(f"there are {len(found)} tables{of_topic}, name one: {_named(found)}", Code.BAD_REQUEST)
    return found[0]


def _missing(objects: ObjectStore, text: str, found: list[str]) -> TierError:
    """Name the tables that were looked at: those of other topics are not for whoever restores this one."""
    there = f"; there is {_named(found)}" if found else ""
    return TierError(f"{text} in {objects.url}{there}", Code.TOPIC_NOT_FOUND)


def _named(found: list[str]) -> str:
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(islice(found, MAX_NAMED)) + more


def look_at(table: TopicTable) -> FoundTable:
    """Return the contents of a table."""
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
    """True if a broker's queues are in a table."""
    return table.open() and any(broker_of_queue(queue_id) == number for queue_id in table.progressing())


def take_over(table: TopicTable, fence: Fence, number: int, clock: Clock, *, is_forced: bool) -> FoundTable:
    """Take over a lost broker's table; its former owner is shut out. `number`: of the broker that is to have it.
    `is_forced`: even though it was written a moment ago."""
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
