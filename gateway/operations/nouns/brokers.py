"""Brokers: list, drain, remove, elect a master, back up.  A store in this process has no brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.cluster import BrokerStatus, ClusterControl, ElectionView, control_of
from entrepot.domain.replication.control import ReplicaChange
from entrepot.gateway.operations.nouns.replicas import REPLICA, ReplicaShape, replica_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Part, PlainName, Shown, Time, WholeName, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.backups import BackupStatus
    from entrepot.domain.ports import Store


class ElectionShape(Part, frozen=True):
    epoch: int
    reason: str
    time: Time | None
    is_under_way: bool
    problem: str | None


class BrokerShown(Shown, frozen=True):
    """A broker, and what is on it; numbers are null while it is away"""

    name: str
    number: int
    address: str
    zone: str
    is_available: bool
    is_draining: bool
    keeps_key_values: bool
    problem: str | None
    unsettled: int | None
    waiting: int | None
    unread: int | None
    key_values: int | None
    rule: str | None
    epoch: int | None
    replicas: list[ReplicaShape]
    election: ElectionShape | None


shown_as(
    BrokerShown(
        name="broker-1",
        number=1,
        address="192.0.2.11:9101",
        zone="",
        is_available=True,
        is_draining=False,
        keeps_key_values=True,
        problem="it does not answer",
        unsettled=4,
        waiting=0,
        unread=0,
        key_values=12,
        rule="in-sync",
        epoch=3,
        replicas=[REPLICA],
        election=ElectionShape(
            3,
            "replica 2 leads in epoch 3: replica 1 has been silent for 3.1 s, replica 2 has lost it too",
            "2026-12-01T08:00:00.000Z",
            False,
            "an operator elects",
        ),
    )
)


class BackupShown(Shown, frozen=True):
    """A broker's backup of itself: the run under way, or the last one since the broker's start"""

    broker: str
    place: str
    began: Time | None
    is_running: bool
    begin: int = msgspec.field(name="from")
    to: int
    taken: Time | None
    copied_bytes: int
    key: str | None
    problem: str | None


shown_as(
    BackupShown(
        "broker-0",
        "s3://backups/plant",
        "2026-12-01T08:00:00.000Z",
        False,
        0,
        4_194_304,
        "2026-12-01T08:00:00.000Z",
        65_536,
        "5f1c0d8e2b7a4c90",
        "the disk is full: make room, or take a larger one",
    )
)


class NameServerShape(Part, frozen=True):
    address: str
    is_available: bool


class BrokersShown(Part, frozen=True):
    value: list[BrokerShown]
    name_servers: list[NameServerShape]


class BrokerChange(Body, frozen=True):
    """Change of a broker."""

    is_draining: bool


class Election(Body, frozen=True):
    """The replica that is to become the broker's master."""

    to: Annotated[int, Meta(ge=0, le=99)] = 0
    without: Annotated[list[int], Meta(max_length=99)] = msgspec.field(default_factory=list)
    is_unclean: bool = False

    def told(self) -> str:
        """The words of the audit log."""
        words = (
            f"to {self.to}" if self.to else "",
            f"without {', '.join(map(str, self.without))}" if self.without else "",
            "unclean" if self.is_unclean else "",
        )
        return " ".join(filter(None, words))


class ReplicaCounting(Body, frozen=True):
    """The role of a replica: a member of the group, or an observer that only copies the log."""

    is_observer: bool


BROKERS: Final = Noun("brokers", "/brokers", "broker")


