"""Small sizes, so that short histories meet everything: rows with entries, queue files, the way from one to the other,
and checkpoints of many slices, which leave rows of very different ages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.broker.rows import changed_rows
from entrepot.broker.store import consume_queue, queue_entries
from entrepot.broker.store.carried_entries import ENTRY_SIZE

ENTRIES_PER_FILE = 7


@pytest.fixture(autouse=True, scope="module")
def small_sizes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "ROW_TAIL_BYTES", 3 * ENTRY_SIZE)
        patch.setattr(consume_queue, "FLUSH_BYTES", 8 * ENTRY_SIZE)
        patch.setattr(consume_queue, "ENTRIES_PER_FILE", ENTRIES_PER_FILE)
        patch.setattr(queue_entries, "ENTRIES_PER_FILE", ENTRIES_PER_FILE)
        patch.setattr(queue_entries, "FILE_SIZE", ENTRIES_PER_FILE * ENTRY_SIZE)
        patch.setattr(changed_rows, "MAX_SLICE_ROWS", 2)
        yield
