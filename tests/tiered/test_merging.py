"""Small segments become one: the messages, runs and digests stay, for readers of the new version and of the old."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.tiered import merging
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.cutting import DAY_MS
from entrepot.broker.tiered.delta_log import ConflictError
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.domain.message import StoredMessage
from tests.support.clock import ManualClock
from tests.support.memory_objects import MemoryObjects
from tests.support.seed import seeded
from tests.support.tier_rows import rows_of

ROOT = root_of("t", "store", 7)


class World:
    """A table with many small segments of two queues, over two days."""

    def __init__(self, chance: Random, segments: int) -> None:
        self.clock = ManualClock(10 * DAY_MS + DAY_MS // 2)
        self.objects = MemoryObjects(self.clock)
        self.messages: dict[int, list[StoredMessage]] = {0: [], 1: []}
        self.table = self.opened()
        for _ in range(segments):
            self.upload({queue: chance.randint(0, 4) for queue in (0, 1)})
            self.clock.advance(DAY_MS // segments)

    def opened(self) -> TopicTable:
        table = TopicTable(self.objects, ROOT, self.clock, Random(len(self.messages[0])))
        assert table.open(create=True)
        return table

    def upload(self, counts: dict[int, int]) -> None:
        some: list[StoredMessage] = []
        for queue, count in counts.items():
            for _ in range(count):
                at = len(self.messages[queue])
                values = {"queue_id": queue, "message_id": b"%d/%d" % (queue, at), "queue_offset": at}
                message = StoredMessage("t", b"%d" % at, **values, store_time_ms=self.clock.now_ms())  # type: ignore[arg-type]
                self.messages[queue].append(message)
                some.append(message)
        ends = {queue: len(self.messages[queue]) for queue, count in counts.items() if count}
        if some:
            self.table.upload(rows_of(some), {queue: self.table.progress(queue) for queue in ends}, ends)

    def read(self, table: TopicTable) -> dict[int, list[StoredMessage]]:
        cold = ColdTopic(table, SegmentReader(self.objects), 0)
        found: dict[int, list[StoredMessage]] = {0: [], 1: []}
        for queue, messages in found.items():
            while len(messages) < len(self.messages[queue]):
                messages += cold.read(queue, len(messages), 100).messages
        return found


def test_everything_is_read_before_and_after() -> None:
    world = World(seeded(), 40)
    old = world.opened()
    before = len(old.snapshot.files)
    merged = 0
    while count := merging.merge(world.table, world.objects):
        merged += count
        assert world.read(world.table) == world.messages
    assert merged > 20 and len(world.table.snapshot.files) < before // 3
    days = {path.partition("/")[0] for path in world.table.snapshot.files}
    assert len(days) == 2, "days stay apart"
    assert world.read(old) == world.messages, "who has the old version goes on with it"
    world.upload({0: 3, 1: 1})
    assert world.read(world.opened()) == world.messages


def test_of_two_who_merge_one_is_refused() -> None:
    world = World(seeded(), 20)
    other = world.opened()
    assert merging.merge(world.table, world.objects)
    with pytest.raises(ConflictError):
        merging.merge(other, world.objects)
    assert world.read(world.opened()) == world.messages


def test_large_ones_and_few_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(seeded(), merging.LEAST_SEGMENTS - 1)
    assert merging.merge(world.table, world.objects) == 0
    world = World(seeded(), 30)
    monkeypatch.setattr(merging, "SMALL_BYTES", 1)
    assert merging.merge(world.table, world.objects) == 0


def test_a_segment_with_other_messages_is_not_merged() -> None:
    """Its bytes are another's: the digests tell."""
    world = World(seeded(), 30)
    paths = [f"{ROOT}/{path}" for path in merging._chosen(world.table)]
    one = paths[0]
    other = next(path for path in paths[1:] if world.objects.get(path) != world.objects.get(one))
    data = world.objects.get(other)
    world.objects.delete([one])
    world.objects.put_new(one, data)
    with pytest.raises(TierError):
        merging.merge(world.table, world.objects)
