"""Liveness: the reports of a group's replicas, and the judgement of its master.

Soft state of one controller: nothing of it is agreed on. A wrong judgement costs only a needless election. Pure: time
is an argument, in seconds of any steady clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from entrepot.broker.controller.clocks import NONE_OFF, OffClocks
from entrepot.broker.controller.register import Group
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.control import NEVER, GroupShape, Report
from entrepot.domain.replication.mastership import NOBODY, Appointment, Member

Start = tuple[Member, int, tuple[str, ...]]


@dataclass(slots=True)
class Heard:
    """A replica's last report, of the time `at`. `is_attached`: it takes orders here. `idle_since`: time since which it
    has been master by name only. `lacks`: what its log has lost, in words, or empty. `before`: the start
    that reported before this one; `twin_at`: time when that reported again, as two processes do by turns."""

    shape: GroupShape
    report: Report
    at: float
    is_attached: bool = True
    idle_since: float | None = None
    lacks: str = ""
    before: Start | None = None
    twin_at: float = float("-inf")

    @property
    def start(self) -> Start:
        """The directory and the start that report."""
        return self.report.member, self.report.answer.run, self.report.answer.tokens[-1:]

    def follows(self, last: Heard) -> None:
        """Note whose report was the last one before, and whose had been before that."""
        self.before, self.twin_at = last.before, last.twin_at
        if self.start != last.start:
            self.before = last.start
            self.twin_at = self.at if self.start == last.before else last.twin_at

    def is_fresh(self, now: float, lease: float) -> bool:
        return self.is_attached and now - self.at < lease

    def has_lost_master(self, now: float, lease: float) -> bool:
        return self.report.master_silence + (now - self.at) >= lease

    @property
    def waits(self) -> bool:
        """True where it does not lead."""
        return self.report.role != "master"

    @property
    def is_apart(self) -> bool:
        """True if its connection to the master has ended."""
        return self.report.master_silence >= NEVER


class Verdict(NamedTuple):
    """A judgement. `reason` for an election, in words; empty where none is held. `avoided`: the replica that is not to
    win it. `problem`: a fault that no election would mend. `is_move`: the master serves, and lets the next one
    catch up first."""

    reason: str = ""
    avoided: int = NOBODY
    problem: str = ""
    is_move: bool = False


FINE = Verdict()


def candidates(appointment: Appointment, heard: Mapping[int, Heard], now: float, lease: float) -> dict[int, Heard]:
    """Return replicas whose answers elect by the rule: those that report now, with the directories that count, and with
    all that these had."""
    counted = appointment.members if appointment.rule.kind is RuleKind.IN_SYNC else appointment.known
    found = {member.replica: heard[member.replica] for member in counted if member.replica in heard}
    return {
        replica: each
        for replica, each in found.items()
        if each.is_fresh(now, lease) and each.report.member in counted and not each.lacks
    }


def judge(group: Group, heard: Mapping[int, Heard], now: float, lease: float, off: OffClocks = NONE_OFF) -> Verdict:
    """Return the judgement of a group's master. `off`: replicas whose clock is."""
    appointment = group.appointment
    rule = appointment.rule
    fault = _waits_ahead(appointment, candidates(appointment, heard, now, lease), off)
    fault = fault or _fault(appointment, heard, now, lease)
    if fault is None:
        return _by_clock(appointment, heard, now, lease, off)
    why, avoided, needs_lost = fault
    able = candidates(appointment, heard, now, lease)
    others = {replica: each for replica, each in able.items() if replica not in (appointment.master, *off.ahead)}
    if rule.kind is RuleKind.ASYNC and not group.shape.elects_async:
        return Verdict(problem=f"{why}; under the rule async an operator elects (entrepot cluster elect)")
    if not others or (rule.kind is RuleKind.QUORUM and len(able) < max(rule.fenced_answers, rule.required)):
        return Verdict(problem=f"{why}; too few replicas that may follow it report: {_names(others)}")
    lost = [replica for replica, each in others.items() if each.has_lost_master(now, lease)]
    if needs_lost and not lost:
        return Verdict(problem=f"{why}; replica {_names(others)} still hears it")
    least = rule.required if rule.kind is RuleKind.QUORUM else rule.min_in_sync
    if avoided and needs_lost and 1 + len(others) - len(lost) >= least:  # it confirms once those have left its set
        return Verdict(problem=f"{why}; enough replicas still hear it")
    seen = f", replica {_names(lost)} has lost it too" if needs_lost else ""
    return Verdict(f"{why}{seen}", appointment.master if avoided else NOBODY)


