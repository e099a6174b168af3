"""Thawed: cold messages in memory, for decisions on windows that lag behind the disk.

A decision reads at once, and an object store does not. So a message missing here is noted, and no decision is made on
it. `broker.ports.thawing` fetches it, and the decision is made again.

A page has everything that the tier has of a queue between two offsets; read through a filter, it has that filter's
messages alone. The pages longest unused go first, within a bound in bytes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from entrepot.broker.cold.reads import ColdReads
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position

MAX_BYTES: Final = 64 << 20
"""Bytes of the messages of all pages at most."""
MESSAGE_BYTES: Final = 512
"""Bytes of a message besides its body, estimated."""
MAX_STARTS: Final = 4096
"""Most starts kept."""
Item: TypeAlias = StoredMessage | CorruptedError
Start: TypeAlias = Position | int
"""Start of a group: a position, or the first message after an offset of the log."""


class GoneError(CorruptedError):
    """A message that no reader will ever see again: progress passes it."""


class Missed(NamedTuple):
    """A decision's missing input: messages of a queue from an offset on (`most`; 0: a page), or a start's offset."""

    queue: ConsumeQueue
    offset: int
    wanted: FilterExpression | None = None
    start: Start | None = None
    most: int = 0


class NotThawedError(Exception):
    """A decision needs its missing input first. It has changed nothing."""

    def __init__(self, missed: list[Missed]) -> None:
        super().__init__("cold messages are missing")
        self.missed = missed


@dataclass(eq=False, slots=True)
class Page:
    """The messages from `first` up to `end`. An offset without one is gone, or not wanted."""

    first: int
    end: int
    items: dict[int, Item]
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        bodies = [len(item.body) for item in self.items.values() if isinstance(item, StoredMessage)]
        self.bytes = sum(bodies) + MESSAGE_BYTES * (len(self.items) + 1)

    def next_there(self, offset: int) -> int:
        """Return the first offset from one on that has a message; else the page's end."""
        return min((at for at in self.items if at >= offset), default=self.end)


Key: TypeAlias = tuple[ConsumeQueue, FilterExpression | None]


class Thawed:
    """The thawed pages and starts of one broker. `tier`: set where there is one."""

    def __init__(self) -> None:
        self.tier: ColdReads | None = None
        self.missed: list[Missed] = []
        self.wished: list[Missed] = []
        """Messages that the next decisions will probably miss, worth fetching in advance."""
        self._pages: dict[Key, list[Page]] = {}
        self._used: OrderedDict[Page, Key] = OrderedDict()
        self._starts: dict[tuple[ConsumeQueue, Start], int] = {}
        self._bytes = 0

    # -- bounds --------------------------------------------------------------------------------------------------

    def least(self, queue: ConsumeQueue) -> int:
        """Return the first readable offset; 0 while it is not known."""
        if self.tier is None or not queue.min_offset:
            return queue.min_offset
        return self.tier.min_offset(queue)

    def earliest(self, queue: ConsumeQueue) -> int:
        """Return the first readable offset. Raises UNAVAILABLE while it is not known."""
        if self.tier is not None and (refusal := self.tier.pending(queue)) is not None:
            raise refusal
        return self.least(queue)

    def offset_of(self, queue: ConsumeQueue, start: Start) -> int | None:
        """Return the offset of a cold start; None where the disk has it. Raises NotThawedError, and UNAVAILABLE while
        it is not known."""
        if self.earliest(queue) >= queue.min_offset:
            return None
        found = self._starts.get((queue, start))
        if found is None:
            raise NotThawedError([Missed(queue, 0, start=start)])
        return found if found < queue.min_offset else None

    # -- pages ---------------------------------------------------------------------------------------------------

    def page(self, queue: ConsumeQueue, offset: int, wanted: FilterExpression | None = None) -> Page | None:
        """Return the page with an offset; None, and a note of it, if it is not here."""
        found = self._find((queue, wanted), offset)
        if found is None:
            self.missed.append(Missed(queue, offset, wanted))
            return None
        self._used.move_to_end(found)
        is_half_read = 2 * (offset - found.first) >= found.end - found.first
        if is_half_read and found.end < queue.min_offset:
            following = Missed(queue, found.end, wanted)
            if not self.has(following):
                self.wished.append(following)
        return found

    def item(self, queue: ConsumeQueue, offset: int) -> Item:
        """Return the message at an offset, of a page read through any filter. Raises NotThawedError."""
        found = self._find((queue, None), offset)
        if found is None:
            pages = (self._find(key, offset) for key in self._pages if key[0] is queue)
            found = next((page for page in pages if page is not None and offset in page.items), None)
        if found is None:
            raise NotThawedError([Missed(queue, offset)])
        return found.items.get(offset) or GoneError(f"message {offset} of topic {queue.topic!r} is gone")

    def lacks(self, queue: ConsumeQueue, offsets: Sequence[int]) -> list[Missed]:
        """Return what is missing of messages that are needed themselves."""
        cold = [offset for offset in offsets if offset < queue.min_offset]
        return [Missed(queue, each, most=1) for each in cold if self._find((queue, None), each) is None]

    def has(self, missed: Missed) -> bool:
        """True if a missing input has come meanwhile."""
        if missed.start is not None:
            return (missed.queue, missed.start) in self._starts
        return self._find((missed.queue, missed.wanted), missed.offset) is not None

    def _find(self, key: Key, offset: int) -> Page | None:
        pages = self._pages.get(key, ())
        at = bisect_right(pages, offset, key=_first) - 1
        return pages[at] if at >= 0 and offset < pages[at].end else None

    def put(self, missed: Missed, items: dict[int, Item], end: int) -> None:
        """Add a page of missing messages, up to an offset."""
        key = missed.queue, missed.wanted
        page = Page(missed.offset, end, items)
        insort(self._pages.setdefault(key, []), page, key=_first)
        self._used[page] = key
        self._bytes += page.bytes
        while self._bytes > MAX_BYTES and len(self._used) > 1:
            self._drop(*self._used.popitem(last=False))

    def put_start(self, queue: ConsumeQueue, start: Start, offset: int) -> None:
        """Add the offset of a missing start."""
        while len(self._starts) >= MAX_STARTS:
            del self._starts[next(iter(self._starts))]
        self._starts[queue, start] = offset

    def _drop(self, page: Page, key: Key) -> None:
        self._bytes -= page.bytes
        self._pages[key].remove(page)
        if not self._pages[key]:
            del self._pages[key]

    def take_missed(self) -> list[Missed]:
        """Take all misses noted since the last call, each once."""
        found, self.missed = self.missed, []
        return found

    def take_wished(self) -> list[Missed]:
        """Take the misses expected next, each once."""
        found, self.wished = self.wished, []
        return found


def _first(page: Page) -> int:
    return page.first
