"""Controller: the leading controller's decisions, as a pure machine.

Events come in. Effects go out: commands for the log, orders to replicas, replies to requests.
Everything here except the register is soft: a new leader begins with nothing, and gives everybody one lease before it
judges. So does a leader that was paused.

ADR 50: controllers elect masters. Invariant: only the leader decides, and only committed decisions are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from entrepot.broker.controller.agreement import NOT_AGREED, Agreement, ControllerOptions, Effect
from entrepot.broker.controller.clocks import MemberClock, MemberClocks
from entrepot.broker.controller.commands import Adopt, ChangeSet, Reshape, WantReplicas
from entrepot.broker.controller.contest import Contest
from entrepot.broker.controller.elections import Elections
from entrepot.broker.controller.liveness import FINE, Heard, Verdict, judge, judge_smaller
from entrepot.broker.controller.register import MAX_GROUPS, Group, Register
from entrepot.broker.controller.replica_changes import changed
from entrepot.broker.controller.watched import Watched
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.control import GroupShape, GroupView, OrderAnswer, ReplicaChange, Report, SetChange
from entrepot.domain.replication.mastership import NOBODY, Appointment

NOT_LEADER: Final = "this controller does not lead the others"
FRESH_LEASES: Final = 4
"""Leases for which the last word of a member's clock counts."""
LEAST_FRESH_SECONDS: Final = 2.0
"""Least time for which it counts: controllers tell theirs twice a second."""
TWIN_LEASES: Final = 2
"""Leases for which two processes with one replica's id are told after the last turn of theirs."""


