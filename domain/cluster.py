"""What operators see of, and do with, the brokers behind a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from domain.message import Message
from domain.replication.control import ReplicaChange


@dataclass(frozen=True, slots=True)
class ConfirmLevel:
    """Assurance that a confirmed message has: its rule, and the least number of disks that it is on."""

    rule: str
    copies: int

    @property
    def text(self) -> str:
        return f"{self.rule}; copies={self.copies}"


SINGLE: Final = ConfirmLevel("single", 1)
"""Of a store without replicas."""


@dataclass(frozen=True, slots=True)
class LogCondition:
    """The log of a replica, beyond how long it is.

    `healed`: records that were corrupted and fetched from another replica since the start.  `corrupted`: those that no
    replica has whole.  `forked`: blocks that differ from the master's though no record is corrupted.

    `diverged`: begin and end of the parts that were cut and kept.  `copies_from`: id of the replica that the log is
    copied from, or 0.
    """

    healed: int = 0
    corrupted: int = 0
    forked: int = 0
    diverged: tuple[tuple[int, int], ...] = ()
    copies_from: int = 0

    @property
    def text(self) -> str:
        """For people; empty where there is nothing to tell."""
        size = sum(end - start for start, end in self.diverged)
        words = (
            f"{self.healed} records healed" if self.healed else "",
            f"{self.corrupted} records corrupted on every replica" if self.corrupted else "",
            f"{self.forked} blocks differ from the master's" if self.forked else "",
            f"{len(self.diverged)} parts of {size} bytes in diverged/" if self.diverged else "",
            f"copies from replica {self.copies_from}" if self.copies_from else "",
        )
        return ", ".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica of a broker as it sees itself, or as its master does.

    `role`: master, slave, nobody (it follows no master), or away.  `is_in_sync`: it is a member of the set.
    `is_observer`: it copies, and counts for nothing.  `synced`: its log up to this commit-log offset is on its disk.
    `behind`: bytes of the master's log that it lacks, and `behind_seconds` the age of the first of them; None where the
    master has not told.  `problem`: why it is neither an open master nor a slave that follows one.  `log`: None where
    the replica itself was not asked.  `control_problem`: why controllers would not replace its master; it goes on so.
    """

    replica: int
    address: str
    role: str
    is_in_sync: bool = False
    epoch: int = 0
    synced: int | None = None
    behind: int | None = None
    behind_seconds: float | None = None
    problem: str = ""
    log: LogCondition | None = None
    is_observer: bool = False
    control_problem: str = ""

    def unready(self, max_behind_seconds: float) -> str:
        """Why it is neither an open master nor a slave in sync with one, in words; empty where it is."""
        if self.problem or self.role == "master":
            return self.problem
        if not self.is_in_sync and not self.is_observer:
            return "it is not in sync"
        if self.behind_seconds is None:
            return "its master does not tell how far behind it is"
        is_behind = self.behind_seconds > max_behind_seconds
        return f"it is {self.behind_seconds:.1f} s and {self.behind} bytes behind" if is_behind else ""


LEADS: Final = "leads"
FOLLOWS: Final = "follows"
WAITS: Final = "waits"
AWAY: Final = "away"


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """A controller as a gateway sees it.  `controller`: id, or 0 where it is not known."""

    controller: int
    address: str
    state: str
    """`LEADS`, `FOLLOWS`, `WAITS` (it knows no leader) or `AWAY`."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ElectionView:
    """The election of a broker's master, as its controllers have it.

    `epoch`: of the master that was elected last, and `decided_ms` the time of that.  `reason`: for the last election, a
    sentence.  `given`: greatest epoch that an election was begun for.  `in_sync`: replicas of the set.  `problem`: why
    the master is not replaced although it should be; empty where nothing is wrong.
    """

    epoch: int
    reason: str
    decided_ms: int
    given: int
    in_sync: int
    problem: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.given > self.epoch


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker as a gateway sees it.

    `is_available`: it can be asked now.  `problem`: why it cannot, or else what is missing of its data.  `unsettled`,
    `waiting`, `unread`, `key_values`: what is on it (messages that groups have not settled, that wait for their time or
    transaction, that are in queues no group reads); None while it is away.
    """

    name: str
    number: int
    address: str
    zone: str
    is_available: bool
    is_draining: bool
    keeps_key_values: bool
    problem: str = ""
    unsettled: int | None = None
    waiting: int | None = None
    unread: int | None = None
    key_values: int | None = None
    rule: str = ""
    """Of a broker with replicas, when a message is confirmed: async, in-sync, or such as 2-3."""
    epoch: int = 0
    replicas: tuple[ReplicaView, ...] = ()
    election: ElectionView | None = None
    """None where no controllers elect its master, or none of them leads."""


class ClusterControl(Protocol):
    """Brokers come by themselves; this is how they are looked at, drained, and let go."""

    @property
    def is_available(self) -> bool:
        """Whether any broker can be asked now."""
        ...

    async def brokers(self) -> list[BrokerStatus]:
        """Every broker that is known, by number."""
        ...

    async def replication(self) -> list[BrokerStatus]:
        """Every broker that is known, with its replicas as its master sees them; nothing that is on it."""
        ...

    def confirm_level(self, messages: Sequence[Message]) -> ConfirmLevel:
        """The least assurance that any of these has, once they are confirmed."""
        ...

    def name_servers(self) -> dict[str, bool]:
        """Every name server by address, and whether it answers."""
        ...

    async def drain(self, name: str, *, is_draining: bool) -> BrokerStatus:
        """Let no new messages go to a broker, or let them again.  Key-values that it keeps move to another.

        Raises BAD_REQUEST (no such broker), UNAVAILABLE, PRECONDITION_FAILED (nobody else could take over).
        """
        ...

    async def elect(
        self, name: str, to: int = 0, without: Sequence[int] = (), *, is_unclean: bool = False
    ) -> BrokerStatus:
        """Make a replica of a broker its master; 0: the best.  `without`: replicas that are lost, as only an operator
        can say.  `is_unclean`: though what was confirmed may be missing.

        Raises BAD_REQUEST (no such broker, or it has no replicas), UNAVAILABLE, PRECONDITION_FAILED (why nobody can be
        elected), REQUEST_TIMEOUT (elected, and not open yet).
        """
        ...

    async def change_replica(self, name: str, replica: int, change: ReplicaChange) -> BrokerStatus:
        """Have a replica of a broker count, or count for nothing, from now on.

        Returns once its controllers have taken that; the master carries it out as soon as it is safe.  Raises
        BAD_REQUEST (no such broker or replica), UNAVAILABLE, PRECONDITION_FAILED (why it cannot be).
        """
        ...

    async def controllers(self) -> list[ControllerStatus]:
        """Every controller that is known, by id."""
        ...

    async def change_controllers(self, old: int, new: int, address: str) -> None:
        """Let a controller go, take another in, or both; 0: none.  `address`: host:port of the new one, which runs.

        Returns once the change has begun; the controllers carry it through.  Raises UNAVAILABLE (none leads),
        PRECONDITION_FAILED (why it cannot be).
        """
        ...

    async def leave(self, name: str) -> None:
        """Let a drained broker go for good; its process ends.  Raises as `drain`; PRECONDITION_FAILED if it is not
        empty."""
        ...


@runtime_checkable
class Clustered(Protocol):
    """A store over brokers that operators can look at."""

    @property
    def operations(self) -> ClusterControl | None: ...
