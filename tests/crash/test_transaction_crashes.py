"""Transactions through crashes: a commit that was answered is delivered once, what was rolled back never, and what has
no end yet waits on and is asked about."""

from __future__ import annotations

from random import Random

import pytest

from tests.crash.kept_life import (
    CHECK_AFTER_MS,
    CHECK_INTERVAL_MS,
    DAY,
    HOUR,
    MAX_CHECKS,
    MINUTE,
    QUEUES,
    SECOND,
    KeptLife,
    crash_at_each_step,
)
from tests.simulation.disk import Crash
from tests.support.cases import cases
from tests.support.stores.stepped_ports import done
from tests.tiers.marks import scaled

FOUND = (691, 932)
"""Histories of which a recovery once failed."""


def script(life: KeptLife) -> None:
    """Everything once, the sizes such that the log goes into a second segment."""
    for name in "abcdef":
        life.prepare(name, queue_id=ord(name) % QUEUES, size=4000)
    life.prepare("later", delay_ms=HOUR, size=4000)
    life.prepare("wide", further_queues=(("u", 0), ("t", 1)), size=4000)
    life.append(None)
    life.checkpoint_slice()
    assert life.prepare("a") is None
    assert life.end("a", commit=True)
    life.begin_sync()
    life.prepare("g", size=4000)
    life.answer()
    assert life.end("b", commit=False)
    assert not life.end("b", commit=True)
    life.checkpoint_slice()
    life.prepare("a", size=4000)  # an id that is used again
    life.advance(CHECK_AFTER_MS - 1)
    assert life.end("wide", commit=True)
    life.checkpoint_slice()
    life.advance(1)
    assert len(life.take_checks(3)) == 3
    life.take_checks()
    life.checkpoint_slice()
    assert life.end("later", commit=True)
    life.restart()
    assert life.end("a", commit=False)
    life.prepare("a", size=4000)
    life.prepare("over", delay_ms=SECOND, size=4000)
    life.checkpoint_slice()
    life.advance(CHECK_INTERVAL_MS)
    life.take_checks()
    life.prepare("b", size=4000)
    life.answer()
    assert life.end("over", commit=True)
    assert life.end("c", commit=True)  # late, after it was asked about
    life.checkpoint_slice()
    life.advance(HOUR)
    life.deliver_due()
    life.take_checks()  # and some expire
    life.checkpoint_slice()
    assert not life.end("d", commit=True)
    life.answer()


def ask_until_all_is_over(life: KeptLife) -> None:
    """What has no end is asked about as often as is meant, and is then rolled back."""
    for _ in range(MAX_CHECKS + 1):
        waiting = dict(life.ledger.now.halves)
        life.advance(DAY)
        asked = life.take_checks()
        assert sorted(asked) == sorted(id_ for id_, _, checks in waiting.values() if checks < MAX_CHECKS)
        life.answer()
    assert not life.ledger.now.halves
    life.finish()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_at_each_step(seed: int):
    crash_at_each_step(script, seed, ask_until_all_is_over)


NAMES = ("a", "b", "c", "d")


def random_step(life: KeptLife, rng: Random) -> None:
    what = rng.choice(
        ["prepare", "prepare", "prepare", "end", "end", "checks", "due", "jump", "slice", "slice", "answer"]
    )
    if what == "prepare":
        further = rng.choice([(), (), (("u", 0),), (("u", 1), ("t", 1))])
        delay = rng.choice([None, None, -5, SECOND, HOUR])
        life.prepare(rng.choice(NAMES), delay, size=rng.choice([20, 1500]), further_queues=further)
    elif what == "end":
        life.end(rng.choice(NAMES), commit=rng.random() < 0.5)
    elif what == "checks":
        life.take_checks(rng.choice([1, 2, 100]))
    elif what == "due":
        life.deliver_due()
    elif what == "jump":
        life.advance(rng.choice([1, SECOND, 7 * SECOND, MINUTE, HOUR, -MINUTE]))
    elif what == "slice":
        life.checkpoint_slice()
    elif what == "answer":
        life.answer()


@pytest.mark.scaled
@cases("seed", sorted({*range(scaled(40, 1000)), *FOUND}))
def test_random_histories(seed: int):
    rng = Random(seed)
    life = KeptLife()
    life.begin()
    try:
        for _ in range(rng.randint(2, 4)):
            life.disk.crash_at = life.disk.steps + rng.randint(1, 150)
            try:
                for _ in range(rng.randint(5, 60)):
                    random_step(life, rng)
                if rng.random() < 0.3:
                    life.restart()
            except Crash:
                pass
            life.crash(rng)
            life.advance(rng.choice([-HOUR, -SECOND, 0, SECOND, HOUR]))
        ask_until_all_is_over(life)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


# -- by themselves ----------------------------------------------------------------------------------------------------


def test_an_id_that_is_used_again_waits_on_where_the_rows_have_it_and_not_its_first_use():
    life = KeptLife()
    life.begin()
    life.append(None)  # its queue stays longest behind, so that recovery begins before all that follows
    for name in ("x", "y"):
        life.prepare(name)
        assert life.end(name, commit=False)
        life.prepare(name)
    for _ in range(3):
        life.checkpoint_slice()
        life.append(None)
        life.crash(Random(1))
        assert done(life.store.ports.transactions.take_checks([], 0)) == []
    for name in ("x", "y"):
        assert life.end(name, commit=True)
    ask_until_all_is_over(life)
