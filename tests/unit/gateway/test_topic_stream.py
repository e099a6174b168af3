"""A reader of a topic: it reads on while it keeps up, and costs a bounded buffer where it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Tail
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.nouns import topic_stream as module
from entrepot.gateway.operations.nouns.topic_stream import TopicStream
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import append, bodies
from tests.support.waiting import PATIENCE_SECONDS


class TailedStore(MemoryStore):
    """Counts the tails that were opened, and those that are."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.own = self.messages
        self.messages = replaced(self.own, tail=self.tail)
        self.opened = self.open = 0

    def tail(self, topic: str, queue_id: int, start: int, take: Callable[[list[StoredMessage]], None]) -> Tail:
        self.opened += 1
        self.open += 1
        tail: Any = self.own.tail(topic, queue_id, start, take)

        def close() -> None:
            self.open -= 1
            tail.close()

        return replaced(tail, close=close)


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TailedStore]:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 100)
    made = TailedStore()
    await made.topology.put_topic(Topic("t", queues=1))
    yield made
    await made.close()


async def read(stream: TopicStream, count: int) -> list[str]:
    found: list[StoredMessage] = []
    while len(found) < count:
        assert await stream.wait(PATIENCE_SECONDS)
        found += stream.take(count - len(found))
    return bodies(found)


async def test_a_reader_that_keeps_up_reads_on(store: TailedStore) -> None:
    stream = TopicStream(store, "t", {0: 0})
    for number in range(50):
        await append(store, "t", f"{number:030}")
        assert await read(stream, 1) == [f"{number:030}"]
    assert (store.opened, store.open, stream.places) == (1, 1, {0: 50})
    stream.close()
    assert (store.open, stream.is_over) == (0, True)


async def test_a_slow_reader_is_left_alone_until_it_has_caught_up(store: TailedStore) -> None:
    stream = TopicStream(store, "t", {0: 0})
    for number in range(20):
        await append(store, "t", f"{number:030}")
    assert await stream.wait(PATIENCE_SECONDS)
    assert store.open == 0, "much waits"
    assert len(stream._waiting) < 20
    assert await read(stream, 20) == [f"{number:030}" for number in range(20)]
    assert stream.places == {0: 20}
    await store.topology.delete_topic("t")
    assert (stream.is_over, store.open) == (True, 0)
