"""Elections that an operator asks for while a master serves: another one catches up, and leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType

import pytest

from entrepot.broker.controller.agreement import ControllerOptions, Effect, Propose, Reply, Tell
from entrepot.broker.controller.commands import Adopt, BeginElection
from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.register import Register
from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.replication.election import MAX_BEHIND_BYTES
from entrepot.domain.replication.mastership import NOBODY, Member
from tests.controller.test_liveness import IN_SYNC, LEASE, MEMBERS, QUORUM, group, heard

RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
END = 1 << 30


def leading(
    rule: Rule,
    ends: dict[int, int],
    lasts: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    members: tuple[Member, ...] = MEMBERS,
) -> Controller:
    """A controller that hears these replicas, with the ends of their logs and, if they lack the master's, their last
    starts; the master is replica 1.  `members`: the in-sync set."""
    register, decided = Register(), group(rule)
    appointment = replace(decided.appointment, members=members)
    assert register.apply(Adopt(decided.shape, appointment, (0, 0), "", 0)) == ""
    found = Controller(register, "c", Random(1), lambda: 0, ControllerOptions(lease=LEASE))
    found.led(0.0)
    for replica, end in ends.items():
        told = heard(replica, 0.0, rule)
        answer = told.report.answer
        report = told.report._replace(answer=answer._replace(end=end, last=lasts.get(replica, answer.last)))
        found.attached(told.shape, report, 0.0)
    return found


def elect(found: Controller, to: int, *lost: int) -> list[Effect]:
    return found.elect(7, "g", to, lost, 0.5, is_unclean=False)


def quiesced(effects: list[Effect]) -> int:
    """The replica that a master waits for."""
    [told] = [each for each in effects if isinstance(each, Tell)]
    assert told.replica == 1 and told.order.quiesce is not None
    return told.order.quiesce[0]


def refusal(effects: list[Effect]) -> str:
    [reply] = effects
    assert isinstance(reply, Reply) and reply.error is not None
    return reply.error.message


@RULES
@pytest.mark.parametrize("behind", [0, 1, 5_000_000, MAX_BEHIND_BYTES])
def test_one_whose_report_is_older_than_the_masters_is_waited_for(rule: Rule, behind: int) -> None:
    found = leading(rule, {1: END, 2: END - behind, 3: END})
    assert quiesced(elect(found, 2)) == 2


@RULES
def test_reports_from_before_the_masters_start_are_waited_for(rule: Rule) -> None:
    """A master that stops within a heartbeat of its opening has a successor."""
    earlier = {2: (0, 9), 3: (0, 9)}
    assert quiesced(elect(leading(rule, {1: END, 2: END - 99, 3: END - 99}, earlier), NOBODY)) in (2, 3)


def test_a_log_that_left_the_masters_before_its_start_is_not() -> None:
    found = leading(QUORUM, {1: END, 2: END + 1, 3: END - 99}, {2: (0, 9), 3: (0, 9)})
    told = "its log ends in epoch 0, that of replica 3 in epoch 1"
    assert refusal(elect(found, 2)) == f"replica 2 may lack what was confirmed: {told}"
    assert quiesced(elect(found, 3)) == 3


def test_one_that_is_not_in_sync_is_refused_by_that_name() -> None:
    found = leading(IN_SYNC, {1: END, 2: END, 3: END}, members=(MEMBERS[0], MEMBERS[2]))
    assert refusal(elect(found, 2)) == "replica 2 may lack what was confirmed: it is not in sync"


def test_one_that_lacks_much_is_refused_before_anybody_waits() -> None:
    found = leading(QUORUM, {1: END, 2: END - MAX_BEHIND_BYTES - 1, 3: END})
    told = f"its log ends at {END - MAX_BEHIND_BYTES - 1}, that of replica 3 at {END}"
    assert refusal(elect(found, 2)) == f"replica 2 may lack what was confirmed: {told}"
    assert quiesced(elect(found, 3)) == 3


@RULES
def test_without_a_name_it_is_another_one_than_the_master(rule: Rule) -> None:
    assert quiesced(elect(leading(rule, {1: END, 2: END - 9, 3: END - 10}), NOBODY)) in (2, 3)
    assert refusal(elect(leading(QUORUM, {1: END, 2: 9}), NOBODY)) == "replica 1 is master, and no other one may be"


@RULES
def test_the_present_master_is_not_elected_again(rule: Rule) -> None:
    assert refusal(elect(leading(rule, {1: END, 2: END, 3: END}), 1)) == "replica 1 is master, and it serves"


@RULES
def test_with_lost_ones_the_present_master_may_lead_a_smaller_set(rule: Rule) -> None:
    effects = elect(leading(rule, {1: END, 2: END}), NOBODY, 3)
    begun = [type(each.command) for each in effects if isinstance(each, Propose)]
    assert begun == [BeginElection] or quiesced(effects) == 2


@RULES
def test_without_the_master_nobody_is_waited_for(rule: Rule) -> None:
    effects = elect(leading(rule, {1: END, 2: END, 3: END}), 2, 1)
    assert [type(each.command) for each in effects if isinstance(each, Propose)] == [BeginElection]
