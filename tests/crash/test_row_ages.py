"""Rows of the state file are of different ages: the single cases, each of which went wrong once."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.rows import changed_rows
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup
from entrepot.domain.errors import Code, CorruptedError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import SystemProperty
from entrepot.domain.position import EARLIEST_POSITION
from tests.crash.conftest import ENTRIES_PER_FILE
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.derived_state import check_derived
from tests.support.stores.simulated_store import ROOT, SMALL, SimulatedStore, World
from tests.support.stores.stepped_ports import done
from tests.support.stores.steps import codes

SEGMENT = SMALL.segment_size_bytes
RED = FilterExpression(FilterKind.TAG, "red")


@pytest.fixture(autouse=True)
def one_row_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(changed_rows, "MAX_SLICE_ROWS", 1)


def begun(hold_back_limit: int = 32_768) -> SimulatedStore:
    store = SimulatedStore(SimulatedDisk(), World(), hold_back_limit=hold_back_limit)
    store.put_topic("a", 1)
    store.put_topic("b", 1)
    store.answer()
    return store


def crashed(store: SimulatedStore) -> SimulatedStore:
    """Opened after a loss of power, and as the log says."""
    again = SimulatedStore(store.disk.crash(Random(1)), store.world)
    check_derived(again)
    return again


def test_messages_of_a_topic_whose_end_the_rows_know():
    """The queue's row goes before the log is passed: messages that were in it are met again, and no queue for them."""
    store = begun()
    store.append("a", count=3)
    store.checkpoint()
    store.append("a")
    store.append("b")
    store.append("a")
    store.drop_topic("a")
    for _ in range(2):
        store.checkpoint_slice()
        assert "a" not in crashed(SimulatedStore(store.disk.copy(), store.world)).registry.topics


def test_a_change_of_a_topic_whose_end_the_rows_know():
    """The change makes the topic again, without what came before."""
    store = begun()
    store.append("a", count=3)
    store.checkpoint()
    store.append("b")
    store.put_topic("a", 2)
    store.append("a")
    store.drop_topic("a")
    store.answer()
    for _ in range(8):
        store.checkpoint_slice()
        assert ("a", 0) not in crashed(SimulatedStore(store.disk.copy(), store.world)).engine.dispatcher.queues


def test_a_further_queue_that_grows_while_its_slice_waits():
    store = begun()
    store.checkpoint()
    store.append("b")
    store.begin_checkpoint()
    store.append("a", further_queues=(("b", 0),))
    store.answer()
    for _ in range(4):
        store.begin_checkpoint()
        store.finish_checkpoint()
    assert len(crashed(store).stored()["b", 0]) == 2


def test_a_reset_voids_the_handles_of_its_queue_alone_and_for_good():
    store = begun()
    store.put_topic("a", 2)
    for queue_id in (0, 1):
        store.append("a", queue_id)
    store.answer()
    store.pop("a")
    store.answer()
    held = sorted(store.take_held(2), key=lambda one: one.delivery.message.queue_id)
    done(store.ports.consumption.reset_group("g", "a", EARLIEST_POSITION, 1))
    store.pop("a")
    store.answer()
    assert codes(store.acknowledge(held)) == [None, Code.INVALID_RECEIPT_HANDLE]
    store.acknowledge(store.take_held(1))
    store.shrink_topic("a", 1)
    store.append("a")
    store.answer()
    [again] = store.pop("a")
    store.answer()
    store = crashed(store)
    assert codes(store.acknowledge(store.take_held(1))) == [None]
    assert again.attempt == 1


def test_a_group_that_came_back_is_not_mistaken_for_the_one_before():
    store = begun()
    done(store.ports.topology.put_group(ConsumerGroup("g", start=LATEST)))
    store.checkpoint()
    store.append("a")
    done(store.ports.topology.put_group(ConsumerGroup("g", start=EARLIEST)))
    done(store.ports.topology.put_group(ConsumerGroup("g", start=LATEST)))
    done(store.ports.topology.delete_group("g"))
    store.append("b")
    done(store.ports.topology.put_group(ConsumerGroup("g", start=EARLIEST)))
    for _ in range(6):
        store.checkpoint_slice()
        crashed(SimulatedStore(store.disk.copy(), store.world))


# -- the log and its rows ----------------------------------------------------------------------------------------------


def test_a_record_that_ends_with_its_segment():
    store = begun()
    while store.engine.end + 22_000 < SEGMENT:
        store.append("a", size=20_000)
    before = store.engine.end
    store.append("a", size=1000)
    overhead = store.engine.end - before - 1000
    store.append("a", size=SEGMENT - store.engine.end - overhead)
    assert store.engine.end == SEGMENT
    store.append("a", count=3, size=500)
    store.answer()
    assert len(store.stored()["a", 0]) == store.world.count
    assert len(crashed(store).stored()["a", 0]) == store.world.count


@pytest.mark.parametrize("how", ["flip", "cut"])
def test_damage_to_what_the_rows_know_is_no_torn_tail(how: str):
    """The position is far behind, as long as one row is; what other rows know was durable before they were."""
    store = begun()
    store.checkpoint()
    store.append("a", count=2, size=300)
    store.append("b", count=2, size=300)
    store.checkpoint_slice()
    end = store.engine.end
    assert store.engine.checkpointer.position < end - 600
    disk = store.disk.restart()
    path = f"{ROOT}/commitlog/{0:020d}"
    if how == "flip":
        disk.flip(path, (end - 5) * 8)
        with pytest.raises(CorruptedError):
            SimulatedStore(disk, World())
    else:
        disk.put(path, disk.files()[path][: end - 100])
        again = SimulatedStore(disk, World())
        check_derived(again)
        assert again.engine.report.missing_bytes == 100
        assert len(again.stored()["b", 0]) == 1