def _waits_ahead(appointment: Appointment, heard: Mapping[int, Heard], off: OffClocks) -> tuple[str, bool, bool] | None:
    """Return the fault of a master that has begun anew with a clock that is ahead: its start is not taken note of, so
    it does not go on."""
    master, reason = heard.get(appointment.master), off.ahead.get(appointment.master)
    return None if reason is None or master is None or not master.waits else (reason, True, False)


def _by_clock(
    appointment: Appointment, heard: Mapping[int, Heard], now: float, lease: float, off: OffClocks
) -> Verdict:
    """Return the judgement of a master that serves, by its clock: it lets one with a right clock catch up."""
    wrong = off.all
    if appointment.master not in wrong:
        return FINE
    reason = wrong[appointment.master]
    able = candidates(appointment, heard, now, lease)
    others = able.keys() - {appointment.master, *wrong}
    if appointment.rule.kind is RuleKind.ASYNC or not others:  # what it alone has is worth more
        return Verdict(problem=reason)
    if appointment.master not in able:  # it cannot be told to wait
        return Verdict(problem=reason)
    return Verdict(reason, appointment.master, is_move=True)


def judge_smaller(
    group: Group, made: Appointment, heard: Mapping[int, Heard], now: float, lease: float, asked_since: float
) -> Verdict:
    """Return the judgement of a set that its master wants smaller: FINE where it may have it.

    A set below `min_in_sync` takes no messages, and nobody but its members can be elected from then on. So an election
    is held once a replica that is to go has lost the master too, if it has enough others to lead. The two need not
    notice the loss at once: for that a lease is waited, from `asked_since`.
    """
    known, rule = group.appointment, made.rule
    if rule.kind is not RuleKind.IN_SYNC or len(made.members) >= rule.min_in_sync:
        return FINE
    gone = {member.replica for member in known.members} - {member.replica for member in made.members}
    there = sorted(gone & candidates(known, heard, now, lease).keys())
    fresh = {replica: each for replica, each in heard.items() if each.is_fresh(now, lease)}
    lost = {replica for replica in group.counting & fresh.keys() if fresh[replica].has_lost_master(now, lease)}
    lost.discard(made.master)
    if lost.intersection(there) and len(lost) >= rule.min_in_sync:
        return Verdict(
            f"replica {made.master} has lost replica {', '.join(map(str, there))}, which is there", made.master
        )
    if there and now - asked_since < lease:
        return Verdict(problem=f"replica {made.master} has lost replica {there[0]}, which has not lost it yet")
    return FINE


def _fault(
    appointment: Appointment, heard: Mapping[int, Heard], now: float, lease: float
) -> tuple[str, bool, bool] | None:
    """Return a master's fault: in words, True where it is not to win again, True where another replica must have lost
    it too. None without a fault."""
    number = appointment.master
    master = heard.get(number)
    if master is None:
        return f"replica {number} does not report", False, True
    silence = now - master.at
    if silence >= lease:
        return f"replica {number} has been silent for {silence:.1f} s", False, True
    able = candidates(appointment, heard, now, lease)
    others = [each for replica, each in able.items() if replica != number]
    if not master.is_attached and others and all(each.is_apart for each in others):
        return f"replica {number} has ended all its connections", False, True
    report = master.report
    if master.is_attached and master.lacks:
        return master.lacks, True, False
    if master.is_attached and report.member not in appointment.members:
        return f"replica {number} has come back with another directory", True, False
    if master.idle_since is not None and now - master.idle_since >= lease:
        return f"replica {number} does not lead: {report.problem or report.role}", True, False
    if report.sync_age >= lease and any(each.report.sync_age < lease for each in others):
        return f"the disk of replica {number} has synced nothing for {report.sync_age:.1f} s", True, False
    if report.confirm_age >= lease:
        return f"replica {number} has confirmed nothing for {report.confirm_age:.1f} s", True, True
    return None


def _names(replicas: Mapping[int, Heard] | list[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "none"
