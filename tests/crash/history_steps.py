"""A history as a list of steps, and how to play it on a store until its disk loses power."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from entrepot.broker.metadata import registry as changes
from entrepot.broker.metadata.origin import TopicOrigin
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup
from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Topic
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.derived_state import check_derived
from tests.support.stores.simulated_store import ROOT, SMALL, SimulatedStore, World
from tests.support.stores.stepped_ports import done

Step = tuple[str, int, int]
"""What to do, with two numbers whose meaning depends on it."""

TOPICS = ("a", "b")
GROUPS = ("g", "h")
TAGS = ("red", "blue")
KEYS = ("k0", "k1", "path/k2")
NAMESPACES = ("n", "o")
HOLD_BACK_LIMIT = 3


def perform(store: SimulatedStore, step: Step, *, deferred: bool = False) -> SimulatedStore:
    """One step; a step that cannot be done now does nothing.  Returns the store, a new one after a restart."""
    what, x, y = step
    topic = TOPICS[x % 2]
    if what in WIDE_STEPS:
        try:
            WIDE_STEPS[what](store, x, y)
        except StoreFailedError:
            raise
        except EntrepotError:
            pass
    elif what == "topic":
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
    elif what == "together":
        if topic in store.registry.topics:
            store.decide_together(topic, x, 1 + y % 5, 16 + 311 * y)
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
        store = SimulatedStore(store.disk, store.world, deferred=deferred, hold_back_limit=store.hold_back_limit)
    else:
        calls = {
            "begin": store.begin_sync,
            "finish": store.finish_sync,
            "answer": store.answer,
            "checkpoint": store.checkpoint,
            "begin checkpoint": store.begin_checkpoint,
            "finish checkpoint": store.finish_checkpoint,
            "slice": store.checkpoint_slice,
        }
        calls[what]()
    return store


# -- what only wide histories have -----------------------------------------------------------------------------------


def _fan(store: SimulatedStore, x: int, y: int) -> None:
    """Messages with a tag, to all the queues there are of the other topic."""
    topic, other = TOPICS[x % 2], store.registry.topics.get(TOPICS[1 - x % 2])
    if topic in store.registry.topics:
        further = tuple((other.name, queue_id) for queue_id in range(other.queues)) if other else ()
        tag = TAGS[y % 2]
        store.append(
            topic, 0, 1 + y % 4, 16 + 97 * y, tag=tag, filter_hash=filter_hash(topic, tag), further_queues=further
        )


def _group(store: SimulatedStore, x: int, y: int) -> None:
    wanted = FilterExpression(FilterKind.TAG, TAGS[0]) if y % 4 == 3 else None
    start = LATEST if y % 2 else EARLIEST
    group = ConsumerGroup(GROUPS[x % 2], max_attempts=2 + y % 3, invisible_seconds=10, start=start, filter=wanted)
    done(store.ports.topology.put_group(group))


def _drop_group(store: SimulatedStore, x: int, y: int) -> None:
    done(store.ports.topology.delete_group(GROUPS[x % 2]))


def _shrink(store: SimulatedStore, x: int, y: int) -> None:
    if TOPICS[x % 2] in store.registry.topics:
        store.shrink_topic(TOPICS[x % 2], 1 + y % 2)


def _pop_tag(store: SimulatedStore, x: int, y: int) -> None:
    wanted = FilterExpression(FilterKind.TAG, TAGS[y % 2])
    store.pop(TOPICS[x % 2], GROUPS[x // 2 % 2], 1 + y, wanted=wanted)


def _drain(store: SimulatedStore, x: int, y: int) -> None:
    """Every group that reads the topic settles what it can see of it."""
    for group in GROUPS:
        if group in store.registry.groups and (group, TOPICS[x % 2]) in store.opened.progress.windows:
            store.world.clock.advance(20_000)
            found = store.pop(TOPICS[x % 2], group, 1000)
            handles = [delivery.receipt_handle for delivery in found]
            store.consumption.acknowledge(TOPICS[x % 2], group, handles, store.now_ms)
    store.answer()


def _reset(store: SimulatedStore, x: int, y: int) -> None:
    position = [EARLIEST_POSITION, LATEST_POSITION, Position(PositionKind.OFFSET, y)][y % 3]
    done(store.ports.consumption.reset_group(GROUPS[x // 2 % 2], TOPICS[x % 2], position, 0 if x > 3 else None))


def _resend(store: SimulatedStore, x: int, y: int) -> None:
    done(store.ports.consumption.resend_dead_letters(GROUPS[x % 2], [y, y + 1]))


def _bury(store: SimulatedStore, x: int, y: int) -> None:
    bury_exhausted(store.consumption, store.now_ms)


def _write(store: SimulatedStore, x: int, y: int) -> None:
    """One or two keys, some with an expectation, which may hold; some are deleted."""
    key, other = KEYS[x % 3], KEYS[(x + 1) % 3]
    found = store.opened.key_values.get(key)
    expected = (None, ABSENT, found.version if found else ABSENT, 1)[y % 4]
    store.world.count += 1
    written = [KeyValueChange(key, None if y % 3 == 2 else b"%d" % store.world.count, expected)]
    if y > 5:
        written.append(KeyValueChange(other, None if y % 2 else b"%d" % store.world.count))
    done(store.ports.key_values.write(written))


def _namespace(store: SimulatedStore, x: int, y: int) -> None:
    done(store.ports.topology.put_namespace(NAMESPACES[x % 2]))


def _restore(store: SimulatedStore, x: int, y: int) -> None:
    """A topic that has had no message, whose queues begin at offsets."""
    name = TOPICS[x % 2]
    if not any(queue.max_offset for queue in store.engine.dispatcher.queues_of(name)):
        known = store.registry.topics.get(name)
        queues = max(1 + y % 3, known.queues if known else 1)
        starts = [(queue_id, 7 * y * queue_id + y) for queue_id in range(queues)]
        store._record(changes.begin_topic(Topic(name, queues=queues), TopicOrigin(f"{name}/lost-{y}"), starts))


def _drop_namespace(store: SimulatedStore, x: int, y: int) -> None:
    done(store.ports.topology.delete_namespace(NAMESPACES[x % 2]))


WIDE_STEPS: dict[str, Callable[[SimulatedStore, int, int], None]] = {
    "fan": _fan,
    "group": _group,
    "drop group": _drop_group,
    "shrink": _shrink,
    "pop tag": _pop_tag,
    "drain": _drain,
    "reset": _reset,
    "resend": _resend,
    "bury": _bury,
    "write": _write,
    "namespace": _namespace,
    "drop namespace": _drop_namespace,
    "restore": _restore,
}


class Life:
    """A world with the disks it has had.  `confirmed_end` is what recovery must reach.

    `wide`: its histories may have all steps; what is delivered is then held to nothing but the derived state.
    """

    def __init__(self, *, deferred: bool = False, wide: bool = False) -> None:
        self.disk = SimulatedDisk()
        self.world = World()
        self.deferred = deferred
        self.wide = wide
        self.written = b""
        self.confirmed_end = 0
        self.store: SimulatedStore | None = None

    def open(self) -> SimulatedStore:
        limit = HOLD_BACK_LIMIT if self.wide else 32_768
        self.store = SimulatedStore(self.disk, self.world, deferred=self.deferred, hold_back_limit=limit)
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
        check_derived(store)
        report = store.check(deliveries=not self.wide)
        assert report.is_clean, report
        return store

    def check_drained(self) -> None:
        store = self.store
        assert store is not None
        for group in GROUPS:
            store.drain(group)
        report = store.check(drained_by=() if self.wide else GROUPS, deliveries=not self.wide)
        assert report.is_clean, report


def log_of(disk: SimulatedDisk) -> bytes:
    """The commit log's bytes as they are now, as one."""
    parts = disk.files(f"{ROOT}/commitlog/")
    return b"".join(data.ljust(SMALL.segment_size_bytes, b"\0") for data in parts.values())
