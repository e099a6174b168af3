"""Clocks of members are compared: one far from most of them leads no group, and is told."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.controller.agreement import ControllerOptions
from entrepot.broker.controller.clocks import CONTROLLERS, LEAST_CLOCKS, MAX_APART_MS, Clock, MemberClocks
from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.liveness import FINE, judge
from entrepot.broker.controller.register import Register
from entrepot.domain.replication.election import Election, ElectionError
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member
from entrepot.domain.replication.rule import Rule
from tests.controller.test_liveness import ADDRESSES, ASYNC, IN_SYNC, LEASE, MEMBERS, QUORUM, all_heard, group
from tests.support.clock import ManualClock

DAY_MS = 86_400_000
FRESH = 12.0


def clocks(*ahead_ms: int, own: int = 1) -> MemberClocks:
    """The controller's own clock, and those of the replicas 1, 2, ... of a group."""
    found = MemberClocks(own, FRESH)
    for number, each in enumerate(ahead_ms, 1):
        found.tell(Clock("g", number), each, 0.0)
    return found


@pytest.mark.parametrize("ahead", [DAY_MS, -DAY_MS, MAX_APART_MS + 1, -MAX_APART_MS - 1])
def test_one_of_three_is_barred(ahead: int) -> None:
    assert clocks(0, ahead).far(0.0) == {Clock("g", 2): ahead}
    assert clocks(5, MAX_APART_MS).far(0.0) == {}


def test_it_may_be_the_controller_that_is_wrong() -> None:
    found = clocks(DAY_MS, DAY_MS + 3, DAY_MS)
    assert found.far(0.0) == {Clock(CONTROLLERS, 1): -DAY_MS}
    assert found.barred("g", 0.0) == {}
    assert found.problem(0.0) == "the clock of controller 1 is 1.0 days behind the others'"


@pytest.mark.parametrize("ahead", [(DAY_MS,), (DAY_MS, DAY_MS, 0), (DAY_MS, -DAY_MS, 3 * DAY_MS)])
def test_without_a_majority_nobody_is_judged(ahead: tuple[int, ...]) -> None:
    assert len(ahead) + 1 < LEAST_CLOCKS or len(ahead) == LEAST_CLOCKS
    assert clocks(*ahead).far(0.0) == {}


def test_words_that_came_late_do_not_make_a_clock_wrong() -> None:
    found = clocks(0, 0, 0)
    for late in (-90_000, -70_000):
        found.tell(Clock("g", 2), late, 1.0)
    assert found.far(1.0) == {}
    found.tell(Clock("g", 2), -80_000, 1.0)
    assert found.far(1.0 + FRESH / 10) == {Clock("g", 2): -70_000}, "three of them do"


def test_who_is_silent_does_not_count() -> None:
    found = clocks(0, 0, DAY_MS)
    assert found.far(FRESH) == {Clock("g", 3): DAY_MS}
    assert found.far(FRESH + 1) == {}
    found.tell(Clock("g", 3), 0, FRESH + 1)
    found.tell(Clock("g", 1), 0, FRESH + 1)
    assert found.far(2 * FRESH) == {}, "what it said before is forgotten"


@pytest.mark.parametrize(
    ("ahead", "words"), [(61_000, "61 s ahead of"), (-7_200_000, "2.0 h behind"), (4 * DAY_MS, "4.0 days ahead of")]
)
def test_it_is_told_in_words(ahead: int, words: str) -> None:
    assert clocks(0, ahead).barred("g", 0.0) == {2: f"the clock of replica 2 is {words} the others'"}
    assert clocks(0, ahead).barred("other", 0.0) == {}


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM])
def test_a_master_with_a_wrong_clock_is_replaced_by_one_with_a_right_one(rule: Rule) -> None:
    heard = all_heard(10.0, rule)
    verdict = judge(group(rule), heard, 10.0, LEASE, {1: "its clock"})
    assert (verdict.reason, verdict.avoided) == ("its clock", 1)
    assert judge(group(rule), heard, 10.0, LEASE, {3: "its clock"}) == FINE
    verdict = judge(group(rule), heard, 10.0, LEASE, {1: "its clock", 2: "x", 3: "y"})
    assert (verdict.reason, verdict.problem) == ("", "its clock; too few replicas that may follow it report: none")


def test_under_async_nobody_loses_what_the_master_alone_has() -> None:
    verdict = judge(group(ASYNC), all_heard(10.0, ASYNC), 10.0, LEASE, {1: "its clock"})
    assert (verdict.reason, verdict.problem) == ("", "its clock")


def answer(replica: int, end: int) -> FenceAnswer:
    return FenceAnswer(Member(replica, "i"), 1, (1, 1), end, end, group().appointment)


def elected(*, wanted: int = 0, is_unclean: bool = False, barred: dict[int, str]) -> Appointment:
    election = Election(2, "t", latest=group().appointment, wanted=wanted, is_unclean=is_unclean)
    election.barred = barred
    for each in (answer(1, 9), answer(2, 99), answer(3, 50)):
        election.answered(each)
    return election.decide()


@pytest.mark.parametrize("is_unclean", [False, True])
def test_one_that_is_barred_counts_and_does_not_lead(is_unclean: bool) -> None:
    assert elected(is_unclean=is_unclean, barred={}).master == 2
    made = elected(is_unclean=is_unclean, barred={2: "its clock"})
    assert made.master == 3
    assert is_unclean or made.members == MEMBERS, "all in sync stay so"
    with pytest.raises(ElectionError, match=r"^its clock$"):
        elected(wanted=2, is_unclean=is_unclean, barred={2: "its clock"})
    with pytest.raises(ElectionError, match=r"nobody may lead: a; b; c"):
        elected(is_unclean=is_unclean, barred={1: "a", 2: "b", 3: "c"})


def test_the_controller_compares_with_its_own_time() -> None:
    wall = ManualClock()
    machine = Controller(Register(), "c", Random(1), wall.now_ms, ControllerOptions(lease=LEASE), 1)
    for replica, ahead in ((1, 0), (2, DAY_MS), (3, 20)):
        machine.clock_told("g", replica, wall.now_ms() + ahead, 1.0)
    machine.clock_told(CONTROLLERS, 2, wall.now_ms() - DAY_MS, 1.0)
    assert machine.clocks.far(1.0) == {Clock("g", 2): DAY_MS, Clock(CONTROLLERS, 2): -DAY_MS}
    assert len(ADDRESSES) == 3
