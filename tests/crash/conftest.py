"""Small sizes, so that short histories meet everything: rows with entries, queue files, and the way from one to the
other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.store import consume_queue


@pytest.fixture(autouse=True, scope="session")
def short_tails() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "ROW_TAIL_BYTES", 3 * consume_queue.ENTRY_SIZE)
        yield
