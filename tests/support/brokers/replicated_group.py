"""A broker group in this process: replicas on loopback sockets, a name server, and a gateway's store over them."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType

from entrepot.broker.namesrv.server import NameServer
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.broker.replication.peers import GroupSettings
from entrepot.broker.replication.process import ReplicaProcess
from entrepot.broker.server.process import BrokerProcessSettings
from entrepot.broker.settings.backup import BackupSettings
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.replication.confirmation_rule import Rule
from entrepot.domain.replication.mastership import NOBODY, Appointment
from entrepot.store_client.remote import RemoteSettings, open_remote
from entrepot.store_client.remote.electing import WHO, Electing
from entrepot.store_client.remote.store import RemoteStore
from tests.support.brokers.controllers import Controllers, listening
from tests.support.clock import ManualClock
from tests.support.waiting import until

NO_BACKUP = BackupSettings()
LAYOUT = CommitLogLayout(segment_size_bytes=1 << 20, preallocate_bytes=256 << 10, reserve_bytes=64 << 10)


class ReplicatedGroup:
    """`replicas`: those that run, by id."""

    def __init__(
        self,
        directory: Path,
        rule: Rule,
        clock: ManualClock | None = None,
        *,
        zone: str = "",
        observers: int = 0,
        controllers: int = 0,
        lease: float = 0.5,
        elects_async: bool = False,
        tier: TierSettings | None = None,
        trust: ClusterTrust = NO_TRUST,
        backup: BackupSettings = NO_BACKUP,
    ) -> None:
        """`zone`: of the gateway; replica 3 is in zone-3, and so on.  `observers`: how many there are beside.

        `controllers`: how many elect its masters, 0: none.
        """
        self.directory, self.rule, self.zone = directory, rule, zone
        self.clock = clock or ManualClock()
        sockets = {replica: listening() for replica in range(1, rule.replicas + observers + 1)}
        self.addresses = {replica: f"127.0.0.1:{found.getsockname()[1]}" for replica, found in sockets.items()}
        self._sockets = sockets
        self.replicas: dict[int, ReplicaProcess] = {}
        self.copy_rate = 0
        self.elects_async = elects_async
        self.tier = tier
        self.trust, self.backup = trust, backup
        self.controllers = Controllers(directory, controllers, lease, self.clock)
        self.controllers.trust = trust
        self._name_server = NameServer(door := listening(), lease_seconds=5.0, cluster="", trust=trust)
        self.name_server_address = f"127.0.0.1:{door.getsockname()[1]}"
        self.store: RemoteStore

    async def __aenter__(self) -> ReplicatedGroup:
        await self._name_server.start()
        await self.controllers.start_all()
        for replica in self.addresses:
            await self.start(replica)
        await until(lambda: self.master, "somebody is master")
        await self.even()
        names = (self.name_server_address,)
        settings = RemoteSettings(name_servers=names, zone=self.zone, reads_nearest=bool(self.zone), trust=self.trust)
        self.store = await open_remote(settings, self.clock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "store"):
            await self.store.close()
        for replica in tuple(self.replicas):
            await self.stop(replica)
        await self.controllers.stop_all()
        await self._name_server.close()

    def data_dir(self, replica: int) -> Path:
        return self.directory / f"replica-{replica}"

    async def start(self, replica: int) -> None:
        found = self._sockets.pop(replica, None)
        if found is None:
            found = listening(int(self.addresses[replica].rpartition(":")[2]))
        made = ReplicaProcess(
            BrokerSettings(
                self.data_dir(replica),
                name="group",
                layout=LAYOUT,
                retention_interval_seconds=0.01,
                checkpoint_interval_seconds=0.1,
                tier=self.tier,
                backup=self.backup,
            ),
            BrokerProcessSettings(
                "group",
                self.addresses[replica],
                number=0,
                zone=f"zone-{replica}",
                name_servers=(self.name_server_address,),
                heartbeat_seconds=0.1,
                trust=self.trust,
            ),
            GroupSettings(
                replica,
                self.addresses,
                self.rule,
                frozenset(each for each in self.addresses if each > self.rule.replicas),
                copy_rate=self.copy_rate,
                controllers=tuple(self.controllers.addresses.values()),
                lease=self.controllers.lease,
                elects_async=self.elects_async,
            ),
            found,
            self.clock,
        )
        self.replicas[replica] = made
        await made.start()

    def wipe(self, replica: int) -> None:
        """A new disk for one that is stopped."""
        shutil.rmtree(self.data_dir(replica))

    async def crash(self, replica: int) -> None:
        """End it as a crash would, as far as one can within a process: nothing is flushed, saved or said."""
        found = self.replicas.pop(replica)
        store = await until(lambda: found.store.slave or found.store.leading, "it has opened its store")
        assert store is not None
        store.engine.fail(StoreFailedError("it was killed"))
        found._following.unfollow()  # its sockets are closed, and its master is told nothing
        await found.close()

    async def stop(self, replica: int) -> None:
        await self.replicas.pop(replica).close()

    @property
    def master(self) -> int:
        """Id of the replica that is open; 0 where none is."""
        found = [
            number
            for number, each in self.replicas.items()
            if each.machine.is_open and each.store.leading and each.store.leading.is_open
        ]
        return found[0] if found else NOBODY

    async def elect(
        self, wanted: int = NOBODY, without: tuple[int, ...] = (), *, is_unclean: bool = False
    ) -> Appointment:
        addresses = {number: address for number, address in self.addresses.items() if number in self.replicas}
        async with Electing(addresses, LinkSettings(who=WHO, trust=WireTrust.of_client(self.trust))) as electing:
            return await electing.elect(wanted, without, is_unclean=is_unclean)

    async def even(self) -> None:
        """Return when every replica that runs has, and has derived, all that the master has."""

        def is_even() -> bool:
            master = self.replicas.get(self.master)
            if master is None or master.store.leading is None:
                return False
            end = master.store.leading.engine.end
            return all(
                each.machine.confirmed >= end and (each.store.slave is None or each.store.slave.applied >= end)
                for each in self.replicas.values()
            )

        await until(is_even, "all replicas have everything")

    async def in_sync(self) -> None:
        """Return when every replica that runs has everything, and the controllers know that."""
        await self.even()
        running = {replica for replica in self.replicas if replica <= self.rule.replicas}

        def is_known() -> bool:
            leader = self.controllers.running.get(self.controllers.leader)
            decided = None if leader is None or leader._controller is None else leader._controller.decided("group")
            return decided is not None and running <= {member.replica for member in decided.members}

        await until(is_known, "the controllers know that all are in sync")

    def log_of(self, replica: int) -> bytes:
        """All that the replica's log has on disk."""
        names = sorted((self.data_dir(replica) / "commitlog").iterdir())
        return b"".join(name.read_bytes() for name in names)
