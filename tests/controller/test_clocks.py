"""Clocks of members are compared: one far from most of them leads no group, and is told."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.controller.agreement import ControllerOptions
from entrepot.broker.controller.clocks import CONTROLLERS, MemberClock, MemberClocks, OffClocks
from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.liveness import FINE, Verdict, judge
from entrepot.broker.controller.register import Register
from entrepot.domain.clock import MAX_APART_MS
from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.replication.election import Election, ElectionError
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member
from tests.controller.test_liveness import ADDRESSES, ASYNC, IN_SYNC, LEASE, MEMBERS, QUORUM, all_heard, group
from tests.support.clock import ManualClock

DAY_MS = 86_400_000
FRESH = 12.0


def clocks(*ahead_ms: int, own: int = 1) -> MemberClocks:
    """The controller's own clock, and those of the replicas 1, 2, ... of a group."""
    found = MemberClocks(own, FRESH)
    for number, each in enumerate(ahead_ms, 1):
        found.tell(MemberClock("g", number), each, each, 0.0)
    return found


@pytest.mark.failure_also("A slave's clock is a minute or more from most others'")
@pytest.mark.parametrize("ahead", [DAY_MS, -DAY_MS, MAX_APART_MS + 1, -MAX_APART_MS - 1])
def test_one_of_three_is_barred(ahead: int) -> None:
    assert clocks(0, ahead).far(0.0) == {MemberClock("g", 2): ahead}
    assert clocks(5, MAX_APART_MS).far(0.0) == {}


def test_it_may_be_the_controller_that_is_wrong() -> None:
    found = clocks(DAY_MS, DAY_MS + 3, DAY_MS)
    assert found.far(0.0) == {MemberClock(CONTROLLERS, 1): -DAY_MS}
    assert found.off("g", 0.0).all == {}
    assert found.problem(0.0) == "the clock of controller 1 is 1.0 days behind the others'"


@pytest.mark.parametrize("ahead", [(DAY_MS,), (DAY_MS, DAY_MS, 0), (DAY_MS, -DAY_MS, 3 * DAY_MS)])
def test_without_a_majority_nobody_is_judged(ahead: tuple[int, ...]) -> None:
    assert clocks(*ahead).far(0.0) == {}


def test_words_that_came_late_do_not_make_a_clock_wrong() -> None:
    found = clocks(0, 0, 0)
    for late in (-90_000, -70_000):
        found.tell(MemberClock("g", 2), late, late, 1.0)
    assert found.far(1.0) == {}
    found.tell(MemberClock("g", 2), -80_000, -80_000, 1.0)
    assert found.far(1.0 + FRESH / 10) == {MemberClock("g", 2): -70_000}, "three of them do"


def test_who_is_silent_does_not_count() -> None:
    found = clocks(0, 0, DAY_MS)
    assert found.far(FRESH) == {MemberClock("g", 3): DAY_MS}
    assert found.far(FRESH + 1) == {}
    found.tell(MemberClock("g", 3), 0, 0, FRESH + 1)
    found.tell(MemberClock("g", 1), 0, 0, FRESH + 1)
    assert found.far(2 * FRESH) == {}, "what it said before is forgotten"


@pytest.mark.parametrize(
    ("ahead", "words"), [(61_000, "61 s ahead of"), (-7_200_000, "2.0 h behind"), (4 * DAY_MS, "4.0 days ahead of")]
)
def test_it_is_told_in_words(ahead: int, words: str) -> None:
    assert clocks(0, ahead).off("g", 0.0).all == {2: f"the clock of replica 2 is {words} the others'"}
    assert clocks(0, ahead).off("other", 0.0).all == {}


@pytest.mark.failure_also("The master's clock is a minute or more from most others'")
@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM])
@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_master_with_a_wrong_clock_lets_one_with_a_right_one_catch_up(rule: Rule, is_ahead: bool) -> None:
    def verdict(*wrong: int) -> Verdict:
        words = {each: f"clock {each}" for each in wrong}
        off = OffClocks(words, {}) if is_ahead else OffClocks({}, words)
        return judge(group(rule), all_heard(10.0, rule), 10.0, LEASE, off)

    assert verdict(1) == Verdict("clock 1", 1, is_move=True)
    assert verdict(2) == verdict(3) == FINE
    assert verdict(1, 2, 3) == Verdict(problem="clock 1"), "nobody else has a better one"


@pytest.mark.failure_also("A slave's clock is a minute or more from most others'")
def test_a_master_that_takes_no_orders_is_not_asked_to_wait() -> None:
    """Its slaves hear it still: nothing is wrong but its clock, and its connection to the controllers has ended."""
    heard = all_heard(10.0)
    heard[1].is_attached = False
    for replica in (2, 3):
        heard[replica].report = heard[replica].report._replace(master_silence=0.0)
    assert judge(group(), heard, 10.0, LEASE, OffClocks({1: "its clock"}, {})) == Verdict(problem="its clock")


def test_a_clock_that_has_just_changed_is_looked_at_again() -> None:
    """A process that begins anew tells its clock, and may be elected at once."""
    found = clocks(0, 0)
    assert found.far(0.0) == {}
    for _ in range(2):
        found.tell(MemberClock("g", 2), DAY_MS, DAY_MS, 0.001)
    assert found.far(0.001) == {MemberClock("g", 2): DAY_MS}


def test_a_clock_is_called_right_if_most_agree_with_it() -> None:
    found = clocks(3, DAY_MS, 5)
    assert [found.is_right(MemberClock("g", number), 0.0) for number in (1, 2, 3, 4)] == [True, False, True, False]
    assert not clocks(3).is_right(MemberClock("g", 1), 0.0), "of two none is the odd one"
    assert not clocks(DAY_MS, -DAY_MS).is_right(MemberClock("g", 1), 0.0), "no two agree"


