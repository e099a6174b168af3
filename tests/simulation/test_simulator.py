"""The simulator's own rules: who is reached, what waits, what a crash leaves, how a broken history is told."""

from __future__ import annotations

import shlex
from random import Random
from typing import NamedTuple

import pytest

from tests.simulation.clock import Clock, DriftingClock
from tests.simulation.event_loop import EventLoop
from tests.simulation.histories import HistoryError, command, find, lived
from tests.simulation.network import Network, both_ways
from tests.simulation.process import Process
from tests.simulation.record_log import DamageError, RecordLog
from tests.simulation.world import World
from tests.simulation.write_queue import WriteQueue


class Noted(NamedTuple):
    """A record."""

    name: str
    floor: int = 0


def process(clock: Clock, slot: int = 1) -> Process:
    made = Process(clock, slot, f"process {slot}", clock.chance("disks"))
    made.begin_life()
    return made


def test_events_come_in_the_order_of_their_times_and_then_of_their_making() -> None:
    clock, came = Clock(1), list[str]()
    for delay, name in ((2.0, "late"), (1.0, "first"), (1.0, "second")):
        clock.after(delay, came.append, name)
    clock.run_until(1.5)
    assert (came, clock.now) == (["first", "second"], 1.5)


def test_a_drifting_clock_is_off_by_its_offset_and_its_share_of_the_time() -> None:
    now = 1000.0
    clock = DriftingClock(lambda: now, offset=-5.0, drift=0.01)
    assert clock.time() == 1005.0


def test_what_comes_to_a_paused_process_waits_and_what_comes_to_a_dead_one_does_not() -> None:
    clock, came = Clock(1), list[str]()
    one = process(clock)
    one.later(20.0, came.append, "of its first life")
    one.pause(10.0)
    one.take(came.append, "while it was paused")
    assert came == []
    clock.run_until(15.0)
    assert came == ["while it was paused"]
    one.end_life()
    one.take(came.append, "to nobody")
    one.begin_life()
    clock.run_until(30.0)
    assert came == ["while it was paused"]


def test_writes_that_come_meanwhile_are_the_next_batch() -> None:
    clock, batches, told = Clock(1), list[list[int]](), list[int]()
    one = process(clock)

    def perform(batch: list[int]) -> bool:
        batches.append(batch)
        return True

    queue = WriteQueue(one, perform, told.append, is_late=True)
    for number in (1, 2, 3):
        queue.add(number)
    one.pause(1000.0)
    clock.run_until(500.0)
    assert batches == [[1], [2, 3]], "the disk of a paused process goes on"
    assert (told, queue.is_busy) == ([], True)
    clock.run_until(1001.0)
    assert (sorted(told), queue.is_busy) == ([1, 3], False), "the answers may overtake each other"


def test_a_cut_way_is_cut_for_its_time_and_nobody_is_cut_from_itself() -> None:
    clock, came = Clock(1), list[str]()
    network, one, other = Network(clock), process(clock), process(clock, 2)
    assert network.cut(both_ways(1, [1, 2]), 10.0)
    assert network.cuts == {(1, 2), (2, 1)}
    network.send_once(one, other, came.append, "in the cut")
    clock.run_until(10.0)
    assert network.cuts == set()
    network.send_once(one, other, came.append, "behind it")
    clock.run_until(500.0)
    assert came == ["behind it"]


def test_a_crash_keeps_what_is_synced_and_chance_decides_the_rest() -> None:
    ends = set()
    for seed in range(40):
        log: RecordLog[Noted] = RecordLog()
        log.write(0, [Noted("a"), Noted("b")])
        log.sync(1)
        log.write(2, [Noted("c")])
        log.crash(Random(seed))
        assert log.log[0] == Noted("a")
        ends.add(len(log.log))
    assert ends == {1, 2, 3}


def test_a_gap_before_a_record_that_proves_a_sync_is_damage() -> None:
    proof = Noted("b", floor=1)
    log: RecordLog[Noted] = RecordLog(log=[Noted("a"), proof], stable={1: proof})
    loses_the_first = next(seed for seed in range(40) if Random(seed).choice((True, False)) is False)
    with pytest.raises(DamageError, match="record 1 shows that 0 had been synced"):
        log.crash(Random(loses_the_first))


def test_a_cut_that_a_crash_interrupts_is_finished_unless_intents_are_missing() -> None:
    def interrupted() -> None:
        raise InterruptedError

    def left(seed: int, *, has_intents: bool) -> str:
        log: RecordLog[Noted] = RecordLog(log=[Noted("a"), Noted("b")], has_intents=has_intents)
        log.sync(2)
        with pytest.raises(InterruptedError):
            log.cut(1, interrupted)
        log.crash(Random(seed))
        return "".join(record.name for record in log.log)

    assert {left(seed, has_intents=True) for seed in range(40)} == {"a"}
    assert {left(seed, has_intents=False) for seed in range(40)} == {"a", "ab"}


def test_a_dead_process_has_no_callbacks_and_a_cancelled_one_does_not_come() -> None:
    clock, came = Clock(1), list[str]()
    loop = EventLoop(clock, 10.0)
    loop.call_at(1.0, came.append, "at its time")
    loop.call_at(2.0, came.append, "cancelled").cancel()
    loop.call_at(3.0, came.append, "of the dead")
    clock.run_until(25.0)
    loop.is_dead = True
    clock.run_until(100.0)
    assert came == ["at its time"]


class Odd(World):
    """A world that breaks its invariant where its seed is odd."""

    def heal(self) -> None:
        self.clock.note("world", "heals")
        self.require(self.clock.seed % 2 == 0, "the seed is odd")


def test_a_broken_history_tells_its_events_and_the_command_that_repeats_it() -> None:
    again = command("tests.odd", "3 in sync", 7, "a fault", ["puts_back"])
    assert lived(8, Odd, (10.0,), again).clock.now == 10.0
    with pytest.raises(HistoryError) as found:
        lived(7, Odd, (10.0,), again)
    first, event, last = str(found.value).splitlines()
    assert first == "BrokenInvariantError('the seed is odd') at 10.00"
    assert event.split() == ["10.00", "world", "heals"]
    asked = last.removeprefix("again: ")
    assert shlex.split(asked)[1:] == ["-m", "tests.odd", "3 in sync", "7", "--planted", "a fault", "--puts-back"]


def test_a_fault_is_looked_for_in_the_known_history_first_and_one_that_no_history_shows_is_told() -> None:
    assert find("odd", lambda seed: lived(seed, Odd, (10.0,), ""), 1, known=3) == 3
    with pytest.raises(AssertionError, match="odd: not found in 2 histories"):
        find("odd", lambda seed: lived(2 * seed, Odd, (10.0,), ""), 2)