def test_a_queue_that_came_back_has_files_that_are_whole():
    store = begun()
    store.put_topic("a", 2)
    store.append("a", 1, ENTRIES_PER_FILE + 3)
    store.answer()
    store.pop("a", count=100)
    store.answer()
    store.acknowledge(store.take_held(100))
    store.shrink_topic("a", 1)
    store.put_topic("a", 2)
    store.append("a", 1, 3 * ENTRIES_PER_FILE)
    store.checkpoint()
    assert store.queue("a", 1).flushed_entries > ENTRIES_PER_FILE + 3
    again = SimulatedStore(store.disk.restart(), store.world)
    check_derived(again)
    assert again.engine.report.rebuilt_queues == 0
    assert again.queue("a", 1).min_offset == ENTRIES_PER_FILE + 3


def test_what_was_rebuilt_is_saved_by_a_clean_end():
    store = begun()
    store.append("a", count=2 * ENTRIES_PER_FILE)
    store.close()
    [path] = [path for path in store.disk.files() if "consumequeue" in path and path.endswith("0" * 20)]
    disk = store.disk.restart()
    disk.flip(path, 3)
    for expected in (1, 0):
        again = SimulatedStore(disk, World())
        assert again.engine.report.rebuilt_queues == expected
        again.close()
        disk = disk.restart()


def test_an_epoch_is_saved_by_a_clean_end_without_anything_else_to_save():
    store = SimulatedStore(SimulatedDisk(), World(), flush_async=True)
    store.put_topic("a", 1)
    store.checkpoint()
    again = SimulatedStore(store.disk.crash(Random(2)), World(), flush_async=True)
    epoch = again.engine.recovery_epoch
    assert epoch > store.engine.recovery_epoch
    again.close()
    assert SimulatedStore(again.disk.restart(), World(), flush_async=True).engine.recovery_epoch == epoch


# -- what is moved -----------------------------------------------------------------------------------------------------


def test_what_was_moved_is_not_claimed_before_it_can_be_read():
    """Its record is not durable yet: a delivery now would reach nobody, and cost an attempt."""
    store = begun(hold_back_limit=2)
    store.append("a", count=3)
    store.answer()
    store.pop("a", invisible_ms=1_000)
    store.answer()
    store.acknowledge(store.take_held(3)[1:])
    store.world.clock.advance(2_000)
    store.pop("a")
    store.pop("a")
    store.answer()
    [delivery] = store.pop("a")
    assert delivery.attempt == 2
    crashed(store)


def test_what_waits_in_the_retry_topic_is_not_stored_over_and_over():
    store = begun(hold_back_limit=2)
    store.append("a", count=9)
    store.answer()
    store.pop("a")
    store.answer()
    store.change(store.take_held(9), 1 << 30, release=True)
    for _ in range(10):
        store.pop("a")
        store.answer()
    assert store.queue("%RETRY%g+a").max_offset <= 9


def test_what_a_filter_passed_over_holds_nothing_back():
    store = begun(hold_back_limit=3)
    for tag in ("blue", "blue", "blue", "red"):
        store.append("a", tag=tag, filter_hash=filter_hash("a", tag))
    store.answer()
    assert len(store.pop("a", wanted=RED)) == 1
    assert store.opened.progress.windows["g", "a"][0].base == 3
    store.answer()
    assert store.pop("a", wanted=RED) == []
    assert ("%RETRY%g+a", 0) not in store.engine.dispatcher.queues


def test_a_message_of_a_further_queue_dies_where_it_was_read():
    store = begun()
    store.append("b", count=2)
    store.append("a", further_queues=(("b", 0),))
    store.answer()
    store.pop("b")
    store.answer()
    assert codes(store.reject(store.take_held(3))) == [None] * 3
    assert store.opened.progress.windows["g", "b"][0].base == 3
    names = (SystemProperty.DEAD_LETTER_TOPIC, SystemProperty.DEAD_LETTER_QUEUE_OFFSET)
    store.answer()
    assert [tuple(map(m.system_text, names)) for m in store.stored()["%DLQ%g", 0]] == [("b", str(i)) for i in range(3)]


def test_a_dead_letter_may_be_rejected_by_who_reads_the_dead_letters():
    store = begun(hold_back_limit=1)
    store.append("a", count=2)
    store.answer()
    store.pop("a", invisible_ms=1_000)
    store.answer()
    store.take_held(2)
    store.world.clock.advance(2_000)
    for _ in range(2):  # moved, then delivered from the retry topic
        store.pop("a")
        store.answer()
    assert codes(store.reject(store.take_held(2))) == [None, None]
    store.answer()
    store.pop("%DLQ%g", "h")
    store.answer()
    assert codes(store.reject(store.take_held(2))) == [None, None]
    assert store.opened.progress.windows["h", "%DLQ%g"][0].base == 2
    store.answer()
    assert len(crashed(store).stored()["%DLQ%h", 0]) == 2


def test_a_timer_whose_record_is_the_first_behind_its_row():
    store = begun()
    later = {SystemProperty.DELIVER_AT_MS: store.now_ms + 3_600_000}
    store.append("a", system=later)
    store.checkpoint()
    store.append("a", system=later)
    store.answer()
    assert crashed(store).engine.pending.timers.count == 2
