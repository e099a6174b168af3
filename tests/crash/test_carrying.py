"""The last few messages of old segments are carried to the end of the log: none keeps it, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from entrepot.broker.metadata import registry as changes
from entrepot.broker.retention import carrying
from entrepot.broker.retention.cleaner import Cleaner
from entrepot.broker.store.commit_log import CommitLog
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import CorruptedError, StorageFullError
from entrepot.domain.message import StoredMessage
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Cleanup, Topic
from tests.crash.test_retention import (
    HOUR_MS,
    cleaner_of,
    crashed,
    derived_from_the_log_alone,
    facts,
    filled,
    new_store,
)
from tests.support.stores.simulated_store import SMALL, SimulatedStore
from tests.support.stores.stepped_ports import done
from tests.tiers.marks import scaled

SEGMENT = SMALL.segment_size_bytes


def run(store: SimulatedStore, cleaner: Cleaner | None = None) -> Cleaner:
    """One round."""
    cleaner = cleaner or cleaner_of(store)
    for _ in cleaner.round():
        store.answer()
    store.answer()
    return cleaner


def aged(store: SimulatedStore, segments: int = 6) -> None:
    """Let others write, and time pass: what was there is older than the store's retention, and so are they."""
    filled(store, "t", segments)
    store.world.clock.advance(3 * HOUR_MS)
    filled(store, "t", 1)


