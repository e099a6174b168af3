"""Election: the choice of a master among the replicas that promised an epoch.  Pure; the answers come in.  An
operator's command or a controller drives it.  They differ in the source of the last appointment: a controller has it
committed, an operator asks all replicas except those declared lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.lost_ends import KnownLogs
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Member, Promise, hear, old_copy

MAX_BEHIND_BYTES: Final = 64 << 20
"""Most bytes of the log that a replica may lack to become master by a planned move: it gets them while others wait."""


class ElectionError(Exception):
    """Nobody can be elected, with the reason."""


class Election:
    """The election of one epoch.  `latest`: the last appointment, if known for sure.  `lost`: replicas declared gone,
    with no appointment unknown to the others.  `wanted`: the wanted master, or NOBODY.  `avoided`: the last choice, or
    NOBODY.  `is_unclean`: confirmed messages may be missing."""

    def __init__(
        self,
        epoch: int,
        token: str,
        *,
        latest: Appointment | None = None,
        lost: Collection[int] = (),
        wanted: int = NOBODY,
        avoided: int = NOBODY,
        is_unclean: bool = False,
    ) -> None:
        self.epoch, self.token, self.wanted, self._avoided = epoch, token, wanted, avoided
        self._latest, self._lost, self._is_unclean = latest, frozenset(lost), is_unclean
        self.barred: Mapping[int, str] = {}
        """Replicas that count, but are not to lead, with the reason."""
        self.deferred: Collection[int] = ()
        """Replicas that lead only where no other can."""
        self.known = KnownLogs()
        """Earlier words about logs, of silent replicas too: what they tell as confirmed may not be lacking."""
        self.answers: dict[int, FenceAnswer] = {}
        self.left_out: dict[int, str] = {}
        """Reasons by replica why its answer does not count."""
        self.refused: Promise | None = None

    def answered(self, answer: FenceAnswer | Promise) -> None:
        """Take the answer of a replica, or the promise that prevents it."""
        if isinstance(answer, FenceAnswer):
            self.answers[answer.member.replica] = answer
        elif self.refused is None or answer.epoch > self.refused.epoch:
            self.refused = answer

    def decide(self) -> Appointment:
        """Return the appointment that follows from the answers so far.  Raises ElectionError."""
        if self.refused is not None and self.refused.epoch >= self.epoch:
            raise ElectionError(f"epoch {self.refused.epoch} is promised already: try again")
        if not self.answers:
            raise ElectionError("no replica answers")
        self._leave_copies_out()
        self._leave_strangers_out()
        latest = self._latest or self._latest_told()
        self._leave_observers_out(latest)
        self._leave_lost_ends_out(latest)
        eligible = list(self.answers.values()) if self._is_unclean else self._eligible(latest)
        eligible = self._without_barred(eligible)
        best = max(eligible, key=self._preference)
        if self.wanted != NOBODY:
            found = [answer for answer in eligible if answer.member.replica == self.wanted]
            if not found:
                raise ElectionError(self._why_not(self.wanted, best, latest))
            best = found[0]
        return self._appointment(latest, best)

    def _without_barred(self, eligible: list[FenceAnswer]) -> list[FenceAnswer]:
        found = [answer for answer in eligible if answer.member.replica not in self.barred]
        if not found:
            reasons = (self.barred[answer.member.replica] for answer in eligible)
            raise ElectionError(f"nobody may lead: {'; '.join(sorted(reasons))}{self._but}")
        return found

    def _preference(self, answer: FenceAnswer) -> tuple[bool, bool, tuple[int, int, int], bool]:
        replica = answer.member.replica
        return replica not in self.deferred, replica != self._avoided, answer.log_order, replica == self.wanted

    def _leave_copies_out(self) -> None:
        """Leave out directories that are old copies: they have forgotten acknowledgements and promises."""
        told = [answer.appointment for answer in self.answers.values()]
        heard = hear(() if self._latest is None else self._latest.heard)
        for each in sorted(told, key=lambda each: each.order, reverse=True):
            heard = hear(heard, *each.heard)
        for replica, answer in sorted(self.answers.items()):
            if reason := old_copy(heard, answer.history):
                self.left_out[replica] = reason
                del self.answers[replica]
        if not self.answers:
            raise ElectionError("; ".join(self.left_out.values()))

    def _leave_strangers_out(self) -> None:
        """Leave out replicas of another store than the group's.  A master lost before its first record was confirmed
        has begun a store that nobody else has, and its successor another one.  The last appointment must decide which
        one counts."""
        groups = sorted({answer.group for answer in self.answers.values() if answer.group})
        if len(groups) < 2:
            return
        if self._latest is None or not self._latest.epoch:
            raise ElectionError(f"they are not of one group: {', '.join(groups)}")
        latest = self._latest
        counted = latest.members if latest.rule.kind is RuleKind.IN_SYNC else latest.known
        found = [answer for answer in self.answers.values() if answer.member in counted and answer.group]
        group = latest.group or (max(found, key=lambda each: each.log_order).group if found else "")
        for replica, answer in sorted(self.answers.items()):
            if answer.group not in ("", group):
                self.left_out[replica] = (
                    f"replica {replica} has the data of another group: {answer.group}; start it with an empty directory"
                )
                del self.answers[replica]
        if not self.answers:
            raise ElectionError("; ".join(self.left_out.values()))

    def _leave_observers_out(self, latest: Appointment) -> None:
        for replica in [replica for replica in self.answers if not latest.counts(replica)]:
            self.left_out[replica] = f"replica {replica} is an observer: it counts for nothing, and is never master"
            del self.answers[replica]
        if not self.answers:
            raise ElectionError(f"only observers answer{self._but}")

    def _leave_lost_ends_out(self, latest: Appointment) -> None:
        """Leave out replicas that lack what they had: a disk was put back while its process went on."""
        if self._is_unclean or latest.rule.kind is RuleKind.ASYNC:
            return
        for replica, answer in sorted(self.answers.items()):
            if reason := self.known.lacks_own(answer, latest):
                self.left_out[replica] = reason
                del self.answers[replica]
        if not self.answers:
            raise ElectionError("; ".join(self.left_out.values()))

    def _with_confirmed(self, answers: list[FenceAnswer], latest: Appointment) -> list[FenceAnswer]:
        """Return the answers of replicas that have all that anybody knows as confirmed.  Raises ElectionError."""
        others = self.answers.values()
        lacking = {each.member.replica: self.known.lacks_confirmed(each, others, latest) for each in answers}
        found = [each for each in answers if not lacking[each.member.replica]]
        self.left_out.update((replica, reason) for replica, reason in lacking.items() if reason)
        if not found:
            raise ElectionError("; ".join(self.left_out.values()))
        return found

    def _latest_told(self) -> Appointment:
        latest = max((answer.appointment for answer in self.answers.values()), key=lambda each: each.order)
        if latest.rule.kind is RuleKind.QUORUM:
            return latest  # a later master confirmed nothing without one of the replicas asked below
        missing = {member.replica for member in latest.known} - self.answers.keys() - self._lost
        if missing and not self._is_unclean:
            if copies := [self.left_out[replica] for replica in sorted(missing & self.left_out.keys())]:
                raise ElectionError(f"{'; '.join(copies)} (or say that it is lost: --without)")
            who = ", ".join(map(str, sorted(missing)))
            raise ElectionError(f"replica {who} does not answer: only you can say that it is lost (--without)")
        return latest

    def _eligible(self, latest: Appointment) -> list[FenceAnswer]:
        answers = list(self.answers.values())
        rule = latest.rule
        if rule.kind is RuleKind.ASYNC:
            return answers
        if rule.kind is RuleKind.IN_SYNC:
            members = [answer for answer in answers if answer.member in latest.members]
            if not members:
                names = ", ".join(str(member.replica) for member in latest.members)
                raise ElectionError(f"no replica in sync answers: they were {names}{self._but}")
            return self._with_confirmed(members, latest)
        admitted = [answer for answer in answers if answer.member in latest.known]
        if len(admitted) < rule.fenced_answers:
            raise ElectionError(f"{len(admitted)} replicas answer, {rule.fenced_answers} are needed{self._but}")
        orders = [answer.log_order for answer in admitted]
        # any `fenced_answers` answers have all confirmed bytes, and so has the longest log of any that many
        found = [a for a in admitted if sum(order <= a.log_order for order in orders) >= rule.fenced_answers]
        return self._with_confirmed(found, latest)

    @property
    def _but(self) -> str:
        return "".join(f"; {reason}" for reason in self.left_out.values())

    def _why_not(self, wanted: int, best: FenceAnswer, latest: Appointment) -> str:
        found = self.answers.get(wanted)
        if wanted in self.barred:
            return self.barred[wanted]
        if wanted in self.left_out:
            return self.left_out[wanted]
        if found is None:
            return f"replica {wanted} does not answer"
        if latest.rule.kind is RuleKind.IN_SYNC and found.member not in latest.members:
            return f"replica {wanted} may lack what was confirmed: it is not in sync"
        if found.last != best.last:
            return (
                f"replica {wanted} may lack what was confirmed: its log ends in epoch {found.last[0]}, "
                f"that of replica {best.member.replica} in epoch {best.last[0]}"
            )
        return (
            f"replica {wanted} may lack what was confirmed: its log ends at {found.end}, "
            f"that of replica {best.member.replica} at {best.end}"
        )

    def _appointment(self, latest: Appointment, best: FenceAnswer) -> Appointment:
        """Return the appointment.  Members: the old ones that answered, and all with the new master's whole log."""
        whole = {answer.member for answer in self.answers.values() if answer.log_order >= best.log_order}
        members = {best.member}
        if latest.rule.kind is RuleKind.IN_SYNC and not self._is_unclean:
            members |= whole | {a.member for a in self.answers.values() if a.member in latest.members}
        else:
            members |= whole
        return Appointment(
            self.epoch,
            0,
            best.member.replica,
            latest.rule,
            tuple(sorted(members)),
            admitted(latest.known, members),
            self._is_unclean,
            best.group,
            hear(latest.heard, *(answer.history for answer in self.answers.values())),
        )