class Controller:
    """The machine. `cluster`: id of the controllers as a group. `wall_ms`: time of day, shown to people and compared
    with that of others. `now`: seconds of any steady clock. `number`: of this controller."""

    elections_type = Elections

    def __init__(
        self,
        register: Register,
        cluster: str,
        chance: Random,
        wall_ms: Callable[[], int],
        options: ControllerOptions,
        number: int = 0,
    ) -> None:
        self.register, self.cluster, self.options = register, cluster, options
        self.is_leader = False
        self.watched: dict[str, Watched] = {}
        self.clocks = MemberClocks(number, max(FRESH_LEASES * options.lease, LEAST_FRESH_SECONDS))
        self._agreement = Agreement(register, cluster, chance, wall_ms, options, self.clocks)
        self._elections = self.elections_type(self._agreement)
        self._ticked = self._judges_from = 0.0

    # -- leading -------------------------------------------------------------------------------------------------

    def led(self, now: float) -> list[Effect]:
        """Begin to lead: the register has everything committed before."""
        self.is_leader = True
        self._agreement.now = self._ticked = now
        self._judges_from = now + self.options.lease
        return self._agreement.done()

    def followed(self, now: float) -> list[Effect]:
        """Cease to lead: everything under way is another's."""
        self._agreement.now, self.is_leader = now, False
        self._agreement.forget()
        for watched in self.watched.values():
            self._elections.give_up(watched, Code.UNAVAILABLE, NOT_LEADER)
            watched.reshaping = None
        return self._agreement.done()

    def applied(self, token: int, reason: str, now: float) -> list[Effect]:
        """Note that a proposal is committed; `reason`: why it changed nothing."""
        self._agreement.now = now
        self._agreement.ended(token, reason)
        return self._agreement.done()

    def not_applied(self, token: int, now: float) -> list[Effect]:
        """Note that a proposal was refused, or its outcome is unknown."""
        self._agreement.now = now
        self._agreement.ended(token, None)
        return self._agreement.done()

    # -- replicas ------------------------------------------------------------------------------------------------

    def attached(self, shape: GroupShape, report: Report, now: float) -> list[Effect]:
        """Add a replica that takes orders from now on. Raises BAD_REQUEST where there are too many groups."""
        self._agreement.now = now
        if shape.name not in self.watched and len(self.watched) >= MAX_GROUPS:
            raise EntrepotError(Code.BAD_REQUEST, f"there are {MAX_GROUPS} groups")
        watched = self.watched.setdefault(shape.name, Watched(shape.name))
        if problem := self._stranger(shape.name, report):
            watched.problem = problem
            raise EntrepotError(Code.PRECONDITION_FAILED, problem)
        self._note_log(watched, watched.hear(Heard(shape, report, now)))
        self._look(watched)
        return self._agreement.done()

    def _stranger(self, name: str, report: Report) -> str:
        known, told = self.decided(name), report.answer.group
        if known is None or not known.group or told in ("", known.group):
            return ""
        return f"replica {report.member.replica} has the data of another group than {name} is: {told}"

    def detached(self, name: str, replica: int, now: float) -> list[Effect]:
        """Note that a replica's connection has ended."""
        self._agreement.now = now
        watched = self.watched.get(name)
        if watched is not None and replica in watched.heard:
            watched.heard[replica].is_attached = False
            self._elections.gone(watched, replica)
            self._look(watched)
        return self._agreement.done()

    def reported(self, name: str, report: Report, now: float) -> list[Effect]:
        """Take a replica's heartbeat."""
        self._agreement.now = now
        watched = self.watched.get(name)
        known = None if watched is None else watched.heard.get(report.member.replica)
        if watched is not None and known is not None:
            heard = watched.hear(replace(known, report=report, at=now))
            self._note_idle(watched, heard)
            self._note_log(watched, heard)
            self._look(watched)
        return self._agreement.done()

    def clock_told(self, member: MemberClock, clock_ms: int, error_ms: int, now: float) -> bool | None:
        """Note what a member's clock says; `error_ms`: by how much its system's is ahead of that. Return True if most
        clocks agree with it; None where another controller leads."""
        ahead = clock_ms - self._agreement.wall_ms()
        self.clocks.tell(member, ahead, ahead + error_ms, now)
        return self.clocks.is_right(member, now) if self.is_leader else None

    def _note_idle(self, watched: Watched, heard: Heard) -> None:
        known = self.decided(watched.name)
        if known is None or known.master != heard.report.member.replica or heard.report.role == "master":
            heard.idle_since = None
        elif heard.idle_since is None:
            heard.idle_since = self._agreement.now

    def _note_log(self, watched: Watched, heard: Heard) -> None:
        answer, known = heard.report.answer, self.decided(watched.name)
        if known is not None and known.is_unclean:
            watched.logs.give_up(known.epoch)
        watched.logs.note(answer, is_open=heard.report.is_open and heard.report.role == "master")
        heard.lacks = ""
        if known is not None and known.rule.kind is not RuleKind.ASYNC:
            is_master = known.master == answer.member.replica
            heard.lacks = watched.logs.lacks_own(answer, known)
            heard.lacks = heard.lacks or (watched.logs.lacks_opened(answer, known) if is_master else "")

    def obeyed(self, name: str, replica: int, answer: OrderAnswer, now: float) -> list[Effect]:
        """Take a replica's answer to an order."""
        self._agreement.now = now
        watched = self.watched.get(name)
        if watched is not None and self.is_leader:
            self._elections.obeyed(watched, replica, answer)
        return self._agreement.done()

    def decided(self, name: str) -> Appointment | None:
        """Return the last appointment of a group, or None before its first one."""
        return self._agreement.decided(name)

    def wanted(self, name: str) -> tuple[int, ...]:
        """Return the ids of a group's replicas that an operator has count; empty without an operator's choice."""
        group = self.register.groups.get(name)
        return () if group is None else group.wanted

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Effect]:
        """Advance the time; to be called each `options.tick` seconds."""
        if now - self._ticked > self.options.lease / 2:  # it was paused: waiting messages are read first
            self._judges_from = now + self.options.lease
        self._agreement.now = self._ticked = now
        if self.is_leader:
            for watched in self.watched.values():
                if watched.contest is not None and now >= watched.contest.deadline:
                    self._elections.overdue(watched, watched.contest)
                self._look(watched)
        return self._agreement.done()

    def _look(self, watched: Watched) -> None:
        """Do the group's next step."""
        if not self.is_leader:
            return
        if watched.contest is not None:
            self._elections.look(watched, watched.contest)
            return
        group = self.register.groups.get(watched.name)
        if self._agreement.now < watched.not_before:
            return
        if group is None or self._is_behind(group, watched):
            self._take_in(watched, group)
        elif not group.appointment.known:
            self._elect_first(watched, group)
        elif group.is_electing:
            self._elections.begin(watched, Contest(watched.name, group.reason))
        else:
            self._keep_shape(watched, group)
            self._judge(watched, group)

    def _judge(self, watched: Watched, group: Group) -> None:
        if self._agreement.now < self._judges_from:
            return
        now = self._agreement.now
        verdict = judge(group, watched.heard, now, self.options.lease, self.clocks.off(watched.name, now))
        watched.problem = verdict.problem
        if verdict.reason and verdict.is_move:
            self._elections.move(watched, verdict.reason)
        elif verdict.reason:
            self._elections.begin(watched, Contest(watched.name, verdict.reason, avoided=verdict.avoided))

    # -- new groups ----------------------------------------------------------------------------------------------

    def _is_behind(self, group: Group, watched: Watched) -> bool:
        """True if replicas know of an appointment that these controllers lost, or others made."""
        return any(each.report.appointment.epoch > group.appointment.epoch for each in watched.heard.values())

    def _take_in(self, watched: Watched, group: Group | None) -> None:
        """Take a group in once all its replicas were heard: then none of them may know of a later master."""
        agreement = self._agreement
        fresh = watched.fresh(agreement.now, self.options.lease)
        if not fresh:
            return
        shape = fresh[min(fresh)].shape
        if len({(each.shape.counting, each.shape.rule) for each in fresh.values()}) > 1:
            watched.problem = "its replicas are set up differently: each must name the same replicas and rule"
            return
        if missing := shape.counting - fresh.keys():
            watched.problem = f"its replicas are not all there yet: {', '.join(map(str, sorted(missing)))} is missing"
            return
        watched.problem = ""
        latest = max((each.report.appointment for each in fresh.values()), key=lambda each: each.order)
        appointment = latest if latest.known else Appointment(rule=shape.rule)
        base = (0, 0) if group is None else group.appointment.order
        reason = f"replica {latest.master} was master when the controllers came" if latest.known else ""
        watched.not_before = agreement.now + self.options.again

        def taken_in(reason: str | None) -> None:
            if reason == "":
                watched.not_before = 0.0
                self._elections.tell_decided(watched)
                self._look(watched)

        agreement.propose(Adopt(shape, appointment, base, reason, agreement.wall_ms()), taken_in)

    def _elect_first(self, watched: Watched, group: Group) -> None:
        if group.counting <= watched.fresh(self._agreement.now, self.options.lease).keys():
            self._elections.begin(watched, Contest(watched.name, "it is the first master of its group"))
        else:
            watched.problem = "its first master needs all its replicas, and not all report"

    def _keep_shape(self, watched: Watched, group: Group) -> None:
        """Follow the master's settings: addresses move."""
        master = watched.heard.get(group.appointment.master)
        if master is None or master.shape == group.shape or watched.reshaping is not None:
            return
        watched.reshaping = master.shape

        def reshaped(reason: str | None) -> None:
            watched.reshaping = None

        self._agreement.propose(Reshape(master.shape), reshaped)

    # -- requests ------------------------------------------------------------------------------------------------

    def elect(
        self, request: int, name: str, to: int, lost: Sequence[int], now: float, *, is_unclean: bool
    ) -> list[Effect]:
        """Elect a master for an operator; 0: the best replica."""
        self._agreement.now = now
        try:
            group, watched = self._led(name)
            if watched.contest is not None:
                text = f"an election of group {name} is under way: try again"
                raise EntrepotError(Code.PRECONDITION_FAILED, text)
            if unknown := {to, *lost} - {NOBODY, *(replica for replica, _ in group.shape.replicas)}:
                raise EntrepotError(Code.BAD_REQUEST, f"group {name} has no replica {min(unknown)}")
        except EntrepotError as error:
            self._agreement.refuse(request, error.code, error.message)
        else:
            self._elections.ask(request, watched, to, lost, is_unclean=is_unclean)
        return self._agreement.done()

    def _led(self, name: str) -> tuple[Group, Watched]:
        """Return the group that an operator means. Raises UNAVAILABLE, BAD_REQUEST."""
        group, watched = self.register.groups.get(name), self.watched.get(name)
        if not self.is_leader:
            raise EntrepotError(Code.UNAVAILABLE, NOT_LEADER)
        if group is None or watched is None:
            raise EntrepotError(Code.BAD_REQUEST, f"the controllers know no group {name!r}")
        return group, watched

    def change_replicas(self, request: int, name: str, replica: int, change: ReplicaChange, now: float) -> list[Effect]:
        """Make a replica count, or not, for an operator; the reply is the group's view."""
        self._agreement.now = now
        agreement = self._agreement
        try:
            group, watched = self._led(name)
            counting = changed(group, replica, change, watched.fresh(now, self.options.lease))
        except EntrepotError as error:
            agreement.refuse(request, error.code, error.message)
            return agreement.done()

        def wanted(reason: str | None) -> None:
            if reason == "":
                agreement.reply(request, self._view(name))
            else:
                agreement.refuse(request, Code.UNAVAILABLE, reason or NOT_AGREED)

        agreement.propose(WantReplicas(name, tuple(sorted(counting))), wanted)
        return agreement.done()

    def change_set(self, request: int, name: str, change: SetChange, now: float) -> list[Effect]:
        """Change a master's set; the reply is the appointment decided then."""
        self._agreement.now = now
        agreement, group, watched = self._agreement, self.register.groups.get(name), self.watched.get(name)
        if not self.is_leader or group is None or watched is None:
            problem = f"the controllers know no group {name!r}" if self.is_leader else NOT_LEADER
            agreement.refuse(request, Code.UNAVAILABLE, problem)
            return agreement.done()
        made, master = change.appointment, watched.heard.get(change.appointment.master)
        if master is not None and master.lacks:  # it would have others give up what they have
            watched.problem = master.lacks
            agreement.reply(request, group.appointment)
        elif master is not None and master.waits and self._has_doubtful_clock(group, watched, made.master):
            agreement.reply(request, group.appointment)  # it goes on once its start is taken note of
        elif change.base != group.appointment.order or group.is_electing or watched.must_wait(made, group.appointment):
            agreement.reply(request, group.appointment)
        elif (verdict := self._judge_smaller(group, made, watched)) != FINE:
            watched.problem = verdict.reason or verdict.problem
            agreement.reply(request, group.appointment)
            if verdict.reason and agreement.now >= max(self._judges_from, watched.not_before):
                self._elections.begin(watched, Contest(name, verdict.reason, avoided=made.master))
        else:
            command = ChangeSet(name, made, change.base)
            agreement.propose(command, lambda reason: self._set_changed(request, name, reason))
        return agreement.done()

    def _has_doubtful_clock(self, group: Group, watched: Watched, replica: int) -> bool:
        """Return True for a clock that is ahead, or may be: others are not known so soon after all were away."""
        now = self._agreement.now
        if reason := self.clocks.off(watched.name, now).ahead.get(replica):
            watched.problem = reason
            return True
        return now < self._judges_from and not self.clocks.are_known(len(group.shape.replicas), now)

    def _judge_smaller(self, group: Group, made: Appointment, watched: Watched) -> Verdict:
        now, order = self._agreement.now, group.appointment.order
        if watched.smaller_than != order:
            watched.smaller_than, watched.smaller_since = order, now
        return judge_smaller(group, made, watched.heard, now, self.options.lease, watched.smaller_since)

    def _set_changed(self, request: int, name: str, reason: str | None) -> None:
        appointment = self.decided(name)
        if reason is None or appointment is None:
            self._agreement.refuse(request, Code.UNAVAILABLE, NOT_AGREED)
        else:
            self._agreement.reply(request, appointment)

    def views(self) -> list[GroupView]:
        """Return every group as it is known here."""
        return [self._view(name) for name in sorted({*self.register.groups, *self.watched})]

    def _view(self, name: str) -> GroupView:
        group, watched = self.register.groups.get(name), self.watched.get(name)
        now, problem, wrong = self._agreement.now, "", list[str]()
        if watched is not None:
            problem, wrong = watched.problem, watched.wrong(now - TWIN_LEASES * self.options.lease)
        wrong += self.clocks.off(name, now).all.values()
        problem = "; ".join(filter(None, (problem, *(each for each in wrong if each not in problem))))
        if group is None:
            return GroupView(name, Appointment(), problem=problem)
        electing = group.electing.epoch if group.is_electing else 0
        counting = tuple(sorted(group.counting))
        return GroupView(name, group.appointment, group.reason, group.decided_ms, electing, problem, counting)
