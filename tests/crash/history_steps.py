"""A history as a list of steps, and how to play it on a store until its disk loses power."""

from __future__ import annotations

from random import Random

from tests.support.simulated_disk import Crash, SimulatedDisk
from tests.support.simulated_store import ROOT, SMALL, SimulatedStore, World

Step = tuple[str, int, int]
"""What to do, with two numbers whose meaning depends on it."""

TOPICS = ("a", "b")

SCRIPT: list[Step] = [
    ("topic", 0, 1),
    ("topic", 1, 2),
    ("append", 0, 3),
    ("answer", 0, 0),
    ("append", 2, 6),
    ("append", 1, 6),
    ("begin", 0, 0),
    ("append", 0, 5),
    ("pop", 0, 3),
    ("finish", 0, 0),
    ("answer", 0, 0),
    ("acknowledge", 2, 0),
    ("pop", 1, 5),
    ("begin", 0, 0),
    ("finish", 0, 0),
    ("checkpoint", 0, 0),
    ("append", 1, 6),
    ("pop", 0, 4),
    ("answer", 0, 0),
    ("release", 1, 0),
    ("reject", 1, 0),
    ("append", 3, 6),
    ("answer", 0, 0),
    ("expire", 0, 0),
    ("pop", 0, 9),
    ("begin checkpoint", 0, 0),
    ("answer", 0, 0),
    ("begin checkpoint", 0, 0),
    ("append", 2, 4),
    ("drop", 1, 0),
    ("answer", 0, 0),
    ("finish checkpoint", 0, 0),
    ("topic", 1, 1),
    ("append", 1, 3),
    ("acknowledge", 4, 0),
    ("answer", 0, 0),
    ("reopen", 0, 0),
    ("append", 0, 6),
    ("append", 2, 6),
    ("answer", 0, 0),
    ("pop", 0, 9),
    ("pop", 1, 9),
    ("answer", 0, 0),
    ("checkpoint", 0, 0),
    ("acknowledge", 9, 0),
    ("answer", 0, 0),
]


def perform(store: SimulatedStore, step: Step, *, deferred: bool = False) -> SimulatedStore:
    """One step; a step that cannot be done now does nothing.  Returns the store, a new one after a restart."""
    what, x, y = step
    topic = TOPICS[x % 2]
    if what == "topic":
        existing = store.registry.topics.get(topic)
        store.put_topic(topic, max(1 + y % 3, existing.queues if existing else 1))
    elif what == "drop":
        store.drop_topic(topic)
    elif what == "append":
        definition = store.registry.topics.get(topic)
        if definition is not None:
            store.append(topic, x // 2 % definition.queues, 1 + y % 7, 16 + 611 * y)
    elif what == "pop":
        if topic in store.registry.topics:
            store.pop(topic, "gh"[x // 2 % 2], 1 + y)
    elif what == "acknowledge":
        store.acknowledge(store.take_held(x))
    elif what == "reject":
        store.reject(store.take_held(x))
    elif what == "release":
        store.change(store.take_held(x), y * 1000, release=True)
    elif what == "renew":
        store.change(store.world.held[:x], y * 1000, release=False)
    elif what == "expire":
        store.world.clock.advance(11_000)
    elif what == "reopen":
        store.close()
        store = SimulatedStore(store.disk, store.world, deferred=deferred)
    else:
        calls = {
            "begin": store.begin_sync,
            "finish": store.finish_sync,
            "answer": store.answer,
            "checkpoint": store.checkpoint,
            "begin checkpoint": store.begin_checkpoint,
            "finish checkpoint": store.finish_checkpoint,
        }
        calls[what]()
    return store


class Life:
    """A world with the disks it has had.  `confirmed_end` is what recovery must reach."""

    def __init__(self, *, deferred: bool = False) -> None:
        self.disk = SimulatedDisk()
        self.world = World()
        self.deferred = deferred
        self.written = b""
        self.confirmed_end = 0
        self.store: SimulatedStore | None = None

    def open(self) -> SimulatedStore:
        self.store = SimulatedStore(self.disk, self.world, deferred=self.deferred)
        return self.store

    def play(self, steps: list[Step]) -> None:
        """Open if need be, and go on until the end or the crash."""
        try:
            store = self.store or self.open()
            for step in steps:
                self.store = store = perform(store, step, deferred=self.deferred)
        except Crash:
            pass

    def crash(self, rng: Random) -> None:
        """Lose power; remember what had been written and what of it had been confirmed."""
        log = log_of(self.disk)
        if self.store is not None:  # else it was recovering: what was written before is still what may be found
            self.written = log
            self.confirmed_end = max(self.confirmed_end, self.store.engine.confirmed_offset)
        self.store = None
        self.disk = self.disk.crash(rng)

    def check_recovered(self) -> SimulatedStore:
        """Open, and hold it to the contract."""
        store = self.store or self.open()
        end = store.engine.end
        assert end >= self.confirmed_end, "something confirmed was cut"
        assert log_of(self.disk)[:end] == self.written[:end].ljust(end, b"\0"), "not a prefix of what was written"
        report = store.check()
        assert report.is_clean, report
        return store

    def check_drained(self) -> None:
        store = self.store
        assert store is not None
        for group in ("g", "h"):
            store.drain(group)
        report = store.check(drained_by=("g", "h"))
        assert report.is_clean, report


def log_of(disk: SimulatedDisk) -> bytes:
    """The commit log's bytes as they are now, as one."""
    parts = disk.files(f"{ROOT}/commitlog/")
    return b"".join(data.ljust(SMALL.segment_size_bytes, b"\0") for data in parts.values())
