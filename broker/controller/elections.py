"""Elections: the steps by which the leading controller has a group's next master promised, chosen and told.

    end the old mastership (commit) -> fence -> choose by the rule -> commit -> tell

A planned move lets its target catch up first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.broker.controller.agreement import NOT_AGREED, Agreement
from entrepot.broker.controller.clocks import OffClocks
from entrepot.broker.controller.commands import BeginElection, Decide
from entrepot.broker.controller.contest import Contest, Phase
from entrepot.broker.controller.liveness import Heard
from entrepot.broker.controller.register import Group
from entrepot.broker.controller.watched import Watched
from entrepot.domain.errors import Code
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.control import Order, OrderAnswer
from entrepot.domain.replication.election import ElectionError, caught_up, not_moved
from entrepot.domain.replication.mastership import NOBODY, FenceAnswer, Promise

GENTLE_SECONDS: Final = 1.0
"""Longest pause of a move that nobody has asked for."""


class Elections:
    """The elections of all groups; one at a time of each."""

    contest_type = Contest

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._register, self._options = agreement.register, agreement.options

    # -- by an operator ------------------------------------------------------------------------------------------

    def ask(self, request: int, watched: Watched, to: int, lost: Sequence[int], *, is_unclean: bool) -> None:
        """Elect a master for an operator; 0: the best replica that is not master now, or with lost ones the best."""
        group = self._register.groups[watched.name]
        wanted = f"wants replica {to}" if to else "wants an election"
        known = group.appointment.master
        master = self._reachable(watched).get(known)
        serving = known if known not in lost and master is not None and master.report.is_open else NOBODY
        contest = self.contest_type(
            watched.name,
            f"an operator {wanted}{', unclean' if is_unclean else ''}",
            wanted=to,
            avoided=NOBODY if lost else serving,  # without lost ones the present master may lead a smaller set
            lost=lost,
            is_unclean=is_unclean,
            requests=[request],
        )
        self._move(watched, contest, serving)

    def move(self, watched: Watched, reason: str) -> None:
        """Have a master that serves replaced, as its clock is off."""
        master = self._register.groups[watched.name].appointment.master
        self._move(watched, self.contest_type(watched.name, reason, avoided=master, is_gentle=True), master)

    def _move(self, watched: Watched, contest: Contest, serving: int) -> None:
        """Let the next master catch up, if one serves now; nobody is fenced for an impossible election."""
        try:
            target = self._try_out(contest, watched, self._register.groups[watched.name], serving)
        except ElectionError as error:
            for request in contest.requests:
                self._agreement.refuse(request, Code.PRECONDITION_FAILED, str(error))
            if not contest.requests:
                self._failed(watched, contest, str(error))
            return
        if serving not in (NOBODY, target):
            self._quiesce(watched, contest, serving, target)
        else:
            self.begin(watched, contest)

    def _try_out(self, contest: Contest, watched: Watched, group: Group, serving: int) -> int:
        """Return who would be elected, by the replicas as they are now. `serving`: the master that lets the next one
        catch up, so that others' logs count as long as its own. Raises ElectionError."""
        contest.answers = {r: h.report.answer for r, h in self._reachable(watched).items() if r not in contest.lost}
        if serving != NOBODY and not contest.is_unclean:
            even = caught_up(contest.answers.values(), serving)
            contest.answers = {answer.member.replica: answer for answer in even}
        contest.promise = Promise(self._next_epoch(watched, group), "")
        off = self._off(watched)
        found = contest.decide(group.appointment, group.counting, off, watched.logs)
        contest.answers = {}
        if contest.avoided != NOBODY and found.master == contest.avoided and contest.wanted in (NOBODY, found.master):
            raise not_moved(found.master, contest.wanted)
        if contest.wanted in (NOBODY, found.master):
            return found.master
        if contest.wanted in off.ahead:
            raise ElectionError(off.ahead[contest.wanted])
        if contest.wanted not in self._reachable(watched):
            raise ElectionError(f"replica {contest.wanted} does not report")
        if not group.appointment.counts(contest.wanted):
            raise ElectionError(f"replica {contest.wanted} is an observer: it counts for nothing, and is never master")
        raise ElectionError(contest.why_not)

    def _quiesce(self, watched: Watched, contest: Contest, master: int, target: int) -> None:
        """Have the master take nothing more until the next one has all."""
        contest.target = target
        seconds = GENTLE_SECONDS if contest.is_gentle else self._options.catch_up
        contest.phase, contest.order = Phase.QUIESCING, self._agreement.number()
        contest.deadline = self._agreement.now + seconds + self._options.fence
        watched.contest = contest
        order = Order(contest.order, self._agreement.cluster, quiesce=(target, seconds))
        self._agreement.tell(watched.name, master, order)

    def _quiesced(self, watched: Watched, contest: Contest, *, is_even: bool) -> None:
        """Go on once the next master has caught up, or without that under a rule that confirms nothing alone: a master
        may be out of its slaves' reach."""
        rule = self._register.groups[watched.name].appointment.rule
        if not is_even and (contest.is_gentle or rule.kind is RuleKind.ASYNC):
            self._failed(
                watched,
                contest,
                f"replica {contest.target} has not caught up: what it lacks would be lost (--without the master, if "
                "that is lost)",
            )
        else:
            self.begin(watched, contest)

    # -- the steps -----------------------------------------------------------------------------------------------

    def _reachable(self, watched: Watched) -> dict[int, Heard]:
        return watched.fresh(self._agreement.now, self._options.lease)

    def _off(self, watched: Watched) -> OffClocks:
        return self._agreement.clocks.off(watched.name, self._agreement.now)

    def _next_epoch(self, watched: Watched, group: Group) -> int:
        promised = max((each.report.promised for each in watched.heard.values()), default=0)
        return 1 + max(group.appointment.epoch, group.electing.epoch, promised)

    def begin(self, watched: Watched, contest: Contest) -> None:
        """Commit the end of the old mastership."""
        agreement = self._agreement
        group = self._register.groups[watched.name]
        promise = contest.promise = Promise(
            self._next_epoch(watched, group), f"{agreement.chance.getrandbits(64):016x}"
        )
        contest.phase, contest.deadline = Phase.BEGINNING, agreement.now + self._options.open
        watched.contest = contest
        base = group.appointment.order
        command = BeginElection(watched.name, promise.epoch, promise.token, base, contest.reason, agreement.wall_ms())
        agreement.propose(command, lambda reason: self._begun(watched, contest, reason))

    def _begun(self, watched: Watched, contest: Contest, reason: str | None) -> None:
        if watched.contest is not contest:
            return
        if reason != "":
            self._failed(watched, contest, reason or NOT_AGREED)
            return
        agreement = self._agreement
        asked = self._register.groups[watched.name].fenced - set(contest.lost)
        contest.fence(asked & self._reachable(watched).keys(), agreement.number(), agreement.now + self._options.fence)
        for replica in sorted(asked & watched.heard.keys()):
            if watched.heard[replica].is_attached:
                order = Order(contest.order, agreement.cluster, fence=contest.promise)
                agreement.tell(watched.name, replica, order)
        self.look(watched, contest)

    def obeyed(self, watched: Watched, replica: int, answer: OrderAnswer) -> None:
        """Take a replica's answer to an order."""
        contest = watched.contest
        if contest is None or answer.number != contest.order:
            return
        said = answer.answer or answer.refusal
        if contest.phase is Phase.QUIESCING:
            self._quiesced(watched, contest, is_even=answer.is_even)
        elif contest.phase is Phase.FENCING and said is not None:
            if isinstance(said, FenceAnswer):
                if said.member.replica != replica:
                    return
                watched.logs.note(said)
            contest.answered(replica, said)
            self.look(watched, contest)

    def gone(self, watched: Watched, replica: int) -> None:
        """Note that a replica takes no more orders."""
        if watched.contest is not None:
            watched.contest.awaited.discard(replica)

    def look(self, watched: Watched, contest: Contest) -> None:
        """Take the next step, if it is possible now."""
        if contest.phase is Phase.FENCING and not contest.awaited:
            self._decide(watched, contest)
        elif contest.phase is Phase.OPENING and contest.made is not None:
            master = watched.heard.get(contest.made.master)
            report = None if master is None else master.report
            if report is not None and report.is_open and report.appointment.epoch == contest.made.epoch:
                self._opened(watched, contest)
            elif self._register.groups[watched.name].appointment.epoch > contest.made.epoch:
                self._failed(watched, contest, "another election has begun meanwhile")

    def overdue(self, watched: Watched, contest: Contest) -> None:
        """Act on an expired deadline."""
        if contest.phase is Phase.QUIESCING:
            self._quiesced(watched, contest, is_even=False)
        elif contest.phase is Phase.FENCING:
            self._decide(watched, contest)
        elif contest.phase is Phase.OPENING and contest.made is not None:
            text = f"replica {contest.made.master} is master in epoch {contest.made.epoch}, and not open yet"
            self._failed(watched, contest, text, Code.REQUEST_TIMEOUT)
        else:
            self._failed(watched, contest, NOT_AGREED)

    def _decide(self, watched: Watched, contest: Contest) -> None:
        agreement, group = self._agreement, self._register.groups[watched.name]
        try:
            counting = group.counting - set(contest.lost)
            made = contest.decide(group.appointment, counting, self._off(watched), watched.logs)
        except ElectionError as error:
            self._failed(watched, contest, str(error))
            return
        contest.made, contest.phase = made, Phase.DECIDING
        contest.deadline = agreement.now + self._options.open
        reason = f"replica {made.master} leads in epoch {made.epoch}: {contest.reason}"
        command = Decide(watched.name, contest.promise.token, made, reason, agreement.wall_ms())
        agreement.propose(command, lambda reason: self._made(watched, contest, reason))

    def _made(self, watched: Watched, contest: Contest, reason: str | None) -> None:
        if watched.contest is not contest:
            return
        if reason != "":
            self._failed(watched, contest, reason or NOT_AGREED)
            return
        watched.pause, watched.problem = 0.0, ""
        watched.not_before = self._agreement.now + max(self._options.again, self._options.lease)
        for heard in watched.heard.values():
            heard.idle_since = None
        contest.phase, contest.deadline = Phase.OPENING, self._agreement.now + self._options.open
        self.tell_decided(watched)
        if not contest.requests:
            watched.contest = None

    def tell_decided(self, watched: Watched) -> None:
        """Tell all replicas the master."""
        appointment = self._agreement.decided(watched.name)
        if appointment is not None:
            for replica in sorted(watched.heard):
                order = Order(self._agreement.number(), self._agreement.cluster, appointment=appointment)
                self._agreement.tell(watched.name, replica, order)

    # -- the end -------------------------------------------------------------------------------------------------

    def _opened(self, watched: Watched, contest: Contest) -> None:
        watched.contest = None
        assert contest.made is not None
        for request in contest.requests:
            if contest.wanted in (NOBODY, contest.made.master):
                self._agreement.reply(request, contest.made)
            else:
                text = f"replica {contest.wanted} cannot be; replica {contest.made.master} is master instead"
                self._agreement.refuse(request, Code.PRECONDITION_FAILED, text)

    def _failed(self, watched: Watched, contest: Contest, problem: str, code: Code = Code.PRECONDITION_FAILED) -> None:
        agreement, options = self._agreement, self._options
        watched.problem = problem
        watched.pause = min(max(2 * watched.pause, options.again), options.most_again)
        watched.not_before = agreement.now + watched.pause * agreement.chance.uniform(0.75, 1.0)
        self.give_up(watched, code, problem)

    def give_up(self, watched: Watched, code: Code, problem: str) -> None:
        """End an election without a result."""
        contest, watched.contest = watched.contest, None
        for request in () if contest is None else contest.requests:
            self._agreement.refuse(request, code, problem)
