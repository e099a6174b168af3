"""Stores that say they have an object, and have another: no row is committed that nobody could read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.message import StoredMessage
from tests.support.clock import ManualClock
from tests.support.tiered.memory_objects import MemoryObjects
from tests.support.tiered.rows import rows_of


class Lying(MemoryObjects):
    """Keeps something else of segments than it was given."""

    def __init__(self, clock: ManualClock, changed: Callable[[bytes], bytes]) -> None:
        super().__init__(clock)
        self._changed = changed

    def put_new(self, path: str, data: bytes) -> bool:
        return super().put_new(path, self._changed(data) if path.endswith(".parquet") else data)


@pytest.mark.parametrize(
    "changed",
    [lambda data: data[:-1], lambda data: data[: len(data) // 2], lambda data: data[:-8] + bytes(8), lambda _: b""],
    ids=["cut by a byte", "cut in half", "another end", "empty"],
)
def test_a_segment_that_is_not_what_was_stored_is_not_committed(changed: Callable[[bytes], bytes]) -> None:
    clock = ManualClock()
    objects = Lying(clock, changed)
    table = TopicTable(objects, "factory/a-0", clock, Random(1))
    table.open(create=True)
    messages = [StoredMessage("factory", b"%d" % at, "factory/a", 3, queue_offset=at) for at in range(10)]
    with pytest.raises(TierError):
        table.upload(rows_of(messages), {3: None}, {3: 10})
    other = TopicTable(objects, "factory/a-0", clock, Random(2))
    other.open()
    assert (other.progress(3), list(other.snapshot.files)) == (None, [])
