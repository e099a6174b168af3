"""Retention: what is beyond it cannot be read, segments go, and the log alone is still enough for all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from entrepot.broker.metadata import registry as changes
from entrepot.broker.metadata.key_values import encode_write
from entrepot.broker.metadata.origin import TopicOrigin
from entrepot.broker.retention.cleaner import Cleaner
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.record_trailer import Origin
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import StorageFullError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import SystemProperty
from entrepot.domain.topic import Cleanup, Topic
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.cases import cases
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.simulated_store import ROOT, SMALL, SimulatedStore, World
from tests.support.stores.steps import message

HOUR_MS = 3_600_000


def cleaner_of(store: SimulatedStore, retention_seconds: int = 7200) -> Cleaner:
    opened = store.opened

    def is_saved(offset: int) -> bool:
        store.checkpoint()
        return store.engine.checkpointer.position >= offset

    return Cleaner(
        store.engine,
        store.registry,
        opened.progress,
        opened.restatements,
        retention_seconds,
        store.world.clock.now_ms,
        is_saved,
    )


def clean(store: SimulatedStore, **options: int) -> int:
    """One round; how many segments went."""
    cleaner = cleaner_of(store, **options)
    for _ in cleaner.round():
        store.answer()
    store.answer()
    return cleaner.deleted_segments


def filled(store: SimulatedStore, topic: str, segments: int, queue_id: int = 0) -> None:
    """Append until the log is so many segments longer."""
    end = store.engine.end + segments * SMALL.segment_size_bytes
    while store.engine.end < end:
        store.append_all(store.world.new_messages(topic, queue_id, 5, 1000))
        store.answer()


def derived_from_the_log_alone(store: SimulatedStore) -> SimulatedStore:
    disk = store.disk.copy().restart()
    for path in disk.files():
        if not path.startswith(f"{ROOT}/commitlog/") and not path.endswith("store.json"):
            disk.delete(path)
    return SimulatedStore(disk, store.world)


def facts(store: SimulatedStore) -> dict[str, object]:
    """What retention must not change, however it is derived."""
    window_of = store.opened.progress.windows
    return {
        "topics": {
            t.name: (t, store.registry.topic_since(t.name), store.registry.origin_of(t.name))
            for t in store.registry.topics.values()
        },
        "groups": {g.name: (g, store.registry.group_since(g.name)) for g in store.registry.groups.values()},
        "namespaces": set(store.registry.namespaces),
        "ends": {key: queue.max_offset for key, queue in store.engine.dispatcher.queues.items()},
        "key-values": store.opened.key_values.scan("", "", 1000),
        "windows": {
            (key, queue_id): (w.base, w.frontier, w.unsettled, w.generation)
            for key, windows in window_of.items()
            for queue_id, w in windows.items()
        },
        "timers": store.engine.pending.timers.count,
        "halves": {key: (half.due_ms, half.checks) for key, half in store.engine.pending.halves.waiting.items()},
    }


def new_store() -> SimulatedStore:
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    store.answer()
    return store


def test_messages_go_when_their_time_is_over():
    store = new_store()
    filled(store, "t", 2)
    old = store.queue("t").max_offset
    store.world.clock.advance(3 * HOUR_MS)
    filled(store, "t", 1)
    assert clean(store) >= 1
    queue = store.queue("t")
    assert old - 80 <= queue.min_offset <= old < queue.max_offset
    assert store.engine.commit_log.min_offset >= SMALL.segment_size_bytes
    assert min(map(int, store.disk.names(f"{ROOT}/commitlog"))) == store.engine.commit_log.min_offset
    assert len(store.engine.read(queue, queue.min_offset, 1000)) == queue.max_offset - queue.min_offset


def test_a_topic_has_a_time_of_its_own():
    store = new_store()
    store._record(changes.put_topic(Topic("long", queues=1, retention_seconds=10**6)))
    store.append("long")
    filled(store, "t", 2)
    store.world.clock.advance(3 * HOUR_MS)
    store.append("t")
    store.answer()
    assert clean(store) == 0, "the first segment has a message that is to be kept"
    assert store.queue("long").min_offset == 0
    assert store.queue("t").min_offset > 0


def test_a_topic_has_a_size_of_its_own():
    store = new_store()
    store._record(changes.put_topic(Topic("t", queues=1, retention_bytes=20_000)))
    filled(store, "t", 3)
    assert clean(store) >= 2
    queue = store.queue("t")
    kept = sum(size for _, size, _ in queue.entries(queue.min_offset, 1000))
    assert 18_000 < kept <= 20_000


def test_what_is_to_be_consumed_stays_until_it_is():
    store = new_store()
    store._record(changes.put_topic(Topic("t", queues=1, cleanup=Cleanup.CONSUMED)))
    filled(store, "t", 2)
    store.world.clock.advance(1000 * HOUR_MS)
    assert clean(store) == 0
    assert store.queue("t").min_offset == 0
    store.world.held.clear()
    count = store.queue("t").max_offset
    store.pop("t", count=count)
    store.answer()
    assert not any(store.acknowledge(store.take_held(count - 3)))
    store.answer()
    clean(store)
    assert store.queue("t").min_offset == count - 3


def test_the_slowest_group_says_what_is_consumed():
    store = new_store()
    store._record(changes.put_topic(Topic("t", queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("t", count=6)
    store.answer()
    for group, count in (("slow", 2), ("fast", 5)):
        assert len(store.pop("t", group, count)) == count
        store.answer()
        assert not any(store.acknowledge(store.take_held(count)))
        store.answer()
    clean(store)
    assert store.queue("t").min_offset == 2


def test_a_group_goes_on_behind_what_was_lost():
    store = new_store()
    filled(store, "t", 2)
    store.pop("t", count=3)
    store.answer()
    store.world.clock.advance(3 * HOUR_MS)
    filled(store, "t", 1)
    clean(store)
    least = store.queue("t").min_offset
    assert least > 3
    [again] = store.pop("t", count=1)
    assert again.message.queue_offset == least
    assert store.opened.progress.windows["g", "t"][0].base == least


def everything(store: SimulatedStore) -> None:
    """A store that knows a bit of everything, all of it said in the first segment."""
    store._record(changes.put_namespace("ns"))
    store._record(changes.put_topic(Topic("ns/u", queues=2)))
    store._record(changes.put_topic(Topic("idle", queues=2)))
    store._record(
        changes.begin_topic(Topic("back", queues=3), TopicOrigin("back/lost-7"), [(0, 300_070), (1, 5), (2, 0)])
    )
    store.put_group(ConsumerGroup("early", max_attempts=7))
    store.append("idle", 1, 3)
    store.append("back", 1, 2)
    for key in ("a", "b", "c"):
        change = KeyValueChange(key, key.encode())
        store.engine.append_record(RecordKind.KEY_VALUES, encode_write([change]), store.now_ms)
    store.answer()
    store.pop("idle", count=2)
    [half, timed] = store.world.new_messages("t", 0, 2, 30)
    store.engine.append_half(
        [replace(half, system={SystemProperty.TRANSACTION_ID: "x"})], store._queue_for, store.now_ms
    )
    at = store.now_ms + 100 * HOUR_MS
    store.append_all([replace(timed, system={SystemProperty.DELIVER_AT_MS: at})])
    store.answer()
    store.acknowledge(store.take_held(1))
    store.answer()


def test_the_log_alone_is_enough_after_segments_went():
    store = new_store()
    everything(store)
    filled(store, "t", 3)
    store.world.clock.advance(3 * HOUR_MS)
    filled(store, "t", 1)
    before = facts(store)
    assert clean(store) >= 3
    assert facts(store) == before
    again = derived_from_the_log_alone(store)
    assert again.engine.report.rebuilt_queues == 0
    assert facts(again) == before
    ends = [again.queue("back", queue_id).max_offset for queue_id in range(3)]
    assert ends == [300_070, 7, 0], "queues that began within go on where they were"
    again.append("back", 0, 1)
    again.answer()
    assert again.engine.read(again.queue("back"), 300_070, 1), "and take messages"
    queue = again.queue("t")
    assert len(again.engine.read(queue, queue.min_offset, 1000)) == queue.max_offset - queue.min_offset
    [(deliver_at, offset)] = again.engine.pending.timers.after((0, 0))
    assert offset >= again.engine.commit_log.min_offset
    message = again.engine.commit_log.message_at(offset, frozenset({RecordKind.TIMED}))
    assert message is not None
    again.engine.append_kept(message, Origin(offset, deliver_at), again.now_ms)
    assert again.engine.pending.timers.count == 0


def crashed(
    prepared: Callable[[], SimulatedStore], work: Callable[[SimulatedStore], object], seed: int
) -> Iterator[tuple[int, SimulatedStore]]:
    """Crash at each sixth step of some work, from a seed on: the step, and the store as it comes back."""
    whole = prepared()
    start = whole.disk.steps
    work(whole)
    for crash_at in range(start + 1 + seed, whole.disk.steps, 6):
        store = prepared()
        store.disk.crash_at = crash_at
        with pytest.raises(Crash):
            work(store)
        yield crash_at, SimulatedStore(store.disk.crash(Random(f"{seed} {crash_at}")), store.world)


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_step_of_cleaning(seed: int):
    """Whatever is left: nothing is unreadable that should be read, and the log alone is enough."""

    def prepared() -> SimulatedStore:
        store = new_store()
        everything(store)
        filled(store, "t", 2)
        store.checkpoint()
        store.world.clock.advance(3 * HOUR_MS)
        filled(store, "t", 1)
        return store

    expected = facts(prepared())
    for crash_at, again in crashed(prepared, clean, seed):
        for recovered in (again, derived_from_the_log_alone(again)):
            assert facts(recovered) == expected, (seed, crash_at)
            for queue in recovered.engine.dispatcher.queues.values():
                found = recovered.engine.read(queue, queue.min_offset, 10_000)
                assert not any(isinstance(item, Exception) for item in found), (seed, crash_at)
                assert len(found) == queue.max_offset - queue.min_offset
        clean(again)
        assert facts(again) == expected


# -- compaction --------------------------------------------------------------------------------------------------------


def keyed(store: SimulatedStore, key: str, body: bytes, topic: str = "c") -> None:
    [message] = store.world.new_messages(topic, 0, 1, 20)
    store.append_all([replace(message, keys=(key,), body=body)])
    store.answer()


def values(store: SimulatedStore, topic: str = "c") -> dict[str, bytes]:
    """What a reader from the minimum on ends up with."""
    queue = store.queue(topic)
    found: dict[str, bytes] = {}
    for item in store.engine.read(queue, queue.min_offset, 100_000):
        assert not isinstance(item, Exception)
        found[item.keys[0]] = item.body
    return {key: body for key, body in found.items() if body}


def compacted_store() -> SimulatedStore:
    store = new_store()
    store._record(changes.put_topic(Topic("c", queues=1, cleanup=Cleanup.COMPACT)))
    store.answer()
    return store


@cases("seed", range(10))
def test_the_last_message_of_each_key_stays(seed: int):
    rng, store, expected = Random(seed), compacted_store(), dict[str, bytes]()
    for number in range(400):
        key = f"k{int(rng.expovariate(0.3))}"
        body = b"" if rng.random() < 0.1 else b"%d" % number
        keyed(store, key, body)
        expected[key] = body
        if rng.random() < 0.05:
            clean(store)
            assert values(store) == {key: body for key, body in expected.items() if body}, seed
        if rng.random() < 0.02:
            store = SimulatedStore(store.disk.crash(Random(number)), store.world)
    for _ in range(6):  # each round halves it
        clean(store)
    queue = store.queue("c")
    assert queue.max_offset - queue.min_offset <= 2 * len(expected) + 16, "the rest is gone"
    alive = {key: body for key, body in expected.items() if body}
    assert values(store) == alive
    assert values(derived_from_the_log_alone(store)) == alive


def test_a_last_message_does_not_keep_the_log():
    """It moves on, so that the segment it lies in can go."""
    store = compacted_store()
    keyed(store, "old", b"value")
    for _ in range(3):
        filled(store, "t", 3)
        store.world.clock.advance(3 * HOUR_MS)
        clean(store)
    assert store.engine.commit_log.min_offset >= 3 * SMALL.segment_size_bytes
    assert values(store) == {"old": b"value"}
    assert values(derived_from_the_log_alone(store)) == {"old": b"value"}


def filled_keys(store: SimulatedStore, count: int = 20) -> None:
    for number in range(count):
        keyed(store, "busy", b"%d" % number)


def test_what_is_replaced_while_a_queue_is_compacted_stays_replaced():
    """A message that was taken and is not durable yet replaces what is older, too."""
    store = compacted_store()
    keyed(store, "k", b"old")
    filled_keys(store)
    store.append_all([replace(message("c", b"new"), sub_topic="", keys=("k",))])
    clean(store)
    assert values(store)["k"] == b"new"


def test_what_is_replaced_between_two_steps_of_compaction_stays_replaced():
    store = compacted_store()
    keyed(store, "k", b"old")
    filled_keys(store)
    steps = cleaner_of(store).round()
    replaced = 0
    for _ in steps:
        if replaced < 3:
            replaced += 1
            keyed(store, "k", b"%d" % replaced)
        store.answer()
    store.answer()
    assert values(store)["k"] == b"3"


def test_what_finds_no_room_while_a_queue_is_compacted_is_not_lost(monkeypatch: pytest.MonkeyPatch):
    store = compacted_store()
    keyed(store, "k", b"value")
    filled_keys(store)
    cleaner = cleaner_of(store)

    def rounds() -> None:
        for _ in cleaner.round():
            store.answer()
        store.answer()

    with monkeypatch.context() as full:
        full.setattr(store.engine, "append_messages", lambda *arguments: [StorageFullError()])
        rounds()
    assert values(store)["k"] == b"value"
    rounds()
    assert values(store)["k"] == b"value"


def test_a_compacted_queue_keeps_what_was_sent_to_another_topic():
    """A message of which it is a further queue is stored again in it, and nowhere else."""
    store = compacted_store()
    store.append_all([replace(message("t", b"value"), sub_topic="", keys=("k",), further_queues=(("c", 0),))])
    store.answer()
    before = store.queue("t").max_offset
    filled_keys(store)
    clean(store)
    assert values(store)["k"] == b"value"
    assert store.queue("t").max_offset == before


def test_an_emergency_takes_nothing_from_the_segment_that_is_written():
    """It could not be deleted: nothing would be gained."""
    store = new_store()
    store.append("t", count=5)
    store.answer()
    cleaner = cleaner_of(store)
    cleaner.is_emergency = True
    for _ in cleaner.round():
        store.answer()
    assert (store.queue("t").min_offset, cleaner.deleted_segments) == (0, 0)


def test_what_retention_took_away_is_no_backlog():
    store = new_store()
    store.append("t", count=5)
    store.answer()
    store.pop("t", count=1)
    store.answer()
    store.world.clock.advance(3 * HOUR_MS)
    clean(store)
    assert store.queue("t").min_offset == 5
    assert store.consumption.backlog(store.registry.topics["t"]) == 0


def test_what_retention_took_away_is_not_buried():
    """A last attempt whose message cannot be read any more is over, and keeps no other from the dead letters."""
    store = new_store()
    store.put_group(replace(store.consumption.settings.group_defaults, name="g", max_attempts=1))
    store.append("t", count=5)
    store.answer()
    store.pop("t", count=2)
    store.answer()
    store.world.clock.advance(3 * HOUR_MS)
    store.queue("t").drop_before(1)
    bury_exhausted(store.consumption, store.now_ms)
    store.answer()
    assert store.opened.progress.windows["g", "t"][0].base == 2
    assert store.queue("%DLQ%g").max_offset == 1


# -- a log without its beginning ---------------------------------------------------------------------------------------


def opened_again(store: SimulatedStore, *gone: str) -> SimulatedStore:
    """A new start, without some files (by the ends of their paths)."""
    disk = store.disk.copy().restart()
    for path in [path for path in disk.files() if path.endswith(gone)] if gone else []:
        disk.delete(path)
    return SimulatedStore(disk, store.world)


def first_segment(store: SimulatedStore) -> str:
    return f"{store.engine.commit_log.min_offset:020d}"


@pytest.mark.parametrize("state", ["with its state", "without its state"])
@pytest.mark.parametrize("cleaned", [False, True])
def test_what_retention_did_not_remove_is_missed(cleaned: bool, state: str):
    store = new_store()
    filled(store, "t", 3)
    if cleaned:
        store.world.clock.advance(3 * HOUR_MS)
        filled(store, "t", 1)
        assert clean(store)
        filled(store, "t", 2)
    store.checkpoint()
    lost = ("/state.db",) if state == "without its state" else ()
    assert not opened_again(store, *lost).engine.report.damage, "what retention has removed is no damage"
    again = opened_again(store, first_segment(store), *lost)
    report = again.engine.report
    assert report.missing_first_bytes == SMALL.segment_size_bytes
    assert (report.missing_messages > 40) == (not lost)
    assert "missing" in report.damage
    assert opened_again(again).engine.report.missing_first_bytes == SMALL.segment_size_bytes, "it is told at each start"
