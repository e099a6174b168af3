"""Whatever the moment the power goes, what is found is a prefix that holds everything confirmed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.broker.rows import changed_rows
from tests.crash.history_scripts import SCRIPT, WIDE_SCRIPT
from tests.crash.history_steps import WIDE_STEPS, Life, Step
from tests.simulation.disk import SimulatedDisk
from tests.support.cases import cases
from tests.tiers.marks import scaled


def steps_of_script(deferred: bool) -> int:
    life = Life(deferred=deferred)
    life.play(SCRIPT)
    life.check_drained()
    return life.disk.steps


@pytest.mark.failure(
    "The power goes",
    group="A broker without replicas",
    does="The next start finds the log up to a whole record, with everything that was confirmed.",
    lost="nothing confirmed",
)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("deferred", [False, True], ids=["at once", "deferred"])
@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6])
def test_a_crash_at_each_step(deferred: bool, seed: int, first: int):
    total = steps_of_script(deferred)
    for crash_at in range(first, total + 1, 6):
        life = Life(deferred=deferred)
        life.disk.crash_at = crash_at
        life.play(SCRIPT)
        life.crash(Random(f"{seed} {crash_at}"))
        try:
            life.check_recovered()
            life.check_drained()
        except BaseException as error:
            error.add_note(f"crash at step {crash_at} of {total}, seed {seed}")
            raise


@pytest.mark.failure_also("The power goes")
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_each_step_of_recovery(seed: int):
    """Recovery may be interrupted as often as it likes."""
    rng = Random(seed)
    for crash_at in range(10 + seed * 7, steps_of_script(True), 31):
        life = Life(deferred=True)
        life.disk.crash_at = crash_at
        life.play(SCRIPT)
        life.crash(rng)
        within = 0
        while True:
            within += 1
            before = life.disk
            life.disk = before.copy()
            life.disk.crash_at = within
            life.play([])
            if life.store is not None:
                break
            life.crash(rng)
            after = life.disk
            life.disk = after.copy()
            life.check_recovered()
            life.store, life.disk = None, before
        life.disk.crash_at = None
        life.check_recovered()
        life.check_drained()


@cases("seed", range(20))
def test_a_crash_in_the_first_start(seed: int):
    """Nothing was confirmed yet; the store must still be one that opens, and keep what comes then."""
    for crash_at in range(1, 14):
        life = Life()
        life.disk.crash_at = crash_at
        life.play([])
        life.crash(Random(f"{seed} {crash_at}"))
        life.play([("topic", 0, 0), ("append", 0, 1), ("answer", 0, 0)])
        life.crash(Random(seed))
        life.check_recovered()
        life.check_drained()


SYNC_WORDS = ["begin", "finish", "answer", "answer", "checkpoint", "begin checkpoint", "finish checkpoint", "reopen"]
USUAL_WORDS = ["topic", "append", "append", "append", "pop", "pop", "together", "together", "acknowledge", "release"]
WORDS = st.sampled_from([*USUAL_WORDS, "renew", "reject", "expire", "drop"]).flatmap(
    lambda word: st.sampled_from([word, word, *SYNC_WORDS])
)
HISTORY = st.lists(st.tuples(WORDS, st.integers(0, 5), st.integers(0, 9)), max_size=30)


@given(st.lists(st.tuples(HISTORY, st.integers(1, 120)), min_size=1, max_size=3), st.booleans(), st.integers())
def test_random_histories(lives: list[tuple[list[Step], int]], deferred: bool, seed: int):
    rng = Random(seed)
    life = Life(deferred=deferred)
    for steps, crash_at in lives:
        life.disk.crash_at = crash_at
        life.play([("topic", 0, 1), ("topic", 1, 0), *steps])
        life.crash(rng)
        life.check_recovered()
    life.check_drained()


# -- wide histories: rows of many ages ------------------------------------------------------------------------------


@pytest.mark.scaled
@pytest.mark.parametrize("deferred", [False, True], ids=["at once", "deferred"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_crash_at_each_step_of_a_wide_script(monkeypatch: pytest.MonkeyPatch, deferred: bool, rows: int):
    """By default each step crashes under one of the six, in the soak tier under all."""
    monkeypatch.setattr(changed_rows, "MAX_SLICE_ROWS", rows)
    life = Life(deferred=deferred, wide=True)
    life.play(WIDE_SCRIPT)
    stride = scaled(6, 1)
    for crash_at in range(1 + (2 * rows + deferred) % stride, life.disk.steps + 1, stride):
        life = Life(deferred=deferred, wide=True)
        life.disk.crash_at = crash_at
        life.play(WIDE_SCRIPT)
        life.crash(Random(f"{rows} {crash_at}"))
        try:
            life.check_recovered()
        except BaseException as error:
            error.add_note(f"crash at step {crash_at}, {rows} rows in a slice")
            raise


WIDE_WORDS = st.sampled_from(
    ["topic", "append", "pop", "acknowledge", "release", "reject", "expire", "drop", *WIDE_STEPS]
)
WIDE_HISTORY = st.lists(
    st.tuples(
        WIDE_WORDS.flatmap(lambda word: st.sampled_from([word, word, word, "slice", "slice", *SYNC_WORDS])),
        st.integers(0, 5),
        st.integers(0, 9),
    ),
    max_size=40,
)


@given(
    st.lists(st.tuples(WIDE_HISTORY, st.integers(1, 250)), min_size=1, max_size=3),
    st.booleans(),
    st.integers(1, 3),
    st.integers(),
)
@example(  # a message without a hash hid the name of the next one from the index
    [([("append", 0, 0), ("drop", 1, 0), ("fan", 0, 0), ("checkpoint", 0, 0)], 45)], False, 3, 1
)
def test_wide_random_histories(lives: list[tuple[list[Step], int]], deferred: bool, rows: int, seed: int):
    rng = Random(seed)
    life = Life(deferred=deferred, wide=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed_rows, "MAX_SLICE_ROWS", rows)
        for steps, crash_at in lives:
            life.disk.crash_at = crash_at
            life.play([("topic", 0, 1), ("topic", 1, 0), *steps])
            life.crash(rng)
            life.check_recovered()


def test_the_simulated_disk_loses_only_what_was_not_synced():
    disk = SimulatedDisk()
    disk.make_directory("/d")
    descriptor = disk.open("/d/f")
    disk.write(descriptor, b"a" * 10_000, 0)
    for directory in ("/", "/d"):
        disk.sync_directory(directory)
    disk.sync_file("/d/f")
    disk.write(descriptor, b"b" * 10_000, 5_000)
    found = {disk.crash(Random(seed)).files()["/d/f"] for seed in range(200)}
    assert {len(data) for data in found} == {10_000, 15_000}
    assert all(data[:5_000] == b"a" * 5_000 and set(data[5_000:10_000]) <= set(b"ab") for data in found)
    assert len(found) > 8, "each page has its own fate"
