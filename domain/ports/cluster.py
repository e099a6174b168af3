"""The view of operators on the brokers behind a store, and their control over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from entrepot.domain.backups import BackupStatus
from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.message import Message
from entrepot.domain.replication.control import ReplicaChange
from entrepot.domain.topic import TopicStatus


@dataclass(frozen=True, slots=True)
class ConfirmLevel:
    """The assurance of a confirmed message: its rule, and the least number of disks that hold it."""

    rule: str
    copies: int

    @property
    def text(self) -> str:
        return f"{self.rule}; copies={self.copies}"


SINGLE: Final = ConfirmLevel("single", 1)
"""Level of a store without replicas."""


@dataclass(frozen=True, slots=True)
class LogCondition:
    """The state of a replica's log, apart from its length.

    `healed`: corrupted records fetched from another replica since the start.  `corrupted`: records corrupted on every
    replica.  `forked`: blocks that differ from the master's though no record is corrupted.  `diverged`: start and end
    of the parts that were cut off and kept.  `copies_from`: id of the replica that the log is copied from, or 0.
    `lost`: bytes of the diverged parts that had been confirmed.
    """

    healed: int = 0
    corrupted: int = 0
    forked: int = 0
    diverged: tuple[tuple[int, int], ...] = ()
    copies_from: int = 0
    lost: int = 0

    @property
    def text(self) -> str:
        """The state in words; empty for a healthy log."""
        size = sum(end - start for start, end in self.diverged)
        words = (
            f"{self.healed} records healed" if self.healed else "",
            f"{self.corrupted} records corrupted on every replica" if self.corrupted else "",
            f"{self.forked} blocks differ from the master's" if self.forked else "",
            f"{len(self.diverged)} parts of {size} bytes in diverged/" if self.diverged else "",
            f"{self.lost} bytes of them had been confirmed" if self.lost else "",
            f"copies from replica {self.copies_from}" if self.copies_from else "",
        )
        return ", ".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica of a broker as seen by itself or by its master.

    `role`: master, slave, nobody (it follows no master), or away.  `is_in_sync`: it is in the in-sync set.
    `is_observer`: it copies the log and does not count.  `synced`: commit-log offset up to which its log is on its
    disk.  `behind`: bytes of the master's log that it lacks, and `behind_seconds` the age of the first of them; None
    where the master has not told.  `problem`: reason why it is neither an open master nor a slave that follows one.
    `log`: None where the replica itself was not asked.  `control_problem`: reason why controllers would not replace its
    master; it serves regardless.
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
        """Return the reason why it is neither an open master nor a slave in sync with one; empty if it is."""
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
OUTSIDE: Final = "outside"


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """A controller as a gateway sees it.  `controller`: id, or 0 if unknown."""

    controller: int
    address: str
    state: str
    """`LEADS`, `FOLLOWS`, `WAITS` (it knows no leader), `AWAY`, or `OUTSIDE` (it runs, and is not a member)."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ElectionView:
    """The election of a broker's master, as its controllers know it.  `epoch`: epoch of the master elected last, at
    `decided_ms` for `reason` (a sentence).  `given`: greatest epoch that an election was begun for.  `in_sync`:
    replicas of the in-sync set.  `problem`: reason why the master is not replaced although it should be, or empty."""

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
    """A broker as a gateway sees it.  `is_available`: it can be asked now.  `problem`: reason why it cannot, or else
    the data it lacks.  Counts of what it holds, None while it is away: `unsettled` messages of groups, messages
    `waiting` for their time or transaction, messages `unread` in queues no group reads, and `key_values`."""

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
    """Rule of confirmation of a broker with replicas: async, in-sync, or such as 2-3."""
    epoch: int = 0
    replicas: tuple[ReplicaView, ...] = ()
    election: ElectionView | None = None
    """None where no controllers elect its master, or none of them leads."""


class ClusterControl(Protocol):
    """The operators' control over brokers: view, drain, elect and remove.  Brokers join by themselves."""

    @property
    def is_available(self) -> bool:
        """True if any broker can be asked now."""

    @property
    def confirm_problem(self) -> str:
        """The reason why no broker can confirm a message, in words; empty while any can."""

    async def brokers(self) -> list[BrokerStatus]:
        """Return every known broker, by number."""

    async def replication(self) -> list[BrokerStatus]:
        """Return every known broker with its replicas as its master sees them, without counts of what it holds."""

    async def topic_statuses(self, names: Sequence[str], seconds: float) -> BrokerAnswers[TopicStatus]:
        """Return the statuses of many topics.  All brokers are asked at once; `seconds`: longest wait for each."""

    async def group_statuses(self, names: Sequence[str], seconds: float) -> BrokerAnswers[GroupStatus]:
        """Return the statuses of many groups, likewise."""

    async def backup(self, name: str, *, is_to_start: bool) -> BackupStatus:
        """Return the state of a broker's backup of itself, of a new run if that is to start.  Raises BAD_REQUEST (no
        such broker), UNAVAILABLE, PRECONDITION_FAILED (it has no place for one)."""

    def confirm_level(self, messages: Sequence[Message]) -> ConfirmLevel:
        """Return the least assurance that any of these messages has once confirmed."""

    def name_servers(self) -> dict[str, bool]:
        """Return every name server's address, with True if it answers."""

    async def drain(self, name: str, *, is_draining: bool) -> BrokerStatus:
        """Stop new messages to a broker, or allow them again.  Key-values that it keeps move to another.  Raises
        BAD_REQUEST (no such broker), UNAVAILABLE, PRECONDITION_FAILED (no other broker could take over)."""

    async def elect(
        self, name: str, to: int = 0, without: Sequence[int] = (), *, is_unclean: bool = False
    ) -> BrokerStatus:
        """Make a replica of a broker its master; 0: the best one.

        `without`: replicas that the operator declares lost.  `is_unclean`: confirmed messages may be missing.  Raises
        BAD_REQUEST (no such broker, or it has no replicas), UNAVAILABLE, PRECONDITION_FAILED (nobody can be elected,
        with the reason), REQUEST_TIMEOUT (elected, and not open yet).
        """

    async def change_replica(self, name: str, replica: int, change: ReplicaChange) -> BrokerStatus:
        """Change a replica of a broker to count in confirmations, or not to count.  Returns once its controllers have
        accepted the change; the master applies it as soon as it is safe.  Raises BAD_REQUEST (no such broker or
        replica), UNAVAILABLE, PRECONDITION_FAILED (with the reason)."""

    async def controllers(self) -> list[ControllerStatus]:
        """Return every known controller, by id."""

    async def change_controllers(self, old: int, new: int, address: str) -> None:
        """Remove a controller, add another, or both; 0: none.  `address`: host:port of the new one, which runs.
        Returns once the change has begun; the controllers complete it.  Raises UNAVAILABLE (none leads),
        PRECONDITION_FAILED (with the reason)."""

    async def leave(self, name: str) -> None:
        """Remove a drained broker for good; its process ends.  Raises as `drain`; PRECONDITION_FAILED if it is not
        empty."""


@runtime_checkable
class Clustered(Protocol):
    """A store over brokers.  `operations`: None where operators look at them by other tools."""

    @property
    def operations(self) -> ClusterControl | None: ...


def control_of(store: object) -> ClusterControl | None:
    """Return the control of the brokers behind a store, or None where it is in this process, or elsewhere by others."""
    return store.operations if isinstance(store, Clustered) else None
