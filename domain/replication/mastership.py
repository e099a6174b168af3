"""What replicas know of who is master: what they have promised, and the last appointment they heard of.

Kept on disk by every replica (`broker.replication.replica_files`), synced before anybody is told of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from domain.replication.rule import Rule

NOBODY: Final = 0
"""In place of a replica id: they count from 1."""


class Member(NamedTuple):
    """A replica with one data directory: a wiped one comes back as another, a stranger."""

    replica: int
    incarnation: str


@dataclass(frozen=True, slots=True)
class Appointment:
    """The master of an epoch, and the members that must have its bytes.

    `group`: id of the store that all replicas have, empty before the first has one.  `version` counts the changes of
    the set within an epoch.  `members`: the set of replicas in sync, the master among them.  `known`: every replica
    that was admitted, by which a quorum is counted.  `is_unclean`: chosen though what was confirmed may be missing.
    """

    epoch: int = 0
    version: int = 0
    master: int = NOBODY
    rule: Rule = field(default_factory=Rule)
    members: tuple[Member, ...] = ()
    known: tuple[Member, ...] = ()
    is_unclean: bool = False
    group: str = ""

    @property
    def order(self) -> tuple[int, int]:
        """The later of two appointments is the one that counts."""
        return self.epoch, self.version

    def others(self, members: tuple[Member, ...]) -> frozenset[int]:
        """Ids of replicas without the master's."""
        return frozenset(member.replica for member in members if member.replica != self.master)


@dataclass(frozen=True, slots=True)
class Promise:
    """To follow no master of an earlier epoch.  `token`: of who asked for it; another one is refused the same epoch."""

    epoch: int = 0
    token: str = ""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """All that a replica keeps beside its log.  `run`: number of starts of this data directory."""

    group: str
    replica: int
    incarnation: str
    run: int = 0
    promise: Promise = Promise()
    appointment: Appointment = Appointment()

    @property
    def member(self) -> Member:
        return Member(self.replica, self.incarnation)

    def begun(self) -> ReplicaState:
        """The state of its next run."""
        return replace(self, run=self.run + 1)


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

    @property
    def log_order(self) -> tuple[int, int, int]:
        """The replica whose answer has the highest one has all that any of them has confirmed."""
        return (*self.last, self.end)
