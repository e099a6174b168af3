"""Under `flush = "async"` a crash may cut what was delivered: handles from before it are void, every time."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.domain.errors import Code
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.cases import cases
from tests.support.stores.simulated_store import SimulatedStore, World
from tests.support.stores.steps import codes


def opened(disk: SimulatedDisk) -> SimulatedStore:
    return SimulatedStore(disk, World(), flush_async=True)


@cases("seed", range(12))
def test_handles_from_before_a_crash_are_void(seed: int):
    rng = Random(seed)
    disk = SimulatedDisk()
    store = opened(disk)
    store.put_topic("t", 1)
    store.append("t", count=3)
    store.answer()
    store.checkpoint()
    handles: list[str] = []
    epochs = [store.engine.recovery_epoch]
    for _ in range(4):
        handles += [d.receipt_handle for d in store.pop("t", count=1, invisible_ms=0)]
        store.answer()
        disk = disk.crash(rng)
        store = opened(disk)
        epochs.append(store.engine.recovery_epoch)
        outcomes = store.consumption.acknowledge("t", "g", handles, store.now_ms)
        assert codes(outcomes) == [Code.INVALID_RECEIPT_HANDLE] * len(handles)
    assert epochs == sorted(set(epochs)), "each life its own"


def test_a_crash_while_recovering_does_not_bring_an_epoch_back():
    first = SimulatedDisk()
    store = opened(first)
    store.put_topic("t", 1)
    store.append("t")
    store.answer()
    epoch = store.engine.recovery_epoch
    for seed in range(40):
        rng = Random(seed)
        disk = first.crash(rng)
        disk.crash_at = 1 + seed % 10
        try:
            served = opened(disk).engine.recovery_epoch
        except Crash:
            served = epoch
        again = opened(disk.crash(rng))
        assert again.engine.recovery_epoch > served, seed


@pytest.mark.parametrize("flush_async", [False, True])
def test_a_clean_end_keeps_handles(flush_async: bool):
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world, flush_async=flush_async)
    store.put_topic("t", 1)
    store.append("t", count=2)
    store.answer()
    store.pop("t")
    store.answer()
    store.close()
    again = SimulatedStore(disk.restart(), world, flush_async=flush_async)
    assert again.acknowledge(world.held) == [None, None]


def test_a_crash_keeps_handles_where_every_answer_was_durable():
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.append("t", count=2)
    store.answer()
    store.pop("t")
    store.answer()
    again = SimulatedStore(disk.crash(Random(1)), world)
    assert again.acknowledge(world.held) == [None, None]