def forgotten(count: int = 5) -> SimulatedStore:
    """A store with a queue that nobody consumes any more: two messages are settled, and one is in flight."""
    store = new_store()
    store._record(changes.put_topic(Topic("q", queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("q", count=count)
    store.answer()
    store.pop("q", count=3)
    store.answer()
    assert not any(store.acknowledge(store.take_held(2)))
    store.answer()
    return store


def bodies(store: SimulatedStore, topic: str = "q", queue_id: int = 0) -> list[tuple[int, bytes, int]]:
    """All that can be read of a queue: offset, body, time."""
    queue, found = store.queue(topic, queue_id), []
    for item in store.engine.read(queue, queue.min_offset, 10_000):
        assert isinstance(item, StoredMessage), item
        found.append((item.queue_offset, item.body, item.store_time_ms))
    assert len(found) == queue.visible_offset - queue.min_offset
    return found


def recoveries(store: SimulatedStore) -> Iterator[SimulatedStore]:
    """The store as it comes back: by its rows, and by its log alone."""
    yield SimulatedStore(store.disk.copy().restart(), store.world)
    yield derived_from_the_log_alone(store)


def test_a_forgotten_message_does_not_keep_the_log():
    store = forgotten()
    expected = bodies(store)[2:]
    for _ in range(4):
        aged(store)
        before = facts(store)
        cleaner = run(store)
        assert cleaner.deleted_segments >= 5
        assert (cleaner.carrying.carried, cleaner.carrying.pins) == (3, [])
        assert store.engine.end - store.engine.commit_log.min_offset <= 4 * SEGMENT
        assert bodies(store) == expected, "with their offsets and times"
        assert facts(store) == before
        for again in recoveries(store):
            assert bodies(again) == expected
            assert facts(again) == before
    [kept] = store.world.held
    assert not any(store.acknowledge([kept])), "a delivery before it was carried is as good as ever"
    store.answer()
    assert [found.message.queue_offset for found in store.pop("q", count=9)] == [3, 4]


def test_the_queue_goes_on_in_order():
    store = forgotten()
    aged(store)
    run(store)
    store.append("q", count=3)
    store.answer()
    for again in (store, *recoveries(store)):
        assert [offset for offset, _, _ in bodies(again)] == list(range(2, 8))
        assert again.queue("q").ordered_from == 5
        assert [offset for offset, _, _ in again.queue("q").entries(3, 4)] == sorted(
            offset for offset, _, _ in again.queue("q").entries(3, 4)
        )
    again = SimulatedStore(store.disk.copy().restart(), store.world)
    again.world.clock.advance(HOUR_MS)
    assert [found.message.queue_offset for found in again.pop("q", count=9)] == list(range(2, 8))


def test_a_message_of_several_queues_is_carried_once():
    store = new_store()
    for name in ("a", "b", "c"):
        store._record(changes.put_topic(Topic(name, queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("a", count=4, further_queues=(("b", 0), ("c", 0)))
    store.answer()
    for topic, count in (("a", 4), ("c", 2)):
        store.pop(topic, count=count)
        store.answer()
        assert not any(store.acknowledge(store.take_held(count)))
        store.answer()
    aged(store)
    expected = {topic: bodies(store, topic) for topic in "bc"}
    cleaner = run(store)
    assert (cleaner.carrying.carried, cleaner.deleted_segments >= 5) == (4, True)
    for again in (store, *recoveries(store)):
        assert bodies(again, "a") == []
        assert bodies(again, "b") == expected["b"]
        assert bodies(again, "c") == expected["c"][2:]


def test_a_topic_made_anew_has_nothing_of_the_one_before():
    """Its name is in a record that another queue still needs."""
    store = new_store()
    for name in ("a", "b"):
        store._record(changes.put_topic(Topic(name, queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("a", count=4, further_queues=(("b", 0),))
    store.answer()
    store.drop_topic("a")
    store._record(changes.put_topic(Topic("a", queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("a", count=2)
    store.answer()
    aged(store)
    expected = {topic: bodies(store, topic) for topic in "ab"}
    assert run(store).deleted_segments >= 5
    for again in (store, *recoveries(store)):
        assert {topic: bodies(again, topic) for topic in "ab"} == expected


def test_long_retention_and_dead_letters_are_carried():
    store = new_store()
    store._record(changes.put_topic(Topic("long", queues=1, retention_seconds=10**6)))
    store._record(changes.put_topic(Topic("%DLQ%g", queues=1, retention_seconds=10**6)))
    store.put_group(ConsumerGroup("g"))
    store.append("long", count=3)
    store.append("t")
    store.answer()
    store.pop("t", count=1)
    store.answer()
    assert not any(store.reject(store.take_held(1)))
    store.answer()
    aged(store)
    expected = {topic: bodies(store, topic) for topic in ("long", "%DLQ%g")}
    assert [len(found) for found in expected.values()] == [3, 1]
    before = facts(store)
    assert run(store).deleted_segments >= 5
    for again in (store, *recoveries(store)):
        assert {topic: bodies(again, topic) for topic in expected} == expected
        assert facts(again) == before, "a dead letter carried forward settles nothing once more"


def test_it_is_found_once_by_its_id_key_and_time(monkeypatch: pytest.MonkeyPatch):
    store = new_store()
    store._record(changes.put_topic(Topic("q", queues=1, cleanup=Cleanup.CONSUMED)))
    store.append("q", count=3, keys=("k",))
    store.answer()
    finder = store.ports.finder
    ids = [message.message_id for message in store.stored()["q", 0]]

    def look() -> None:
        for message_id in ids:
            assert [found.message_id for found in done(finder.messages_by_id(message_id))] == [message_id]
        page = done(finder.query(MessageQuery("q", key="k", limit=10)))
        assert [found.message_id for found in page.messages] == ids[::-1]
        found, cursor = [], None
        for _ in ids:
            page = done(finder.query(MessageQuery("q", limit=1, cursor=cursor)))
            found += [each.message_id for each in page.messages]
            cursor = page.next
        assert (found, cursor) == (ids[::-1], None)

    aged(store)
    with monkeypatch.context() as kept:  # while the old records are there, too
        kept.setattr(CommitLog, "delete_first_segment", lambda log: setattr(log, "min_offset", log.first_segment_end))
        steps = cleaner_of(store).round()
        for _ in steps:
            store.answer()
            look()
    look()


# -- what is left where it is ----------------------------------------------------------------------------------------


def test_what_is_young_is_left_where_it_is():
    store = forgotten()
    filled(store, "t", 8)
    cleaner = run(store)
    assert (cleaner.carrying.carried, cleaner.deleted_segments, cleaner.carrying.pins) == (0, 0, [])


def test_what_retention_will_remove_is_not_carried():
    store = new_store()
    store.append("t")
    aged(store)
    assert run(store).carrying.carried == 0


def test_a_short_log_is_left_as_it_is():
    store = forgotten()
    aged(store, carrying.LEAST_SEGMENTS - 2)
    assert run(store).carrying.carried == 0


def test_a_log_that_is_mostly_needed_is_left_as_it_is():
    store = new_store()
    store._record(changes.put_topic(Topic("q", queues=1, cleanup=Cleanup.CONSUMED)))
    filled(store, "q", 5)
    aged(store, 3)
    cleaner = run(store)
    assert cleaner.carrying.carried == 0
    [pin] = cleaner.carrying.pins
    assert (pin.topic, pin.queue_id, pin.reason) == ("q", 0, "more than half of the log is needed")
    assert 8 * SEGMENT < pin.bytes <= store.engine.commit_log.durable_offset
    aged(store, 5)
    cleaner = run(store)
    assert cleaner.carrying.carried > 0, "with more that is not needed it pays"
    assert store.engine.end - store.engine.commit_log.min_offset <= 2 * 6 * SEGMENT + 2 * SEGMENT


def test_too_many_messages_are_left_and_told(monkeypatch: pytest.MonkeyPatch):
    store = forgotten(9)
    aged(store)
    monkeypatch.setattr(carrying, "MAX_CARRIED", 5)
    cleaner = run(store)
    assert (cleaner.carrying.carried, cleaner.deleted_segments) == (0, 0)
    assert [(pin.topic, pin.reason) for pin in cleaner.carrying.pins] == [("q", "more than 5 of them are old")]


def test_a_compacted_topic_moves_its_own():
    store = forgotten()
    store._record(changes.put_topic(Topic("c", queues=1, cleanup=Cleanup.COMPACT)))
    store.append("c", keys=("k",))
    store.answer()
    aged(store)
    for _ in range(3):
        run(store)
    assert store.engine.commit_log.min_offset >= 5 * SEGMENT
    assert len(bodies(store)) == 3


def test_a_full_disk_leaves_them(monkeypatch: pytest.MonkeyPatch):
    store = forgotten()
    expected = bodies(store)[2:]
    aged(store)
    cleaner, append, room = cleaner_of(store), CommitLog.append_carried, 1

    def full(log: CommitLog, made: bytearray, now_ms: int) -> int:
        nonlocal room
        room -= 1
        if room < 0:
            raise StorageFullError()
        return append(log, made, now_ms)

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "append_carried", full)
        run(store, cleaner)
        assert [pin.topic for pin in cleaner.carrying.pins] == ["q"]
        for again in (store, *recoveries(store)):
            assert bodies(again)[-3:] == expected
    run(store, cleaner)
    assert cleaner.deleted_segments >= 5
    for again in (store, *recoveries(store)):
        assert bodies(again) == expected


def test_an_emergency_does_not_wait_for_age():
    store = forgotten()
    expected = bodies(store)[2:]
    filled(store, "t", 5)
    cleaner = cleaner_of(store)
    cleaner.is_emergency = True
    for _ in range(3):
        run(store, cleaner)
    assert cleaner.deleted_segments >= 3
    assert bodies(store) == expected, "what is to be consumed is never removed for the sake of room"


def test_a_message_is_read_where_it_was_until_its_new_record_is_confirmed(monkeypatch: pytest.MonkeyPatch):
    store = forgotten(9)
    aged(store)
    monkeypatch.setattr(carrying, "STEP_BYTES", 1)
    queue, expected, places = store.queue("q"), bodies(store)[2:], set()
    for _ in cleaner_of(store).round():
        store.finish_sync()  # of what was there before the step
        store.begin_sync()
        found = queue.entries(queue.min_offset, 9)
        assert all(place < store.engine.confirmed_offset for place, _, _ in found)
        assert bodies(store)[-7:] == expected
        places |= {place for place, _, _ in found}
        if not queue.coming:
            store.checkpoint_slice()
    assert len(places) >= 2 * 7, "at both places"


# -- replicas and crashes --------------------------------------------------------------------------------------------


def test_a_replica_that_removes_segments_keeps_them(monkeypatch: pytest.MonkeyPatch):
    """It applies the same records, and forgets what lies in removed segments, without a word from the cleaner."""
    store = forgotten()
    expected = bodies(store)[2:]
    aged(store)
    with monkeypatch.context() as kept:
        kept.setattr(CommitLog, "delete_first_segment", lambda log: setattr(log, "min_offset", log.first_segment_end))
        run(store)
    removed = store.engine.commit_log.min_offset
    assert removed >= 5 * SEGMENT
    replica = derived_from_the_log_alone(store)
    assert replica.engine.commit_log.min_offset == 0
    for end in range(SEGMENT, removed + 1, SEGMENT):
        replica.engine.dispatcher.forget_entries(end, replica.engine.end)
    assert bodies(replica) == expected


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_step(seed: int):
    def prepared() -> SimulatedStore:
        store = forgotten()
        aged(store)
        store.checkpoint()
        return store

    whole = prepared()
    expected, known = bodies(whole)[2:], facts(whole)
    for crash_at, again in crashed(prepared, run, seed):
        for recovered in (again, derived_from_the_log_alone(again)):
            assert bodies(recovered)[-3:] == expected, (seed, crash_at)
            assert facts(recovered) == known, (seed, crash_at)
        run(again)
        assert again.engine.commit_log.min_offset >= 5 * SEGMENT
        for recovered in (again, *recoveries(again)):
            assert bodies(recovered) == expected, (seed, crash_at)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(scaled(4, 60)))
def test_random_lives(seed: int):
    """Queues that are consumed a little, others that write much, restarts and crashes: what is unsettled is there."""
    rng, store = Random(seed), new_store()
    for name in ("q", "r"):
        store._record(changes.put_topic(Topic(name, queues=1, cleanup=Cleanup.CONSUMED)))
    store.answer()
    wanted: dict[str, dict[int, bytes]] = {"q": {}, "r": {}}
    ends = {"q": 0, "r": 0}
    for step in range(40):
        topic = rng.choice("qr")
        match rng.choice(("append", "append", "both", "consume", "age", "clean", "restart", "crash", "checkpoint")):
            case "append" | "both" as what:
                further = {"q": "r", "r": "q"}[topic]
                count = rng.randint(1, 4)
                first = store.world.count
                if what == "both":
                    store.append(topic, count=count, further_queues=((further, 0),))
                else:
                    store.append(topic, count=count)
                store.answer()
                for number in range(count):
                    body = f"{first + number + 1:016d}".encode()
                    for name in (topic, further) if what == "both" else (topic,):
                        wanted[name][ends[name]] = body
                        ends[name] += 1
            case "consume":
                store.world.held.clear()
                store.world.clock.advance(HOUR_MS)
                store.pop(topic, count=rng.randint(1, 5))
                store.answer()
                taken = store.take_held(9)[rng.randint(0, 1) :]
                assert not any(store.acknowledge(taken))
                store.answer()
                for held in taken:
                    del wanted[topic][held.delivery.message.queue_offset]
            case "age":
                aged(store, rng.randint(1, 6))
            case "clean":
                run(store)
            case "restart":
                store = SimulatedStore(store.disk.copy().restart(), store.world)
            case "crash":
                store = SimulatedStore(store.disk.crash(Random(f"{seed} {step}")), store.world)
            case "checkpoint":
                store.checkpoint()
        for recovered in (store, derived_from_the_log_alone(store)):
            for name, messages in wanted.items():
                found = {offset: body for offset, body, _ in bodies(recovered, name)}
                assert {offset: found.get(offset) for offset in messages} == messages, (seed, step, name)
    assert not isinstance(store.engine.failure, CorruptedError)
