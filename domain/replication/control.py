"""Control: the words between the replicas of a broker group and the controllers that elect its masters."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from domain.replication.mastership import Appointment, FenceAnswer, Member, Promise
from domain.replication.rule import Rule

NEVER: Final = 1e9
"""Silence, in seconds, of a master that a replica has not heard yet."""


@dataclass(frozen=True, slots=True)
class GroupShape:
    """A broker group as the settings of its replicas have it.

    `replicas`: id and host:port of each, observers included.  `elects_async`: an election under the rule `async`, which
    may lose what the old master alone had, needs no operator.
    """

    name: str
    replicas: tuple[tuple[int, str], ...] = ()
    rule: Rule = field(default_factory=Rule)
    observers: tuple[int, ...] = ()
    elects_async: bool = False

    @property
    def counting(self) -> frozenset[int]:
        """Ids of the replicas that the rule is about."""
        return frozenset(replica for replica, _ in self.replicas) - frozenset(self.observers)


class Report(NamedTuple):
    """Heartbeat of a replica.

    `answer`: what it would answer to a fence now.  `promised`: its last promise.  `problem`: why it is neither an open
    master nor a slave that follows one.  Times in seconds: `master_silence` since a word of its master, `NEVER` where
    it follows none; `sync_age` without progress of a disk that has something to sync; `confirm_age` without progress
    of a master that has something to confirm.
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
    """Answer of a controller.  `cluster`: id of the controllers as a group.  `appointment`: the last one that is
    decided; None where that is known to the replica, or there is none.  `is_leader`: it leads the others.
    `counting`: ids of the replicas that are to count, as an operator said; empty where none did."""

    cluster: str
    is_leader: bool
    appointment: Appointment | None = None
    counting: tuple[int, ...] = ()


class Order(NamedTuple):
    """Order of the leading controller to one replica; just one of the last three is said.

    `quiesce`: take no messages until that replica has all, at most for so many seconds.
    """

    number: int
    cluster: str
    fence: Promise | None = None
    appointment: Appointment | None = None
    quiesce: tuple[int, float] | None = None


class OrderAnswer(NamedTuple):
    """Answer to an order: the promise's answer, or the promise that stands in the way; of `quiesce`, its success."""

    number: int
    answer: FenceAnswer | None = None
    refusal: Promise | None = None
    is_even: bool = False


class ReplicaChange(StrEnum):
    """An operator's wish for one replica of a group."""

    ADD = "add"
    """It is to count, as soon as it has the log."""
    OBSERVER = "observer"
    """It copies the log, and is to count for nothing."""
    REMOVE = "remove"
    """It is stopped, and is to count for nothing."""


class SetChange(NamedTuple):
    """A master's change of its set.  `base`: order of the appointment that it is made from; another one is refused."""

    appointment: Appointment
    base: tuple[int, int]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A broker group as the controllers have it.

    `reason`: of the last election, a sentence.  `decided_ms`: time of it.  `electing`: epoch of an election that is
    under way, or 0.  `problem`: why its master is not replaced although it should be; empty where nothing is wrong.
    `counting`: ids of the replicas that are to count.
    """

    name: str
    appointment: Appointment
    reason: str = ""
    decided_ms: int = 0
    electing: int = 0
    problem: str = ""
    counting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ControllerView:
    """A controller as it sees itself.

    `incarnation`: of its directory.  `cluster`: id of the group of controllers, empty before there is one; `founders`:
    those that began it, each as id:incarnation.  `members`: id and host:port of all controllers, as this one knows or
    is told them.  `applied`: index in their log.
    """

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
