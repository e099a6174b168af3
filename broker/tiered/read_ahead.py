"""ReadAhead: a reader of consecutive cold messages finds the next ones in memory.

Each reader of a queue has a width: the number of row groups read before it asks for them. It grows by one with each
that is used, and is halved where one went unused, for want of room. A reader is known by the offset at which it goes
on; one that jumps is a new one. Row groups that all readers nearby have passed go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import structlog

from entrepot.domain.errors import EntrepotError

MAX_WIDTH: Final = 8
"""Most row groups read ahead for one reader."""
MAX_READERS: Final = 1024
"""Most readers known."""
log = structlog.get_logger(__name__)


class LoadedGroup(NamedTuple):
    """A row group in memory: it has the queue's offsets from `first` to before `end`."""

    first: int
    end: int
    key: tuple[str, int]


class GroupSource(Protocol):
    """The row groups of a topic, and the memory that they share with others."""

    @property
    def wasted(self) -> int:
        """Row groups read ahead that went unused so far."""

    def load(self, queue_id: int, offset: int) -> LoadedGroup | None:
        """Load the row group with an offset into memory; None after the last one. Blocks. Raises TierError."""

    def passed(self, key: tuple[str, int]) -> None:
        """Release a row group that nobody near needs any more."""


@dataclass(eq=False, slots=True)
class _Reader:
    width: int = 0
    loaded: deque[LoadedGroup] = field(default_factory=deque)
    is_loading: bool = False
    wasted: int = 0


class ReadAhead:
    """The reading ahead of one topic. `begin`: starts work in another thread, unless all are busy."""

    def __init__(self, source: GroupSource, begin: Callable[[Callable[[], None]], bool]) -> None:
        self._source, self._begin = source, begin
        self._lock = threading.Lock()
        self._readers: OrderedDict[tuple[int, int], _Reader] = OrderedDict()

    def was_read(self, queue_id: int, first: int, end: int) -> None:
        """Note that a reader of a queue asked for an offset, and goes on at another."""
        with self._lock:
            reader = self._readers.pop((queue_id, first), None)
            if reader is None:
                reader = _Reader(wasted=self._source.wasted)
            else:
                self._adapt(reader, queue_id, end)
            self._readers[queue_id, end] = reader
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)
            if reader.is_loading or len(reader.loaded) >= reader.width:
                return
            reader.is_loading = True
        if not self._begin(lambda: self._load(reader, queue_id, end)):
            reader.is_loading = False

    def _adapt(self, reader: _Reader, queue_id: int, end: int) -> None:
        """Adapt the width to the use of earlier row groups."""
        reader.width = max(reader.width, 1)
        while reader.loaded and reader.loaded[0].end <= end:
            done = reader.loaded.popleft()
            reader.width = min(reader.width + 1, MAX_WIDTH)
            if not any(queue == queue_id and done.first <= offset < done.end for queue, offset in self._readers):
                self._source.passed(done.key)
        if self._source.wasted > reader.wasted:
            reader.wasted = self._source.wasted
            reader.width //= 2

    def _load(self, reader: _Reader, queue_id: int, at: int) -> None:
        try:
            while True:
                with self._lock:
                    offset = reader.loaded[-1].end if reader.loaded else at
                    if len(reader.loaded) >= reader.width:
                        return
                loaded = self._source.load(queue_id, offset)
                if loaded is None:
                    return
                with self._lock:
                    reader.loaded.append(loaded)
        except EntrepotError as error:
            log.info("reading ahead failed", seldom="tier", problem=error.message)  # the reader gets the error itself
        finally:
            reader.is_loading = False
