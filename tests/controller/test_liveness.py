"""The judgement of masters: who is replaced, and why; and who is not, though something is wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from entrepot.broker.controller.agreement import ControllerOptions, Propose, Reply
from entrepot.broker.controller.commands import Adopt, BeginElection
from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.liveness import FINE, Heard, Verdict, judge, judge_smaller
from entrepot.broker.controller.register import Group, Register
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import NEVER, GroupShape, Report, SetChange
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Member

LEASE = 3.0
IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
ASYNC = Rule(RuleKind.ASYNC, 3)
MEMBERS = tuple(Member(replica, "i") for replica in (1, 2, 3))
ADDRESSES = ((1, "a:1"), (2, "a:2"), (3, "a:3"))


def group(rule: Rule = IN_SYNC) -> Group:
    return Group(GroupShape("g", ADDRESSES, rule), Appointment(1, 1, 1, rule, MEMBERS, MEMBERS))


def heard(replica: int, at: float, rule: Rule = IN_SYNC, *, incarnation: str = "i", **fields: object) -> Heard:
    appointment = group(rule).appointment
    answer = FenceAnswer(Member(replica, incarnation), 1, (1, 1), 9, 9, appointment)
    told = {"role": "master" if replica == 1 else "slave", "is_open": replica == 1, "master_silence": 0.0, **fields}
    return Heard(GroupShape("g", ADDRESSES, rule), Report(answer, **told), at)  # type: ignore[arg-type]


def all_heard(now: float, rule: Rule = IN_SYNC) -> dict[int, Heard]:
    return {replica: heard(replica, now, rule) for replica in (1, 2, 3)}


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM, ASYNC])
def test_a_master_that_reports_and_moves_is_fine(rule: Rule) -> None:
    assert judge(group(rule), all_heard(10.0, rule), 10.0 + LEASE - 0.1, LEASE) == FINE


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM])
def test_a_silent_master_is_replaced_when_another_one_has_lost_it_too(rule: Rule) -> None:
    """A controller that alone does not hear it elects nobody."""
    found = {replica: heard(replica, 10.0, rule) for replica in (2, 3)} | {1: heard(1, 10.0 - LEASE, rule)}
    verdict = judge(group(rule), found, 10.0, LEASE)
    assert verdict.reason == ""
    assert verdict.problem == "replica 1 has been silent for 3.0 s; replica 2, 3 still hears it"
    found[3].report = found[3].report._replace(master_silence=LEASE)
    verdict = judge(group(rule), found, 10.0, LEASE)
    assert verdict.reason == "replica 1 has been silent for 3.0 s, replica 3 has lost it too"
    assert verdict.avoided == NOBODY, "it may be back, and have most"


def test_one_that_has_closed_all_connections_is_not_waited_for() -> None:
    found = all_heard(10.0)
    found[1].is_attached = False
    assert judge(group(), found, 10.0, LEASE) == FINE, "the others hear it"
    for replica in (2, 3):
        found[replica].report = found[replica].report._replace(master_silence=NEVER)
    assert "has ended all its connections" in judge(group(), found, 10.0, LEASE).reason


STUCK = [
    ({"sync_age": LEASE}, "the disk of replica 1 has synced nothing for 3.0 s"),
    ({"confirm_age": LEASE}, "replica 1 has confirmed nothing for 3.0 s, replica 2, 3 has lost it too"),
]


@pytest.mark.parametrize(("fields", "reason"), STUCK, ids=["its disk", "its confirms"])
def test_a_master_that_is_stuck_is_replaced_by_another_one(fields: dict[str, float], reason: str) -> None:
    found = all_heard(10.0)
    found[1].report = found[1].report._replace(**fields)  # type: ignore[arg-type]
    for other in (2, 3):
        found[other].report = found[other].report._replace(master_silence=LEASE if "confirm_age" in fields else 0.0)
    assert judge(group(), found, 10.0, LEASE) == Verdict(reason, 1)


def test_disks_that_are_all_stuck_and_a_master_that_others_hear_elect_nobody() -> None:
    """No other one would confirm more."""
    found = all_heard(10.0)
    for each in found.values():
        each.report = each.report._replace(sync_age=LEASE)
    assert judge(group(), found, 10.0, LEASE) == FINE
    found[1].report = found[1].report._replace(confirm_age=LEASE)
    assert judge(group(), found, 10.0, LEASE).problem.endswith("replica 2, 3 still hears it")


def test_a_master_by_name_only_is_replaced() -> None:
    found = all_heard(10.0)
    found[1].report = found[1].report._replace(role="nobody", is_open=False, problem="it waits")
    found[1].idle_since = 10.0 - LEASE + 0.1
    assert judge(group(), found, 10.0, LEASE) == FINE, "it has a lease to begin"
    found[1].idle_since = 10.0 - LEASE
    assert judge(group(), found, 10.0, LEASE) == Verdict("replica 1 does not lead: it waits", 1)
    found[1] = heard(1, 10.0, incarnation="j")
    assert judge(group(), found, 10.0, LEASE) == Verdict("replica 1 has come back with another directory", 1)


@pytest.mark.failure(
    "The master dies, under `async`",
    group="Replicas of a broker",
    does="Nobody is elected, unless `broker.elects_async` is set: an operator elects (`entrepot cluster elect`).",
    lost="messages that it had not sent yet",
    told="`cluster show`: under the rule async an operator elects",
)
@pytest.mark.parametrize(
    ("rule", "others", "problem"),
    [
        (IN_SYNC, (), "too few replicas that may follow it report: none"),
        (QUORUM, (3,), "too few replicas that may follow it report: 3"),
        (ASYNC, (2, 3), "under the rule async an operator elects (entrepot cluster elect)"),
    ],
)
def test_nobody_is_fenced_for_an_election_that_cannot_be(rule: Rule, others: tuple[int, ...], problem: str) -> None:
    found = {replica: heard(replica, 10.0, rule, master_silence=NEVER) for replica in others}
    verdict = judge(group(rule), found, 10.0, LEASE)
    assert (verdict.reason, verdict.problem) == ("", f"replica 1 does not report; {problem}")


def test_replicas_with_directories_that_do_not_count_elect_nobody() -> None:
    found = {replica: heard(replica, 10.0, incarnation="j", master_silence=NEVER) for replica in (2, 3)}
    assert judge(group(), found, 10.0, LEASE).reason == ""


# -- the controller's own time -----------------------------------------------------------------------------------


def leading(at: float) -> Controller:
    """A controller that leads, of a group whose slaves have lost their master for long."""
    register = Register()
    decided = group()
    assert register.apply(Adopt(decided.shape, decided.appointment, (0, 0), "", 0)) == ""
    found = Controller(register, "c", Random(1), lambda: 0, ControllerOptions(lease=LEASE))
    found.led(at)
    for replica in (2, 3):
        told = heard(replica, at, master_silence=NEVER)
        found.attached(told.shape, told.report, at)
    return found


def test_a_master_that_begins_anew_goes_on_only_once_its_new_start_has_reported() -> None:
    """Its wish may overtake its report, which alone tells what its log lacks: a disk that was put back."""
    found = leading(100.0)
    known = found.register.groups["g"].appointment
    first = heard(1, 100.0)
    found.attached(first.shape, first.report, 100.0)
    start = first.report.answer._replace(run=2, tokens=("t",))
    change = SetChange(known.with_heard(start.history), known.order)

    def is_taken(request: int) -> bool:
        effects = found.change_set(request, "g", change, 100.1)
        assert effects == [Reply(request, known)] or any(isinstance(each, Propose) for each in effects)
        return effects != [Reply(request, known)]

    assert not is_taken(1)
    found.reported("g", first.report._replace(answer=start._replace(tokens=("other",))), 100.1)
    assert not is_taken(2), "that was another start"
    found.reported("g", first.report._replace(answer=start), 100.1)
    assert is_taken(3)


def elects(controller: Controller, now: float) -> bool:
    """Whether an election begins when its slaves report, and time has passed."""
    effects = controller.tick(now)
    for replica in (2, 3):
        effects += controller.reported("g", heard(replica, now, master_silence=NEVER).report, now)
    return any(isinstance(each, Propose) and isinstance(each.command, BeginElection) for each in effects)


def test_a_new_leader_gives_everybody_a_lease() -> None:
    found = leading(100.0)
    times = [100.0 + tick * 0.1 for tick in range(1, 40)]
    elected = next(now for now in times if elects(found, now))
    assert elected == pytest.approx(100.0 + LEASE, abs=0.11)


def test_one_that_was_paused_itself_judges_nobody_for_a_lease() -> None:
    """What came meanwhile waits to be read."""
    found = leading(100.0)
    for tick in range(1, 20):
        assert not elects(found, 100.0 + tick * 0.1)
    resumed = 200.0
    assert not elects(found, resumed)
    times = [resumed + tick * 0.1 for tick in range(1, 40)]
    assert next(now for now in times if elects(found, now)) == pytest.approx(resumed + LEASE, abs=0.11)


def test_one_that_does_not_lead_elects_nobody() -> None:
    found = leading(100.0)
    found.followed(100.0)
    assert not any(elects(found, 100.0 + tick * 0.1) for tick in range(1, 100))


@pytest.mark.failure_also("The master dies, under `async`")
def test_a_group_is_judged_by_its_settings() -> None:
    """Under `async` the settings may let controllers elect."""
    decided = group(ASYNC)
    able = Group(replace(decided.shape, elects_async=True), decided.appointment)
    found = {replica: heard(replica, 10.0, ASYNC, master_silence=NEVER) for replica in (2, 3)}
    assert judge(able, found, 10.0, LEASE).reason.startswith("replica 1 does not report, replica 2, 3 has lost it")


def of(*replicas: int) -> Appointment:
    """An appointment of master 1 with a set of these."""
    return replace(group().appointment, members=tuple(MEMBERS[replica - 1] for replica in replicas))


@pytest.mark.failure_also("Two of three replicas are lost, under `in-sync` with `min_in_sync` 2")
@pytest.mark.parametrize(
    ("known", "wanted", "silences", "said"),
    [
        ((1, 2, 3), (1, 2), {2: LEASE, 3: LEASE}, ""),  # enough are left
        ((1, 2, 3), (1,), {2: LEASE, 3: LEASE}, "replica 1 has lost replica 2, 3, which is there"),
        ((1, 2, 3), (1,), {2: LEASE, 3: 0.1}, "replica 1 has lost replica 2, which has not lost it yet"),
        ((1, 2), (1,), {2: LEASE, 3: LEASE}, "replica 1 has lost replica 2, which is there"),  # 3 is to follow it
        ((1, 2), (1,), {2: 0.1, 3: LEASE}, "replica 1 has lost replica 2, which has not lost it yet"),
        ((1, 2), (1,), {3: LEASE}, ""),  # only one of the set may lead
    ],
)
def test_a_set_that_takes_no_messages_is_the_last_way_out(
    known: tuple[int, ...], wanted: tuple[int, ...], silences: dict[int, float], said: str
) -> None:
    now = 10.0
    found = {1: heard(1, now)} | {each: heard(each, now, master_silence=silence) for each, silence in silences.items()}
    register = Group(GroupShape("g", ADDRESSES, IN_SYNC), of(*known))
    verdict = judge_smaller(register, of(*wanted), found, now, LEASE, asked_since=now - LEASE + 0.1)
    assert verdict.reason + verdict.problem == said
    later = judge_smaller(register, of(*wanted), found, now, LEASE, asked_since=now - LEASE)
    assert later == (FINE if "yet" in said else verdict), "it is not waited for longer than a lease"


@pytest.mark.failure_also("Two processes run with copies of one replica's directory")
def test_two_processes_that_report_as_one_replica_are_told() -> None:
    """One after the other is a restart; by turns they are two. Whether one of them has another directory or not."""
    found = leading(100.0)

    def problem(now: float) -> str:
        found.tick(now)
        [view] = found.views()
        return view.problem

    def reports(now: float, run: int, incarnation: str = "i") -> None:
        told = heard(3, now, incarnation=incarnation)
        answer = told.report.answer._replace(run=run, tokens=(f"{run}",))
        found.reported("g", told.report._replace(answer=answer), now)

    words = "two processes report as replica 3: stop one of them"
    reports(100.1, 1)
    reports(100.2, 2)
    reports(100.3, 2)
    assert words not in problem(100.3), "it has begun anew"
    reports(100.4, 1)
    assert words in problem(100.4), "the earlier one is there still"
    reports(100.5, 2)
    reports(100.6, 2)
    assert words in problem(100.6)
    assert words not in problem(100.5 + 2 * LEASE + 0.1), "one of them was stopped"
    reports(120.0, 2, "other")
    told = heard(3, 120.1, incarnation="i")
    found.attached(told.shape, told.report._replace(answer=told.report.answer._replace(run=2, tokens=("2",))), 120.1)
    assert words in problem(120.1)
