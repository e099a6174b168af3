"""Entries are visible as far as the watermark says, whether anybody follows their queue or not; who follows is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store import consume_queue
from entrepot.broker.store.consume_queue import ConsumeQueue
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.simulated_store import SimulatedStore, World

TOPICS = ("a", "b", "c")
QUEUES = 2
WORDS = ["append", "append", "append", "begin", "finish", "answer", "follow", "drop", "slice", "reopen"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "append", "begin", "finish", "answer", "follow", "drop", "slice", "reopen"]
        ),
        st.sampled_from(TOPICS),
        st.integers(0, QUEUES - 1),
        st.integers(1, 5),
    ),
    max_size=40,
)


class Life:
    """A store, and what is expected of it: places of the records of each queue, and who is to be told."""

    def __init__(self) -> None:
        self.disk, self.world = SimulatedDisk(), World()
        self.store = SimulatedStore(self.disk, self.world, deferred=True)
        self.followed: set[ConsumeQueue] = set()
        self.seen: dict[ConsumeQueue, int] = {}

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        if topic not in self.store.registry.topics:
            self.store.put_topic(topic, QUEUES)
        return self.store.queue(topic, queue_id)

    def take(self, what: str, topic: str, queue_id: int, count: int) -> None:
        store = self.store
        if what == "append":
            self.queue(topic, queue_id)
            store.append(topic, queue_id, count)
        elif what == "begin":
            store.begin_sync()
        elif what == "finish" and store.engine.syncing_to is not None:
            self.told(store.engine.finish_sync())
        elif what == "answer":
            self.told(store.engine.sync_now())
        elif what == "follow":
            queue = self.queue(topic, queue_id)
            store.engine.dispatcher.follow(queue)
            if queue not in self.followed:
                self.followed.add(queue)
                self.seen[queue] = queue.visible_offset
        elif what == "drop":
            store.drop_topic(topic)
            gone = {queue for queue in self.followed if queue.topic == topic}
            self.followed -= gone
        elif what == "slice":
            self.told(store.engine.sync_now())
            store.checkpoint_slice()
        elif what == "reopen":
            store.close()
            self.store = SimulatedStore(self.disk, self.world, deferred=True)
            self.followed.clear()

    def told(self, grown: list[ConsumeQueue]) -> None:
        """Each queue that is followed and has grown, and no other."""
        expected = {queue for queue in self.followed if queue.visible_offset > self.seen[queue]}
        assert {queue for queue in grown if queue in self.followed} == expected
        self.seen |= {queue: queue.visible_offset for queue in self.followed}

    def check(self) -> None:
        log = self.store.engine.commit_log
        for queue in self.store.engine.dispatcher.queues.values():
            entries = queue.claimed_entries(queue.min_offset, queue.max_offset - queue.min_offset)
            durable = sum(offset < log.durable_offset for offset, _, _ in entries)
            assert queue.visible_offset == queue.min_offset + durable
            assert len(queue.entries(queue.min_offset, 1000)) == durable


@given(STEPS)
def test_what_is_visible_is_what_lies_before_the_watermark(steps: list[tuple[str, str, int, int]]):
    life = Life()
    for step in steps:
        life.take(*step)
        life.check()


def test_queues_that_nobody_follows_go_to_their_files(monkeypatch: pytest.MonkeyPatch):
    """Recovery reads much more than memory holds: what is large goes to its file as soon as it may."""
    life = Life()
    queue = life.queue("a", 0)
    for _ in range(30):
        life.take("append", "a", 0, 5)
    life.store.answer()
    assert not queue.is_followed and queue.flushed_entries == 0
    monkeypatch.setattr(consume_queue, "FLUSH_BYTES", 20 * 10)
    again = SimulatedStore(life.disk.copy(), life.world)
    assert again.queue("a", 0).flushed_entries >= 100