@pytest.mark.parametrize(("replicas", "are_known"), [(4, True), (5, True), (6, False)])
def test_clocks_are_known_once_most_are_heard(replicas: int, are_known: bool) -> None:
    assert clocks(0, 0).are_known(replicas, 0.0) is are_known
    assert not clocks(0, 0).are_known(replicas, FRESH + 1), "words that are old do not count"
    assert not clocks(0).are_known(2, 0.0), "of two none is the odd one"


def test_where_a_master_is_lost_one_that_is_behind_may_lead_and_one_ahead_may_not() -> None:
    heard = all_heard(10.0)
    heard[1].at = 10.0 - LEASE
    for replica in (2, 3):
        heard[replica].report = heard[replica].report._replace(master_silence=LEASE)
    words = {2: "clock 2", 3: "clock 3"}
    assert judge(group(), heard, 10.0, LEASE, OffClocks({}, words)).reason
    assert (
        "too few replicas that may follow it report: none"
        in judge(group(), heard, 10.0, LEASE, OffClocks(words, {})).problem
    )


@pytest.mark.failure(
    "The master's clock is a minute or more from most others', under `async`",
    group="Clocks",
    does="It stays master.",
    lost="nothing",
    told="`cluster show`",
)
def test_under_async_nobody_loses_what_the_master_alone_has() -> None:
    verdict = judge(group(ASYNC), all_heard(10.0, ASYNC), 10.0, LEASE, OffClocks({1: "its clock"}, {}))
    assert (verdict.reason, verdict.problem) == ("", "its clock")


def told(*members: tuple[int, int]) -> dict[int, int]:
    """Distances of replicas that are off, each with its clock and by how much its system's is ahead of that.

    The controller's own are right."""
    found = MemberClocks(1, FRESH)
    for number, (ahead, error) in enumerate(members, 1):
        found.tell(MemberClock("g", number), ahead, ahead + error, 0.0)
    return {each.number: ahead for each, ahead in found.far(0.0).items()}


BEHIND = (-600_000, 600_000)
"""A process whose system was set ten minutes ahead."""


def test_who_is_restarted_after_all_systems_were_set_is_right() -> None:
    """The controller and most replicas still follow: they are no measure for those that are right already."""
    ahead = (600_000, 0)
    found = MemberClocks(1, FRESH)
    found.tell(MemberClock(CONTROLLERS, 1), 0, 600_000, 0.0)
    for number, (clock, error) in enumerate([(0, 600_000), (0, 600_000), ahead], 1):
        found.tell(MemberClock("g", number), clock, clock + error, 0.0)
    assert found.far(0.0) == {}
    assert told(BEHIND, (0, 0), (0, 0)) == {1: -600_000}, "later the last one is"


def test_one_whose_system_was_set_right_is_off_until_it_has_followed() -> None:
    assert told((4 * DAY_MS, -4 * DAY_MS), (0, 0), (0, 0)) == {1: 4 * DAY_MS}
    assert told((50_000, -50_000), (0, 0), (0, 0)) == {}


def answer(replica: int, end: int) -> FenceAnswer:
    return FenceAnswer(Member(replica, "i"), 1, (1, 1), end, 9, group().appointment)


def elected(
    *, wanted: int = 0, is_unclean: bool = False, barred: dict[int, str], deferred: tuple[int, ...] = ()
) -> Appointment:
    election = Election(2, "t", latest=group().appointment, wanted=wanted, is_unclean=is_unclean)
    election.barred, election.deferred = barred, deferred
    for each in (answer(1, 9), answer(2, 99), answer(3, 50)):
        election.answered(each)
    return election.decide()


@pytest.mark.parametrize("is_unclean", [False, True])
def test_one_that_is_barred_counts_and_does_not_lead(is_unclean: bool) -> None:
    assert elected(is_unclean=is_unclean, barred={}).master == 2
    made = elected(is_unclean=is_unclean, barred={2: "its clock"})
    assert made.master == 3
    assert is_unclean or made.members == MEMBERS, "all in sync stay so"
    assert elected(is_unclean=is_unclean, barred={}, deferred=(2,)).master == 3
    assert elected(is_unclean=is_unclean, barred={}, deferred=(1, 2, 3)).master == 2
    assert elected(is_unclean=is_unclean, barred={}, deferred=(2,), wanted=2).master == 2
    with pytest.raises(ElectionError, match=r"^its clock$"):
        elected(wanted=2, is_unclean=is_unclean, barred={2: "its clock"})
    with pytest.raises(ElectionError, match=r"nobody may lead: a; b; c"):
        elected(is_unclean=is_unclean, barred={1: "a", 2: "b", 3: "c"})


def test_the_controller_compares_with_its_own_time() -> None:
    wall = ManualClock()
    machine = Controller(Register(), "c", Random(1), wall.now_ms, ControllerOptions(lease=LEASE), 1)
    for replica, ahead in ((1, 0), (2, DAY_MS), (3, 20)):
        machine.clock_told(MemberClock("g", replica), wall.now_ms() + ahead, 0, 1.0)
    machine.clock_told(MemberClock(CONTROLLERS, 2), wall.now_ms() - DAY_MS, 0, 1.0)
    assert machine.clocks.far(1.0) == {MemberClock("g", 2): DAY_MS, MemberClock(CONTROLLERS, 2): -DAY_MS}
    assert len(ADDRESSES) == 3
