"""Timers through crashes: what was recalled never comes, all else comes once, never before its time, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from entrepot.broker.timer import timing_wheel
from entrepot.domain.message import SystemProperty
from tests.crash.kept_life import DAY, HOUR, MINUTE, SECOND, KeptLife, crash_at_each_step
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.cases import cases
from tests.support.stores.simulated_store import SMALL, SimulatedStore, World
from tests.tiers.marks import scaled

DELAYS = (1, SECOND, 59 * SECOND, 60 * SECOND, 61 * SECOND, HOUR, 30 * DAY, 400 * DAY)
JUMPS = (1, SECOND, 45 * SECOND, 2 * MINUTE, HOUR, 31 * DAY)


@pytest.fixture(autouse=True)
def small_regions() -> Iterator[None]:
    """So that the timers of a minute are in several buckets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing_wheel, "REGION_BITS", 11)
        yield


def script(life: KeptLife) -> None:
    """Everything once, the sizes such that the log goes into a second segment."""
    sent = [life.append(delay, queue_id=i % 2, size=40 + 9000 * (i % 2)) for i, delay in enumerate(DELAYS)]
    life.append(None)
    life.answer()
    again = life.append(30 * SECOND, further_queues=(("u", 0), ("t", 1)))
    life.begin_sync()
    life.append(30 * SECOND)
    life.answer()
    life.checkpoint_slice()
    life.advance(SECOND)
    life.deliver_due()
    life.answer()
    assert life.recall(sent[2])
    assert life.retime(sent[5], 90 * SECOND)
    life.answer()
    life.checkpoint_slice()
    assert life.retime(sent[6], 0)
    assert not life.recall(sent[2])
    life.append(29 * SECOND, size=9000)
    life.answer()
    life.advance(29 * SECOND)
    life.deliver_due()
    life.checkpoint_slice()
    life.advance(-20 * SECOND)
    life.deliver_due()
    late = life.append(15 * SECOND, further_queues=(("u", 1),), size=9000)
    life.restart()
    life.advance(-HOUR)
    life.deliver_due()
    life.append(SECOND, size=9000)
    life.answer()
    life.advance(2 * HOUR)
    assert not life.recall(late)
    life.deliver_due()
    life.answer()
    assert not life.retime(again, HOUR)
    life.checkpoint_slice()
    assert life.recall(sent[7])
    life.append(30 * DAY, size=9000)
    life.answer()
    life.checkpoint_slice()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crash_at_each_step(seed: int):
    crash_at_each_step(script, seed)


def random_step(life: KeptLife, rng: Random, known: list[bytes]) -> None:
    what = rng.choice(["append", "append", "append", "recall", "retime", "due", "jump", "slice", "answer", "sync"])
    if what == "append":
        further = rng.choice([(), (), (("u", 0),), (("u", 1), ("t", 1))])
        delay = rng.choice([None, -5, *DELAYS, *DELAYS])
        size = rng.choice([20, 40, 1500])
        known.append(life.append(delay, queue_id=0, size=size, further_queues=further))
    elif what == "recall" and known:
        life.recall(rng.choice(known[-8:]))
    elif what == "retime" and known:
        life.retime(rng.choice(known[-8:]), rng.choice([0, -10, *DELAYS]))
    elif what == "due":
        life.deliver_due()
    elif what == "jump":
        life.advance(rng.choice([-1, 1, 1, 1]) * rng.choice(JUMPS))
    elif what == "slice":
        life.checkpoint_slice()
    elif what == "answer":
        life.answer()
    elif what == "sync":
        life.begin_sync()


@pytest.mark.scaled
@cases("seed", range(scaled(40, 1000)))
def test_random_histories(seed: int):
    rng = Random(seed)
    life = KeptLife()
    life.begin()
    known: list[bytes] = []
    try:
        for _ in range(rng.randint(2, 4)):
            life.disk.crash_at = life.disk.steps + rng.randint(1, 150)
            try:
                for _ in range(rng.randint(5, 60)):
                    random_step(life, rng, known)
                if rng.random() < 0.3:
                    life.restart()
            except Crash:
                pass
            life.crash(rng)
            life.advance(rng.choice([-HOUR, -SECOND, 0, SECOND, HOUR, 40 * DAY]))
        life.finish()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


# -- what was found ----------------------------------------------------------------------------------------------------


def test_a_time_that_is_taken_again_within_the_minute_is_delivered_once():
    life = KeptLife()
    life.begin()
    only = life.append(2 * MINUTE)
    life.answer()
    assert life.retime(only, 2 * MINUTE + 1)
    life.answer()
    life.finish()


def test_many_are_delivered_in_several_goes():
    life = KeptLife()
    life.begin()
    rng = Random(7)
    for _ in range(1200):
        life.append(rng.choice(DELAYS[:6]), queue_id=rng.randrange(2), size=20)
    life.answer()
    life.advance(DAY)
    planned = life.due()
    assert life.store.ports.timers.deliver_due()
    life.planned = planned
    life.crash(Random(7))
    gone = len(planned) - len(life.due())
    assert gone in (0, 500)
    expected = [change[1] for change in life.due()]
    for _ in range(3):
        life.store.ports.timers.deliver_due()
        life.store.answer()
    life.ledger.note(*life.due())
    life.answer()
    life.finish()
    order = {message_id: place for place, message_id in enumerate(expected)}
    for found in life.ledger.now.queues.values():
        places = [order[message_id] for message_id in found if message_id in order]
        assert places == sorted(places)


def test_what_was_recalled_stays_away_when_another_takes_its_minute():
    life = KeptLife()
    life.begin()
    life.append(1)
    life.answer()
    life.advance(SECOND)
    life.deliver_due()  # the minute is near from now on
    only = life.append(5 * SECOND)
    life.answer()
    assert life.recall(only)
    life.append(5 * SECOND)
    life.answer()
    life.finish()


def test_a_message_that_cannot_be_delivered_holds_up_no_other():
    """One that fits a segment while it waits, and does not with the place that it was kept in."""
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    store.answer()
    at_ms = store.now_ms + 1000

    def keep(size: int, deliver_at_ms: int) -> bool:
        [kept] = store.world.new_messages("t", 0, 1, size)
        is_kept = store.append_all([replace(kept, system={SystemProperty.DELIVER_AT_MS: deliver_at_ms})]) is None
        store.answer()
        return is_kept

    size = SMALL.segment_size_bytes
    while not keep(size, at_ms):
        size -= 1
    assert keep(100, at_ms + 1)
    store.world.clock.advance(2000)
    store.ports.timers.deliver_due()
    store.answer()
    assert store.queue("t").max_offset == 1
