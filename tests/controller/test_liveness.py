"""The judgement of a master: when it is replaced, and when that would help nobody."""

from __future__ import annotations

from typing import Any

import pytest

from broker.controller.liveness import FINE, Heard, judge
from broker.controller.register import Group
from domain.replication.control import NEVER, GroupShape, Report
from domain.replication.mastership import Appointment, FenceAnswer, Member
from domain.replication.rule import Rule, RuleKind

LEASE = 3.0
NOW = 100.0
MEMBERS = tuple(Member(number, f"{number:032x}") for number in (1, 2, 3))
IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)


def group(rule: Rule, *, elects_async: bool = False) -> Group:
    shape = GroupShape("group", tuple((number, f"host{number}:1") for number in (1, 2, 3)), rule, (), elects_async)
    return Group(shape, Appointment(1, 0, 1, rule, MEMBERS, MEMBERS))


def heard(replica: int, at: float = NOW, **told: Any) -> Heard:
    answer = FenceAnswer(MEMBERS[replica - 1], 1, (1, 1), 10, 10, Appointment())
    told = {"role": "master" if replica == 1 else "slave", "master_silence": 0.0, **told}
    return Heard(GroupShape("group"), Report(answer, **told), at)


def verdict(rule: Rule, *reports: Heard, **shape: bool) -> Any:
    return judge(group(rule, **shape), {each.report.member.replica: each for each in reports}, NOW, LEASE)


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
def test_a_master_that_reports_and_confirms_is_fine(rule: Rule) -> None:
    assert verdict(rule, heard(1), heard(2), heard(3)) == FINE


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
def test_a_silent_master_is_replaced_only_if_another_replica_has_lost_it(rule: Rule) -> None:
    silent = heard(1, NOW - 4)
    assert verdict(rule, silent, heard(2, master_silence=4.0), heard(3)).reason
    found = verdict(rule, silent, heard(2), heard(3))
    assert (found.reason, "still hears it" in found.problem) == ("", True)


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
def test_a_master_that_nobody_hears_is_replaced_though_it_reports(rule: Rule) -> None:
    apart = [heard(number, master_silence=NEVER) for number in (2, 3)]
    found = verdict(rule, heard(1, confirm_age=4.0), *apart)
    assert (found.avoided, "confirmed nothing for 4.0 s" in found.reason) == (1, True)


@pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
def test_a_master_that_enough_replicas_hear_is_not(rule: Rule) -> None:
    """It confirms again once the other one has left its set; a successor would meet the same."""
    found = verdict(rule, heard(1, confirm_age=4.0), heard(2, master_silence=NEVER), heard(3))
    assert (found.reason, "enough replicas still hear it" in found.problem) == ("", True)


def test_a_disk_that_syncs_nothing_is_left_for_one_that_does() -> None:
    stuck = heard(1, sync_age=4.0)
    assert "synced nothing" in verdict(IN_SYNC, stuck, heard(2), heard(3)).reason
    assert verdict(IN_SYNC, stuck, heard(2, sync_age=5.0), heard(3, sync_age=5.0)) == FINE, "all disks are slow"


def test_under_async_an_operator_elects() -> None:
    rule = Rule(RuleKind.ASYNC, 3)
    lost = heard(2, master_silence=NEVER)
    assert "an operator elects" in verdict(rule, lost).problem
    assert verdict(rule, lost, elects_async=True).reason


def test_a_quorum_needs_enough_answers() -> None:
    rule = Rule(RuleKind.QUORUM, 3, 2)
    assert "too few replicas" in verdict(rule, heard(2, master_silence=NEVER)).problem
    assert verdict(rule, heard(2, master_silence=NEVER), heard(3, master_silence=NEVER)).reason
