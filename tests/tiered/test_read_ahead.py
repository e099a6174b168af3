"""Reading ahead: wider for who reads on, narrower where memory is short, nothing for who jumps about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.read_ahead import MAX_WIDTH, LoadedGroup, ReadAhead
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.table import TopicTable
from tests.support.clock import ManualClock
from tests.support.tiered.cold_topics import COUNT, filled, opened, root

ROWS = 100
"""Messages of a row group."""


class Groups:
    """Implements `GroupSource` with numbers."""

    def __init__(self, end: int = 10_000) -> None:
        self.wasted = 0
        self.loaded: list[int] = []
        self.gone: list[int] = []
        self._end = end

    def load(self, queue_id: int, offset: int) -> LoadedGroup | None:
        if offset >= self._end:
            return None
        number = offset // ROWS
        self.loaded.append(number)
        return LoadedGroup(number * ROWS, (number + 1) * ROWS, ("file", number))

    def passed(self, key: tuple[str, int]) -> None:
        self.gone.append(key[1])


def at_once(act: Callable[[], None]) -> bool:
    act()
    return True


def read_on(ahead: ReadAhead, first: int, count: int, queue_id: int = 0, page: int = 50) -> None:
    for at in range(first, first + count, page):
        ahead.was_read(queue_id, at, at + page)


def test_it_grows_by_one_with_each_group_that_is_used() -> None:
    groups = Groups()
    ahead = ReadAhead(groups, at_once)
    ahead.was_read(0, 0, 50)
    assert groups.loaded == [], "one read says nothing"
    ahead.was_read(0, 50, 100)
    assert groups.loaded == [1]
    read_on(ahead, 100, 100)
    assert groups.loaded == [1, 2, 3], "two, once the first was used"
    read_on(ahead, 200, 1500)
    assert max(groups.loaded) == 16 + MAX_WIDTH, "it does not grow without end"
    assert groups.loaded == sorted(set(groups.loaded)), "each is asked for once"
    assert groups.gone == list(range(1, 17)), "what was read goes first"


def test_it_is_halved_where_what_was_read_had_to_go() -> None:
    groups = Groups()
    ahead = ReadAhead(groups, at_once)
    read_on(ahead, 0, 1000)
    far = max(groups.loaded)
    groups.wasted += 1
    read_on(ahead, 1000, 100)
    assert max(groups.loaded) == far, "fewer are read ahead now"


def test_who_jumps_about_has_nothing_read_ahead() -> None:
    groups = Groups()
    ahead = ReadAhead(groups, at_once)
    for at in (500, 100, 900, 300):
        ahead.was_read(0, at, at + 50)
    assert groups.loaded == []


def test_a_group_stays_for_another_reader_who_is_in_it() -> None:
    groups = Groups()
    ahead = ReadAhead(groups, at_once)
    ahead.was_read(0, 100, 120)
    ahead.was_read(1, 100, 130)
    read_on(ahead, 0, 400)
    assert groups.gone == [2, 3], "somebody goes on at 120 of this queue"


def test_busy_threads_and_a_store_that_fails_are_no_harm() -> None:
    class Failing(Groups):
        def load(self, queue_id: int, offset: int) -> LoadedGroup | None:
            raise TierError("away")

    for ahead in (ReadAhead(Groups(), lambda act: False), ReadAhead(Failing(), at_once)):
        read_on(ahead, 0, 1000)


def test_it_ends_at_the_end() -> None:
    groups = Groups(300)
    read_on(ReadAhead(groups, at_once), 0, 300)
    assert groups.loaded == [1, 2]


async def test_who_reads_a_cold_topic_finds_the_next_messages_in_memory(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, segment_bytes=64 << 10) as store:
        await filled(store, clock)
        objects = FolderStore(tmp_path / "cold")
        where: list[bool] = []
        is_ahead = False

        def begin(act: Callable[[], None]) -> bool:
            nonlocal is_ahead
            is_ahead = True
            act()
            is_ahead = False
            return True

        class Watched(SegmentReader):
            def _read(self, path: str, size: int, number: int, names: Sequence[str] | None) -> object:
                where.append(is_ahead)
                return super()._read(path, size, number, names)

        cold = ColdTopic(TopicTable(objects, root(store), clock, Random(1)), Watched(objects), 0, begin)
        cold.refresh()
        offset = 0
        while offset < COUNT:
            offset = cold.read(0, offset, 20).next_offset
        assert len(where) > 10 and where.count(False) <= 2, "the others were read before somebody waited for them"