def caught_up(answers: Iterable[FenceAnswer], master: int) -> list[FenceAnswer]:
    """Return answers as they will be once a master that serves has let others catch up.  Reports are of different
    moments: a log that lacks little counts as long as the master's, also one from before the master's last start.  A
    slave's report may be later than the master's, whose log has all of it by then."""
    found = {answer.member.replica: answer for answer in answers}
    most = found[master]

    def is_near(each: FenceAnswer) -> bool:
        lacks = most.end - each.end
        return lacks <= MAX_BEHIND_BYTES and (each.last == most.last or (each.last < most.last and lacks >= 0))

    near = [each for each in found.values() if is_near(each)]
    end = max(each.end for each in near if each.last == most.last)
    return [each._replace(last=most.last, end=end) if is_near(each) else each for each in found.values()]


def not_moved(master: int, wanted: int) -> ElectionError:
    """Return the refusal to elect the present master again.  `wanted`: the one asked for, or NOBODY."""
    why = "it serves" if wanted else "no other one may be"
    return ElectionError(f"replica {master} is master, and {why}")


def first_election(epoch: int, token: str, rule: Rule, answers: Collection[FenceAnswer]) -> Election:
    """Return the election of a group without a master, by the answers of all its replicas.  Those with the longest log
    are its first in-sync set."""
    longest = max(answer.log_order for answer in answers)
    members = tuple(sorted(answer.member for answer in answers if answer.log_order == longest))
    known = tuple(sorted(answer.member for answer in answers))
    return Election(epoch, token, latest=Appointment(rule=rule, members=members, known=known))


def with_member(appointment: Appointment, member: Member) -> Appointment:
    """Return the next version with another member in the set, in place of an earlier directory of that replica."""
    kept = tuple(each for each in appointment.members if each.replica != member.replica)
    return replace(
        appointment,
        version=appointment.version + 1,
        members=tuple(sorted((*kept, member))),
        known=admitted(appointment.known, [member]),
    )


def admitted(known: tuple[Member, ...], members: Collection[Member]) -> tuple[Member, ...]:
    """Return the replicas that a quorum counts; a wiped one counts with its new directory once it has the log."""
    by_replica = dict(known)
    by_replica.update(members)
    return tuple(Member(replica, incarnation) for replica, incarnation in sorted(by_replica.items()))