class Brokers:
    """The operations of brokers, which are in no namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @BROKERS.get(
        "",
        "listBrokers",
        "List all brokers with their load, and all name servers",
        cluster(Action.LIST),
        shows={"nameServers": [{"address": "192.0.2.10:9000", "isAvailable": True}]},
    )
    async def listed(self) -> BrokersShown:
        control = control_of(self._store)
        brokers = [] if control is None else await control.brokers()
        name_servers = {} if control is None else control.name_servers()
        return BrokersShown(
            [broker_of(each) for each in brokers], [NameServerShape(*each) for each in name_servers.items()]
        )

    @BROKERS.put(
        "/{name}", "putBroker", "Drain or undrain a broker", cluster(Action.UPDATE), example={"isDraining": True}
    )
    async def put(self, asked: Asked, name: PlainName, body: BrokerChange) -> BrokerShown:
        asked.tell(detail="to be drained" if body.is_draining else "no longer to be drained")
        return broker_of(await needed_control(self._store).drain(name, is_draining=body.is_draining))

    @BROKERS.post(
        "/{name}:elect",
        "electMaster",
        "Make a replica the master of its broker",
        cluster(Action.UPDATE),
        change="master elected",
        example={"to": 2},
    )
    async def elect(self, asked: Asked, name: PlainName, body: Election) -> BrokerShown:
        asked.tell(detail=body.told())
        control = needed_control(self._store)
        return broker_of(await control.elect(name, body.to, body.without, is_unclean=body.is_unclean))

    @BROKERS.get("/{name}/backup", "getBackup", "Show a broker's backup of itself", cluster(Action.GET))
    async def backup(self, name: PlainName) -> BackupShown:
        return _backup_of(await needed_control(self._store).backup(name, is_to_start=False))

    @BROKERS.post(
        "/{name}:backup",
        "startBackup",
        "Have a broker bring its backup up to date",
        cluster(Action.UPDATE),
        change="backup started",
    )
    async def start_backup(self, name: PlainName) -> BackupShown:
        return _backup_of(await needed_control(self._store).backup(name, is_to_start=True))

    @BROKERS.put(
        "/{name}/replicas/{replica}",
        "putReplica",
        "Make a replica a counting one, or an observer, which only copies the log",
        cluster(Action.UPDATE),
        change="replicas changed",
        example={"isObserver": True},
    )
    async def put_replica(
        self, asked: Asked, name: PlainName, replica: WholeName, body: ReplicaCounting
    ) -> BrokerShown:
        change = ReplicaChange.OBSERVER if body.is_observer else ReplicaChange.ADD
        detail = f"replica {replica} is to {'be an observer' if body.is_observer else 'count'}"
        asked.tell(f"broker {name}", detail)
        return broker_of(await needed_control(self._store).change_replica(name, replica, change))

    @BROKERS.delete(
        "/{name}/replicas/{replica}",
        "removeReplica",
        "Remove a stopped replica from the counting ones",
        cluster(Action.DELETE),
        change="replicas changed",
    )
    async def delete_replica(self, asked: Asked, name: PlainName, replica: WholeName) -> None:
        asked.tell(f"broker {name}", f"replica {replica} will no longer count")
        await needed_control(self._store).change_replica(name, replica, ReplicaChange.REMOVE)

    @BROKERS.delete(
        "/{name}",
        "removeBroker",
        "Remove a drained broker for good",
        cluster(Action.DELETE),
        change="broker removed",
    )
    async def delete(self, name: PlainName) -> None:
        await needed_control(self._store).leave(name)


def needed_control(store: Store) -> ClusterControl:
    """As `control_of`.  Raises UNSUPPORTED instead of returning None."""
    control = control_of(store)
    if control is None:
        raise EntrepotError(Code.UNSUPPORTED, "the store is in this process: there are no brokers")
    return control


def broker_of(status: BrokerStatus) -> BrokerShown:
    """Return a broker as it is shown."""
    return BrokerShown(
        status.name,
        status.number,
        status.address,
        status.zone,
        status.is_available,
        status.is_draining,
        status.keeps_key_values,
        status.problem or None,
        status.unsettled,
        status.waiting,
        status.unread,
        status.key_values,
        status.rule or None,
        status.epoch or None,
        [replica_of(each) for each in status.replicas],
        None if status.election is None else _election_of(status.election),
    )


def _backup_of(status: BackupStatus) -> BackupShown:
    return BackupShown(
        status.broker,
        status.place,
        time_shape(status.began_ms),
        status.is_running,
        status.begin,
        status.end,
        time_shape(status.taken_ms),
        status.copied_bytes,
        status.key or None,
        status.problem or None,
    )


def _election_of(election: ElectionView) -> ElectionShape:
    return ElectionShape(
        election.epoch,
        election.reason,
        time_shape(election.decided_ms),
        election.is_under_way,
        election.problem or None,
    )
