"""ReplicaStore: the store of a replica, as its role has it open.

nobody, slave   a `SlaveStore`, which follows the master and derives state as far as it is confirmed
master          `Leading`: a broker over the same open store, and its listener for gateways
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.replication.beginning import begin_store, make_machine
from entrepot.broker.replication.files.replica_files import ReplicaFiles
from entrepot.broker.replication.healing import Healing
from entrepot.broker.replication.leading import Leading
from entrepot.broker.replication.replica import Replica
from entrepot.broker.replication.slave_reads import SlaveReads
from entrepot.broker.replication.slave_store import SlaveStore
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.store_files import DirectoryLock, StoreFiles
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.protocols.wire.operations import StoreSeed


class ReplicaStore:
    """The store.  `slave`, `leading`: it as it is open; neither while it is opened anew, or a new replica has no seed.
    `on_synced`, `on_failure`, `offer_reads`: see `SlaveStore`.  `healing`: mends the open log."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        *,
        on_synced: Callable[[int, int], None],
        on_failure: Callable[[EntrepotError], None],
        offer_reads: Callable[[OpenedStore], SlaveReads],
        healing: Callable[[], Healing],
    ) -> None:
        self._settings, self.clock = settings, clock
        self._on_synced, self._on_failure = on_synced, on_failure
        self._offer_reads, self._healing = offer_reads, healing
        self._lock = DirectoryLock(str(settings.data_dir))
        self.files = ReplicaFiles(settings.data_dir)
        self._store_files = StoreFiles(OsDisk(), str(settings.data_dir))
        self._caught_up_at = 0
        self.slave: SlaveStore | None = None
        self.leading: Leading | None = None

    def open_machine(self, replica: int) -> Replica:
        """Open the store, if there is one; return the machine.  Raises as `make_machine`."""
        try:
            return make_machine(self.files, self._store_files, self._settings.data_dir, replica, self._open_slave)
        except BaseException:
            self._lock.release()
            raise

    def _open_slave(self) -> SlaveStore:
        self.slave = SlaveStore(
            self._settings,
            self._lock.descriptor,
            on_synced=self._on_synced,
            on_failure=self._on_failure,
            offer_reads=self._offer_reads,
            caught_up_at=self._caught_up_at,
        )
        self.slave.engine.commit_log.healer = self._healing()
        return self.slave

    @property
    def commit_log(self) -> CommitLog | None:
        return None if (opened := self.leading or self.slave) is None else opened.engine.commit_log

    @property
    def of_slave(self) -> SlaveStore:
        assert self.slave is not None, "a slave has a store"
        return self.slave

    def segment_size(self) -> int:
        return self.of_slave.engine.commit_log.layout.segment_size_bytes

    def confirm(self, offset: int) -> None:
        """Confirm everything before an offset, and keep that on the disk."""
        self.files.confirmed.note(offset)
        (self.leading or self.of_slave).confirm(offset)

    def close(self) -> None:
        """Close a slave's store, and leave the directory; a master's was closed by `Leading`."""
        if self.slave is not None:
            self.slave.close()
        self.files.confirmed.close()
        self._lock.release()

    # -- slave ---------------------------------------------------------------------------------------------------

    def begin(self, machine: Replica, seed: StoreSeed) -> None:
        """Open the store of a new replica, which begins like its group's."""
        begin_store(machine, self.files, self._store_files, seed)
        self._open_slave()

    def caught_up_at(self, offset: int) -> None:
        """Set the offset from which a copy begun in the middle of a log is complete."""
        self._caught_up_at = max(self._caught_up_at, offset)
        self.of_slave.caught_up_at(offset)

    async def cut(self, to: int, confirmed: int, *, keeps: bool) -> None:
        """Remove records that the master lacks: the store does it when it is opened."""
        store = self.of_slave
        engine = store.engine
        if keeps:
            await asyncio.to_thread(self.files.keep_cut, engine.commit_log, to, engine.end)
        store.close()
        self.files.intend_cut(to)
        self._open_slave().confirm(min(confirmed, to))

    def begin_at(self, offset: int) -> None:
        """Begin with an empty log: the earlier one is useless, as its continuation is gone."""
        store = self.of_slave
        if not store.is_empty:
            store.stop()
            store.engine.fail(StoreFailedError("the log is copied anew"))
            store.engine.close()
            self.files.intend_cut(0)
            self._store_files.forget_log()
            store = self._open_slave()
        store.begin_at(offset)

    # -- master --------------------------------------------------------------------------------------------------

    def lead(
        self,
        machine: Replica,
        on_written: Callable[[int], None],
        on_durable: Callable[[int], None],
        silence: Callable[[int], float | None],
    ) -> Leading:
        """Apply all of the log; return it as a master's.  The functions: see `Leading`."""
        if self.slave is None and machine.state.appointment.group:
            raise StoreFailedError(f"the store of group {machine.state.appointment.group} is not here")
        opened = (self.slave or self._open_slave()).hand_over()
        self.slave = None
        if not machine.state.group:
            machine.state = replace(machine.state, group=opened.store_id)
            self.files.save(machine.state)
        self.leading = Leading(
            self._settings,
            self.clock,
            opened,
            machine=machine,
            on_written=on_written,
            on_durable=on_durable,
            silence=silence,
        )
        return self.leading

    def end_leading(self) -> Leading:
        """Return the mastership that ends; `open_anew` is to follow."""
        leading, self.leading = self.leading, None
        assert leading is not None, "a master leads"
        return leading

    async def open_anew(self, leading: Leading, machine: Replica) -> None:
        """Open the store as a slave's, once the mastership is closed."""
        await leading.close()
        store = self._open_slave()
        machine.reopened(store.engine.end)
        store.confirm(min(machine.confirmed, store.engine.end))
