"""Mastership: the promises of replicas, and the last appointment that they know.  Every replica keeps it on disk
(`broker.replication.replica_files`), synced before it is told to anybody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.epochs import EpochStart

NOBODY: Final = 0
"""The replica id of none; ids count from 1."""
MAX_TOKENS: Final = 32
"""Most starts that a data directory remembers.  A copy started more often by itself goes undetected."""


class Member(NamedTuple):
    """A replica with one data directory: a wiped one comes back as a stranger."""

    replica: int
    incarnation: str


class RunHistory(NamedTuple):
    """The starts of a data directory: their number, and a random token of each of the last ones.  Each start is durable
    before it is told to anybody.  So a directory that lacks a known start, or has another one in its place, is an old
    copy: bytes synced since then are gone."""

    member: Member
    run: int
    tokens: tuple[str, ...] = ()

    def token(self, run: int) -> str | None:
        """Return the token of a start; None if it is forgotten."""
        place = len(self.tokens) - 1 - (self.run - run)
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def objection(self, heard: RunHistory) -> str:
        """Return the reason why it cannot continue the history `heard`; empty if it can."""
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
    """Return the last known start of a member, or None."""
    return next((each for each in heard if each.member == member), None)


def has_heard(heard: Iterable[RunHistory], told: RunHistory) -> bool:
    """True if this very start is known."""
    found = heard_of(heard, told.member)
    return found is not None and found.run == told.run and found.token(told.run) == told.token(told.run)


def old_copy(heard: Iterable[RunHistory], told: RunHistory) -> str:
    """Return the reason why a replica with this history is an old copy; empty if it is not, or is unknown."""
    found = heard_of(heard, told.member)
    return "" if found is None else told.objection(found)


def hear(heard: tuple[RunHistory, ...], *told: RunHistory) -> tuple[RunHistory, ...]:
    """Return the known starts, updated for each member by the histories that continue them."""
    latest = {each.member: each for each in heard}
    for each in told:
        known = latest.get(each.member)
        if known is None or (each.run > known.run and not each.objection(known)):
            latest[each.member] = each
    return tuple(latest[member] for member in sorted(latest))


@dataclass(frozen=True, slots=True)
class Appointment:
    """The master of an epoch, and the members that must have its bytes.

    `group`: id of the store that all replicas have, empty before the first has one.  `version` counts changes of the
    set within an epoch.  `members`: the in-sync set, with the master.  `known`: every admitted replica; a quorum counts
    these.  `is_unclean`: chosen though confirmed bytes may be missing.  `heard`: the last start of each data directory
    that counted for anything.
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
        """The order of appointments: the latest applies."""
        return self.epoch, self.version

    @property
    def takes_messages(self) -> bool:
        """True if enough members are in sync for publishing."""
        return self.rule.kind is not RuleKind.IN_SYNC or len(self.members) >= self.rule.min_in_sync

    @property
    def copies(self) -> int:
        """The least number of disks with a message confirmed from now on."""
        return {RuleKind.ASYNC: 1, RuleKind.QUORUM: self.rule.required}.get(self.rule.kind, len(self.members))

    def counts(self, replica: int) -> bool:
        """True for a replica of the group itself; others are observers, which copy and do not count."""
        return not self.known or any(member.replica == replica for member in self.known)

    def others(self, members: tuple[Member, ...]) -> frozenset[int]:
        """Return the ids of the members other than the master."""
        return frozenset(member.replica for member in members if member.replica != self.master)

    def supersedes(self, known: Appointment) -> bool:
        """True if it is later, and its master is not an old copy in the known one."""
        if self.order <= known.order or self.epoch > known.epoch:
            return self.order > known.order
        return not any(old_copy(known.heard, each) for each in self.heard if each.member.replica == self.master)

    def with_heard(self, *told: RunHistory) -> Appointment:
        """Return the next version, with these starts; itself if they are known."""
        heard = hear(self.heard, *told)
        return self if heard == self.heard else replace(self, version=self.version + 1, heard=heard)

    def after(self, known: Appointment) -> Appointment:
        """Return it with the starts that `known` has, too."""
        return replace(self, heard=hear(self.heard, *known.heard))


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise to follow no master of an earlier epoch.  `token`: name of the asker; another asker is refused the same
    epoch."""

    epoch: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """All that a replica keeps beside its log.  `run`: number of starts of this data directory; `tokens`: those of the
    last starts.  `controllers`: id of the group of controllers that it obeys, or empty.  `refused`: reason of its
    controllers why this directory is an old copy, or empty."""

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
        """Return the reason why this directory is an old copy by an appointment; empty if it is not.  Of two live
        holders of a directory both are, once each knows of the other."""
        return old_copy(appointment.heard, self.history)

    def begun(self, token: str) -> ReplicaState:
        """Return the state of its next run."""
        return replace(self, run=self.run + 1, tokens=(*self.tokens, token)[-MAX_TOKENS:])

    def start_behind(self, last: EpochStart) -> EpochStart:
        """Return its start as master, after the last start of its log; the record's place is not known yet."""
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
        """Return the answer to the asker of the promise."""
        return FenceAnswer(self.member, self.run, last.name, end, confirmed, self.appointment, self.group, self.tokens)


class FenceAnswer(NamedTuple):
    """A replica's answer with its promise: the end of its synced log, and the start that its last bytes belong to."""

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
        """The order of logs: the replica with the highest one has all that any of the others has confirmed."""
        return (*self.last, self.end)
