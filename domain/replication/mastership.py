"""What replicas know of who is master: what they have promised, and the last appointment they heard of.

Kept on disk by every replica (`broker.replication.replica_files`), synced before anybody is told of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from domain.replication.epochs import EpochStart
from domain.replication.rule import Rule, RuleKind

NOBODY: Final = 0
"""In place of a replica id: they count from 1."""
MAX_TOKENS: Final = 32
"""Named limit: of the starts that a data directory remembers.  A copy that was started so often alone is not found."""


class Member(NamedTuple):
    """A replica with one data directory: a wiped one comes back as another, a stranger."""

    replica: int
    incarnation: str


class RunHistory(NamedTuple):
    """The starts of a data directory: their number, and a random token of each of the last ones.

    Each start is durable before anybody is told of it.  So a directory that lacks a start that was heard of, or has
    another one in its place, is an old copy: what it had synced since then is gone.
    """

    member: Member
    run: int
    tokens: tuple[str, ...] = ()

    def token(self, run: int) -> str | None:
        """The token of a start; None where it is remembered no more."""
        place = len(self.tokens) - 1 - (self.run - run)
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def objection(self, heard: RunHistory) -> str:
        """Why it cannot be of the directory that was heard of as this; empty where it can."""
        if self.run < heard.run:
            return (
                f"replica {self.member.replica} comes with run {self.run}, run {heard.run} was heard: "
                "its directory is an old copy; start it with an empty one"
            )
        mine, theirs = self.token(heard.run), heard.token(heard.run)
        if mine is not None and mine != theirs:
            return (
                f"replica {self.member.replica} has another run {heard.run} than was heard: its directory, or that of "
                "another process, is a copy; start it with an empty one"
            )
        return ""


def heard_of(heard: Iterable[RunHistory], member: Member) -> RunHistory | None:
    """The last start of a member that was heard of."""
    return next((each for each in heard if each.member == member), None)


def has_heard(heard: Iterable[RunHistory], told: RunHistory) -> bool:
    """True where this very start was heard of."""
    found = heard_of(heard, told.member)
    return found is not None and found.run == told.run and found.token(told.run) == told.token(told.run)


def old_copy(heard: Iterable[RunHistory], told: RunHistory) -> str:
    """Why a replica with this history is not what was heard of; empty where it is, or is not known."""
    found = heard_of(heard, told.member)
    return "" if found is None else told.objection(found)


def hear(heard: tuple[RunHistory, ...], *told: RunHistory) -> tuple[RunHistory, ...]:
    """What was heard and, for each member, what goes on from it."""
    latest = {each.member: each for each in heard}
    for each in told:
        known = latest.get(each.member)
        if known is None or (each.run > known.run and not each.objection(known)):
            latest[each.member] = each
    return tuple(latest[member] for member in sorted(latest))


@dataclass(frozen=True, slots=True)
class Appointment:
    """The master of an epoch, and the members that must have its bytes.

    `group`: id of the store that all replicas have, empty before the first has one.  `version` counts the changes of
    the set within an epoch.  `members`: the set of replicas in sync, the master among them.  `known`: every replica
    that was admitted, by which a quorum is counted.  `is_unclean`: chosen though what was confirmed may be missing.
    `heard`: the last start of each data directory that counted for anything.
    """

    epoch: int = 0
    version: int = 0
    master: int = NOBODY
    rule: Rule = field(default_factory=Rule)
    members: tuple[Member, ...] = ()
    known: tuple[Member, ...] = ()
    is_unclean: bool = False
    group: str = ""
    heard: tuple[RunHistory, ...] = ()

    @property
    def order(self) -> tuple[int, int]:
        """The later of two appointments is the one that counts."""
        return self.epoch, self.version

    @property
    def takes_messages(self) -> bool:
        """Enough members are in sync for publishing."""
        return self.rule.kind is not RuleKind.IN_SYNC or len(self.members) >= self.rule.min_in_sync

    @property
    def copies(self) -> int:
        """Disks that have what is confirmed from now on, at least."""
        return {RuleKind.ASYNC: 1, RuleKind.QUORUM: self.rule.required}.get(self.rule.kind, len(self.members))

    def counts(self, replica: int) -> bool:
        """True for the replicas that the group was made of; any other one is an observer, which copies, and counts for
        nothing."""
        return not self.known or any(member.replica == replica for member in self.known)

    def others(self, members: tuple[Member, ...]) -> frozenset[int]:
        """Ids of replicas without the master's."""
        return frozenset(member.replica for member in members if member.replica != self.master)

    def supersedes(self, known: Appointment) -> bool:
        """It is later, and its master is not an old copy of the one that is known."""
        if self.order <= known.order or self.epoch > known.epoch:
            return self.order > known.order
        return not any(old_copy(known.heard, each) for each in self.heard if each.member.replica == self.master)

    def with_heard(self, *told: RunHistory) -> Appointment:
        """The next version, with starts that were heard of; itself where they are known."""
        heard = hear(self.heard, *told)
        return self if heard == self.heard else replace(self, version=self.version + 1, heard=heard)

    def after(self, known: Appointment) -> Appointment:
        """Itself, with the starts that were heard of before."""
        return replace(self, heard=hear(self.heard, *known.heard))


