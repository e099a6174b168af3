"""Poison messages and a store that crashes while it moves them: acknowledged or a dead letter, each exactly one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.simulated_store import INVISIBLE_MS, SimulatedStore, World

MESSAGES = 9


def storm(store: SimulatedStore, rounds: int) -> None:
    """Every third message is taken well, every third is rejected once in a while, the others never."""
    for turn in range(rounds):
        store.pop("t", count=MESSAGES)
        store.answer()
        held = store.take_held(MESSAGES)
        number = {one.message_id: int(one.message_id) for one in held}
        good = [one for one in held if number[one.message_id] % 3 == 0]
        store.acknowledge(good[: 1 + turn])
        if turn % 2:
            store.reject([one for one in held if number[one.message_id] % 3 == 1][:1])
        store.change([one for one in held if number[one.message_id] % 3 == 2], 100, release=True)
        store.world.clock.advance(INVISIBLE_MS)
        bury_exhausted(store.consumption, store.now_ms)
        store.begin_sync()
        if turn % 3 == 1:
            store.begin_checkpoint()
            store.finish_checkpoint()
        store.finish_sync()


def started(world: World, max_attempts: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    store = SimulatedStore(disk, world, max_attempts=max_attempts)
    store.put_topic("t", 1)
    store.append("t", count=MESSAGES, size=2500)
    store.answer()
    return disk


def check_after(disk: SimulatedDisk, world: World, max_attempts: int) -> None:
    """Play to the end without consumers that acknowledge: all that is left becomes dead letters."""
    store = SimulatedStore(disk, world, max_attempts=max_attempts)
    world.held.clear()
    store.drain(acknowledge=False)
    report = store.check(drained_by=["g"])
    assert report.is_clean, report
    assert all(delivery.attempt <= max_attempts for delivery in world.history.deliveries)
    dead = {m.message_id for m in store.stored().get(("%DLQ%g", 0), [])}
    settled = {message_id for _, message_id in world.history.acknowledged | world.history.open_settling}
    assert len(dead | settled) == MESSAGES
    assert store.opened.progress.windows["g", "t"][0].base == MESSAGES


@pytest.mark.parametrize("max_attempts", [1, 2, 3, 4, 5])
def test_a_crash_at_each_step_of_the_storm(max_attempts: int):
    rounds = max_attempts + 2
    crash_at = 0
    while True:
        crash_at += 1
        world = World()
        disk = started(world, max_attempts)
        disk.crash_at = disk.steps + crash_at
        rng = Random(crash_at)
        try:
            storm(SimulatedStore(disk, world, max_attempts=max_attempts), rounds)
        except Crash:
            check_after(disk.crash(rng), world, max_attempts)
            continue
        break
    assert crash_at > 10


@given(st.integers(1, 5), st.lists(st.integers(1, 60), min_size=2, max_size=5), st.integers(0, 1 << 30))
def test_a_storm_of_dead_letters_through_many_crashes(max_attempts: int, crashes: list[int], seed: int):
    rng = Random(seed)
    world = World()
    disk = started(world, max_attempts)
    for steps in crashes:
        disk.crash_at = disk.steps + steps
        try:
            storm(SimulatedStore(disk, world, max_attempts=max_attempts), 4)
        except Crash:
            pass
        disk = disk.crash(rng)
        world.held.clear()
    check_after(disk, world, max_attempts)


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_a_healthy_storm(max_attempts: int):
    world = World()
    disk = started(world, max_attempts)
    storm(SimulatedStore(disk, world, max_attempts=max_attempts), max_attempts)
    check_after(disk.restart(), world, max_attempts)
