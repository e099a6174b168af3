"""The step that buries exhausted messages looks at groups with unsettled messages, however many others there are."""

from __future__ import annotations

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.simulated_store import INVISIBLE_MS, SimulatedStore, World

GROUPS = 40


def test_idle_groups_cost_nothing():
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    store.put_group(ConsumerGroup("last", max_attempts=1))
    store.append("t", count=2)
    store.answer()
    for number in range(GROUPS):
        store.pop("t", f"g{number:02}", 2)
        store.answer()
    assert len(store.consumption.unsettled()) == GROUPS
    assert not any(store.acknowledge(store.take_held(2 * GROUPS - 1)))  # all but one message of the last group
    store.answer()
    bury_exhausted(store.consumption, store.now_ms)
    still = [(f"g{GROUPS - 1}", "t")]
    assert store.consumption.unsettled() == still
    store.pop("t", "last", 1)
    store.answer()
    assert store.consumption.unsettled() == [*still, ("last", "t")]
    for again in (SimulatedStore(store.disk.copy().restart(), store.world), _saved(store)):
        bury_exhausted(again.consumption, again.now_ms)
        assert sorted(again.consumption.unsettled()) == [*still, ("last", "t")]
        again.world.clock.advance(INVISIBLE_MS + 1)
        bury_exhausted(again.consumption, again.now_ms)
        again.answer()
        assert again.queue("%DLQ%last").max_offset == 1, "which came to its end unasked"
        bury_exhausted(again.consumption, again.now_ms)
        assert again.consumption.unsettled() == still
        again.world.clock.advance(-INVISIBLE_MS - 1)


def _saved(store: SimulatedStore) -> SimulatedStore:
    """The same from its rows, without a record to be read again."""
    store.checkpoint()
    return SimulatedStore(store.disk.copy().restart(), store.world)


def test_a_retry_and_what_is_held_are_unsettled():
    store = SimulatedStore(SimulatedDisk(), World(), hold_back_limit=1)
    store.put_topic("t", 1)
    store.append("t", count=3)
    store.answer()
    store.pop("t", count=3)
    store.answer()
    store.change(store.take_held(3), 0, release=True)
    store.answer()
    for again in (store, _saved(store)):
        windows = again.opened.progress.windows
        wanted = {key for key, found in windows.items() if any(window.unsettled for window in found.values())}
        assert wanted <= set(again.consumption.unsettled())
        assert wanted