@dataclass(frozen=True, slots=True)
class Promise:
    """To follow no master of an earlier epoch.  `token`: of who asked for it; another one is refused the same epoch."""

    epoch: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """All that a replica keeps beside its log.  `run`: number of starts of this data directory; `tokens`: of the last
    of them.  `controllers`: id of the group of controllers that it obeys, empty where it has obeyed none.  `refused`:
    why this directory is an old copy, as its controllers have said; empty where they have not."""

    group: str
    replica: int
    incarnation: str
    run: int = 0
    promise: Promise = Promise()
    appointment: Appointment = Appointment()
    tokens: tuple[str, ...] = ()
    controllers: str = ""
    refused: str = ""

    @property
    def member(self) -> Member:
        return Member(self.replica, self.incarnation)

    @property
    def history(self) -> RunHistory:
        return RunHistory(self.member, self.run, self.tokens)

    def lacks(self, appointment: Appointment) -> str:
        """Why this directory is an old copy, as an appointment has it; empty where it is not.  Of two live holders of a
        directory both are, once each is told of the other one."""
        return old_copy(appointment.heard, self.history)

    def begun(self, token: str) -> ReplicaState:
        """The state of its next run."""
        return replace(self, run=self.run + 1, tokens=(*self.tokens, token)[-MAX_TOKENS:])

    def start_behind(self, last: EpochStart) -> EpochStart:
        """Its start as master, behind the last start of its log; the place of its record is not known yet."""
        is_new = last.epoch != self.appointment.epoch
        may_lack = self.appointment.is_unclean or (is_new and self.appointment.rule.kind is RuleKind.ASYNC)
        return EpochStart(
            self.appointment.epoch,
            self.run,
            0,
            last.recovery_epoch + may_lack,
            self.replica,
            is_new and may_lack,
            bytes.fromhex(self.incarnation),
            last.lineage,
        )

    def promised(self, last: EpochStart, end: int, confirmed: int) -> FenceAnswer:
        """The answer to who asked for the promise."""
        return FenceAnswer(self.member, self.run, last.name, end, confirmed, self.appointment, self.group, self.tokens)


class FenceAnswer(NamedTuple):
    """What a replica says when it has promised: where its log ends, synced, and by whom its last bytes are."""

    member: Member
    run: int
    last: tuple[int, int]
    """Epoch and run of the last EPOCH record of its log."""
    end: int
    confirmed: int
    appointment: Appointment
    group: str = ""
    tokens: tuple[str, ...] = ()

    @property
    def history(self) -> RunHistory:
        return RunHistory(self.member, self.run, self.tokens)

    @property
    def log_order(self) -> tuple[int, int, int]:
        """The replica whose answer has the highest one has all that any of them has confirmed."""
        return (*self.last, self.end)
