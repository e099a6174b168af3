"""Control: the messages between the replicas of a broker group and the controllers that elect its masters."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member, Promise

NEVER: Final = 1e9
"""Silence, in seconds, of a master that was never heard."""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """A broker group in the settings of its replicas.  `replicas`: id and host:port of each, observers included.
    `elects_async`: an election under the rule `async`, which may lose what the old master alone had, needs no
    operator."""

    name: str
    replicas: tuple[tuple[int, str], ...] = ()
    rule: Rule = field(default_factory=Rule)
    observers: tuple[int, ...] = ()
    elects_async: bool = False

    @property
    def counting(self) -> frozenset[int]:
        """Ids of the replicas that count in the rule."""
        return frozenset(replica for replica, _ in self.replicas) - frozenset(self.observers)


class Report(NamedTuple):
    """Heartbeat of a replica.

    `answer`: its present answer to a fence.  `promised`: its last promise.  `problem`: reason why it is neither an open
    master nor a slave that follows one.  Times in seconds: `master_silence` since the last word of its master, `NEVER`
    without a master; `sync_age` without progress of a disk with data to sync; `confirm_age` without progress of a
    master with data to confirm.
    """

    answer: FenceAnswer
    role: str
    promised: int = 0
    is_open: bool = False
    problem: str = ""
    master_silence: float = NEVER
    sync_age: float = 0.0
    confirm_age: float = 0.0
    known: tuple[int, int] = (0, 0)

    @property
    def member(self) -> Member:
        return self.answer.member

    @property
    def appointment(self) -> Appointment:
        return self.answer.appointment


class ReportAnswer(NamedTuple):
    """Answer of a controller.  `cluster`: id of the controllers as a group.  `is_leader`: it leads the others.
    `appointment`: the last decided one; None if the replica knows it, or there is none.  `counting`: ids of the
    replicas that an operator wants to count, or empty."""

    cluster: str
    is_leader: bool
    appointment: Appointment | None = None
    counting: tuple[int, ...] = ()


class Order(NamedTuple):
    """Order of the leading controller to one replica, with exactly one of the last three fields set.  `quiesce`: take
    no messages until that replica has all, for at most that many seconds."""

    number: int
    cluster: str
    fence: Promise | None = None
    appointment: Appointment | None = None
    quiesce: tuple[int, float] | None = None


class OrderAnswer(NamedTuple):
    """Answer to an order: the promise's answer, or the promise that prevents it; of `quiesce`, its success."""

    number: int
    answer: FenceAnswer | None = None
    refusal: Promise | None = None
    is_even: bool = False


class ReplicaChange(StrEnum):
    """An operator's wish for one replica of a group."""

    ADD = "add"
    """Count, as soon as it has the log."""
    OBSERVER = "observer"
    """Copy the log, and do not count."""
    REMOVE = "remove"
    """Stop, and do not count."""


class SetChange(NamedTuple):
    """A master's change of its in-sync set.  `base`: order of the appointment it changes; another base is refused."""

    appointment: Appointment
    base: tuple[int, int]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A broker group as its controllers know it.  `reason`: reason for the last election, a sentence; `decided_ms`: its
    time.  `electing`: epoch of an election under way, or 0.  `problem`: reason why its master is not replaced although
    it should be, or empty.  `counting`: ids of the replicas that are to count."""

    name: str
    appointment: Appointment
    reason: str = ""
    decided_ms: int = 0
    electing: int = 0
    problem: str = ""
    counting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ControllerView:
    """A controller as it sees itself.  `incarnation`: that of its directory.  `cluster`: id of the group of
    controllers, empty before there is one; `founders`: its first members, each as id:incarnation.  `members`: id and
    host:port of all known controllers. `applied`: index in their log."""

    controller: int
    incarnation: str
    cluster: str = ""
    founders: tuple[str, ...] = ()
    role: str = "follower"
    term: int = 0
    leader: int = 0
    members: tuple[tuple[int, str], ...] = ()
    applied: int = 0
    problem: str = ""
