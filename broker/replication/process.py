"""ReplicaProcess: one replica of a broker group, as a process: the machine, and the parts that carry out its effects.

nobody, slave   a `SlaveStore`, which follows the master and derives state as far as it is confirmed
master          `Leading`: a broker over the same open store, and its listener for gateways
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from entrepot.broker.metadata.identity import open_identity
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.replication import effects as do
from entrepot.broker.replication.beginning import begin_store, check_settings, make_machine
from entrepot.broker.replication.controllers import Controllers
from entrepot.broker.replication.controlling import Controlling, ReplicaParts
from entrepot.broker.replication.copying import Copying
from entrepot.broker.replication.executor import Act, Executor
from entrepot.broker.replication.files.replica_files import ReplicaFiles
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following import Following
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.leading import Leading
from entrepot.broker.replication.log_service import LogService
from entrepot.broker.replication.peers import GroupSettings, Peers, link_settings
from entrepot.broker.replication.service import ReplicaService
from entrepot.broker.replication.slave_reads import SlaveReads
from entrepot.broker.replication.slave_store import SlaveStore
from entrepot.broker.replication.slave_streams import SlaveStreams
from entrepot.broker.replication.status import status_of
from entrepot.broker.server.process import BrokerProcessSettings, make_listener
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.store_files import DirectoryLock, StoreFiles
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError, StorageFullError, StoreFailedError
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise
from entrepot.protocols.remoting.operations import ReplicaStatus, StoreSeed

FULL_SECONDS: Final = 1.0
"""Pause before a slave with a full disk tries again."""
log = structlog.get_logger(__name__)


class ReplicaProcess:
    """The process of one replica. `stopped` is done when it is to end: with the reason, or None where it left."""

    def __init__(
        self,
        settings: BrokerSettings,
        process: BrokerProcessSettings,
        group: GroupSettings,
        listener: socket.socket,
        clock: Clock,
    ) -> None:
        check_settings(settings, group)
        self._settings, self._process, self._group, self._clock = settings, process, group, clock
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[EntrepotError | None] = self._loop.create_future()
        self._lock = DirectoryLock(str(settings.data_dir))
        self._files = ReplicaFiles(settings.data_dir)
        self._store_files = StoreFiles(OsDisk(), str(settings.data_dir))
        self._slave: SlaveStore | None = None
        self._caught_up_at = 0
        self._leading: Leading | None = None
        self._listener = make_listener(process, listener, settings)
        ReplicaService(self).install(self._listener.service)
        links = link_settings(process, group)
        self._streams = SlaveStreams(
            lambda: self.machine.confirmed,
            on_sent=lambda replica, stream, end: self.machine.sending(replica, stream, end),
            on_gone=lambda replica, stream: self.machine.slave_gone(replica, stream),
        )
        self._following = Following(
            links,
            prepare=self._prepare_store,
            greet=lambda: self.machine.greeting(),
            on_welcome=self._welcomed,
            on_runs=self._runs_came,
            on_lost=self._lost,
            segment_size=self._segment_size,
        )
        self._peers = Peers(
            group,
            links,
            status=self.status,
            fence=self.fence,
            is_settled=lambda: self.machine.is_joined and self._controllers.is_led,
            hint=lambda addresses: self._controllers.hint(addresses),
            take=lambda appointment: self._perform(self.machine.hear_appointment(appointment)),
            nobody_later=lambda: self._perform(self.machine.nobody_later()),
        )
        self._copying = Copying(
            group.copy_rate,
            self._peers,
            lambda: self.machine,
            lambda effects: self._perform(effects),
            lambda: self.settled(),
            self._segment_size,
            self._following.go_on,
        )
        self._log = LogService(group.compare_rate, self._peers.links, lambda: self.machine, lambda: self._commit_log)
        self._log.install(self._listener.service)
        self._executor = Executor(self._acts(), self._end)
        self._perform, self.settled = self._executor.perform, self._executor.settled
        try:
            self.machine = make_machine(
                self._files, self._store_files, settings.data_dir, group.replica, self._open_slave_store
            )
        except BaseException:
            self._lock.release()
            raise
        self._controlling = Controlling(
            ReplicaParts(self.machine, self._files, self._following, self._streams, lambda: self._leading),
            group.lease,
            promise=self._promise,
            quiesce=self.quiesce,
            perform=self._perform,
        )
        self._controllers = Controllers(group, process.name, links, self._controlling, settings.data_dir, clock)
        self._controllers.install(self._listener.service)

    def _open_slave_store(self) -> SlaveStore:
        self._slave = SlaveStore(
            self._settings,
            self._lock.descriptor,
            on_synced=self._synced,
            on_failure=self._end,
            offer_reads=self._offer_reads,
            caught_up_at=self._caught_up_at,
        )
        self._slave.engine.commit_log.healer = self._log.healing
        return self._slave

    def _offer_reads(self, opened: OpenedStore) -> SlaveReads:
        process, service = self._process, self._listener.service
        number = open_identity(self._settings.data_dir, process.name, process.number).number
        return SlaveReads(opened, service, number, self._group.replica, process.zone, self._told_confirmed)

    def _told_confirmed(self) -> int:
        return self.machine.told if self.machine.is_joined else -1

    def _segment_size(self) -> int:
        return self._slave_store.engine.commit_log.layout.segment_size_bytes

    @property
    def _commit_log(self) -> CommitLog | None:
        return None if (opened := self._leading or self._slave) is None else opened.engine.commit_log

    @property
    def _slave_store(self) -> SlaveStore:
        assert self._slave is not None, "a slave has a store"
        return self._slave

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._listener.start()
        self._perform(self.machine.start(secrets.token_hex(4)))
        await self.settled()
        self._peers.start()
        self._controllers.start()
        self._log.start()
        log.info("replica started", group=self._process.name, replica=self._group.replica, role=self.machine.role.value)

    async def close(self) -> None:
        """Stop, cleanly: a master hands over first, and nobody waits for a slave that is gone."""
        await self._controllers.hand_over(self._controlling.successor())
        await self._following.part(self._group.replica)
        for part in (self._controllers, self._copying, self._log, self._peers, self._following):
            await part.close()
        await self.settled()
        self._streams.close()
        if self._leading is not None:
            await self._leading.close()
        await self._listener.close()
        if self._slave is not None:
            self._slave.close()
        self._files.confirmed.close()
        self._lock.release()

    def _end(self, why: EntrepotError | None) -> None:
        """End the process: it cannot go on, or its broker left its cluster (None)."""
        if not self.stopped.done():
            self.stopped.set_result(why)

    # -- effects of the machine -------------------------------------------------------------------------------------

    def _acts(self) -> Mapping[type, Act]:
        return {
            do.Persist: lambda effect: self._files.save(effect.state),
            do.Cut: self._cut,
            do.Write: self._write,
            do.BeginAt: self._begin_at,
            do.Sync: lambda effect: self._slave_store.sync(effect.generation),
            do.AppendEpoch: self._lead,
            do.Confirm: self._confirm,
            do.Open: lambda effect: self._open(),
            do.Close: self._resign,
            do.Follow: lambda effect: self._following.follow(self._group.addresses[effect.master]),
            do.Unfollow: lambda effect: self._following.unfollow(),
            do.WelcomeSlave: lambda effect: self._streams.welcome(effect.stream, effect.welcome),
            do.RefuseSlave: lambda effect: self._streams.refuse(effect.stream, effect.reason),
            do.Acknowledge: lambda effect: self._following.acknowledge(self._group.replica, effect.end),
            do.Announce: self._announce,
            do.Halt: lambda effect: self._end(StoreFailedError(effect.reason)),
        }

    def _announce(self, effect: do.Announce) -> None:
        self._peers.announce(effect.appointment)
        self._controllers.report_soon()
        if self._leading is not None:
            self._leading.set_changed()

    def _confirm(self, effect: do.Confirm) -> None:
        self._files.confirmed.note(effect.offset)
        if self._leading is None:
            self._slave_store.confirm(effect.offset)
        else:
            self._leading.confirm(effect.offset)
            self._streams.confirmed()

    # -- slave ---------------------------------------------------------------------------------------------------

    async def _prepare_store(self, seed: StoreSeed | None) -> bool:
        """Open a store; a new replica's begins like its group's."""
        if self._slave is None and seed is not None and not self.stopped.done():
            begin_store(self.machine, self._files, self._store_files, seed)
            self._open_slave_store()
        return self._slave is not None

    def _welcomed(self, welcome: Welcome) -> None:
        self._caught_up_at = max(self._caught_up_at, welcome.confirmed)
        self._slave_store.caught_up_at(welcome.confirmed)
        self._perform(self.machine.welcomed(welcome))
        if self.machine.is_joined and self._copying.begin(welcome):
            self._following.hold()

    def _lost(self) -> None:
        self.machine.lost()
        self._controllers.report_soon()

    def _synced(self, end: int, generation: int) -> None:
        self._perform(self.machine.synced_to(end, generation))
        self._copying.progressed()

    def _runs_came(self, runs: list[Run]) -> None:
        for run in runs:
            self._perform(self.machine.came(run))

    def _write(self, effect: do.Write) -> None:
        store = self._slave_store
        try:
            store.write(effect.offset, effect.data)
        except StorageFullError as error:
            self._executor.drop_waiting(do.Write, do.Sync, do.Acknowledge)
            self._following.unfollow()
            self.machine.write_failed(store.engine.end)
            log.error("a slave's disk is full", problem=error.message)
            self._loop.call_later(FULL_SECONDS, self._follow_again)

    def _follow_again(self) -> None:
        master = self.machine.state.appointment.master
        if self.machine.role is Role.SLAVE and master != NOBODY:
            self._following.follow(self._group.addresses[master])

    async def _cut(self, effect: do.Cut) -> None:
        """Remove records that the master lacks: the store does it when it is opened."""
        store = self._slave_store
        engine = store.engine
        if effect.keeps:
            await asyncio.to_thread(self._files.keep_cut, engine.commit_log, effect.to, engine.end)
        store.close()
        self._files.intend_cut(effect.to)
        self._open_slave_store().confirm(min(self.machine.confirmed, effect.to))

    async def _begin_at(self, effect: do.BeginAt) -> None:
        """Begin with an empty log: the earlier one is useless, as its continuation is gone."""
        store = self._slave_store
        if not store.is_empty:
            store.stop()
            store.engine.fail(StoreFailedError("the log is copied anew"))
            store.engine.close()
            self._files.intend_cut(0)
            self._store_files.forget_log()
            store = self._open_slave_store()
        store.begin_at(effect.offset)

    # -- master --------------------------------------------------------------------------------------------------

    async def _lead(self, effect: do.AppendEpoch) -> None:
        """Become master: apply all of the log, then append its EPOCH record."""
        machine = self.machine
        if self._slave is None and machine.state.appointment.group:
            raise StoreFailedError(f"the store of group {machine.state.appointment.group} is not here")
        opened = (self._slave or self._open_slave_store()).hand_over()
        self._slave = None
        if not machine.state.group:
            machine.state = replace(machine.state, group=opened.store_id)
            self._files.save(machine.state)
        leading = self._leading = Leading(
            self._settings,
            self._clock,
            opened,
            machine=machine,
            on_written=self._written,
            on_durable=lambda end: self._perform(machine.synced_to(end)),
            silence=self._streams.silence,
        )
        start = leading.begin(effect.start)
        self._streams.lead(opened.engine.commit_log)
        self._perform(machine.epoch_written(start, leading.engine.end))

    def _written(self, end: int) -> None:
        self.machine.wrote(end)
        self._streams.written()

    def _open(self) -> None:
        assert self._leading is not None, "only a master opens"
        parts = self._group, self._process, self._listener, self._end
        self._leading.open(*parts, self._controllers.has_right_clock)

    def _resign(self, effect: do.Close) -> Coroutine[Any, Any, None]:
        """End the mastership at once; then open the store anew, as a slave's."""
        leading, self._leading = self._leading, None
        assert leading is not None, "a master leads"
        self._streams.close()
        failure = leading.resign(self._listener, effect.reason)
        if failure is not None:  # the operating system may show more than its disk has: the promise is not told
            self._end(failure)
        return self._open_anew(leading)

    async def _open_anew(self, leading: Leading) -> None:
        await leading.close()
        store = self._open_slave_store()
        self.machine.reopened(store.engine.end)
        store.confirm(min(self.machine.confirmed, store.engine.end))

    # -- requests of others (`service.py`) ---------------------------------------------------------------------------

    async def fence(self, epoch: int, token: str) -> tuple[FenceAnswer | None, Promise | None]:
        """Promise an epoch to an elector, where no controllers elect."""
        if self._group.controllers:
            raise EntrepotError(
                Code.PRECONDITION_FAILED, f"the controllers at {', '.join(self._group.controllers)} elect its master"
            )
        answer = await self._promise(Promise(epoch, token))
        return (None, answer) if isinstance(answer, Promise) else (answer, None)

    async def _promise(self, promise: Promise) -> FenceAnswer | Promise:
        """Promise an epoch. The answer waits for the promise to be durable and for a master to have ended its time, not
        for its store to be opened anew."""
        await self.settled()
        effects, answer = self.machine.fence(promise.epoch, promise.token)
        self._perform(effects)
        if self.stopped.done():
            raise EntrepotError(Code.UNAVAILABLE, "the replica stops")
        return answer

    async def appoint(self, appointment: Appointment) -> None:
        self._perform(self.machine.hear_appointment(appointment))

    async def quiesce(self, replica: int, seconds: float) -> bool:
        def has_all(end: int) -> bool:
            slave = self.machine.slaves.get(replica)
            return slave is not None and slave.acknowledged >= end

        return self._leading is not None and await self._leading.quiesce(has_all, seconds)

    def status(self) -> ReplicaStatus:
        condition = self._log.condition(self._files.diverged_parts(), self._copying.source)
        own = status_of(self.machine, self._leading, self._commit_log, self._following.problem, condition)
        return replace(own, controllers=self._controllers.addresses, control_problem=self._controllers.problem)

    async def health(self) -> tuple[ReplicaStatus, ReplicaStatus | None]:
        own, is_slave = self.status(), self.machine.role is Role.SLAVE and self.machine.is_joined
        return own, await self._peers.status_of(own.appointment.master) if is_slave else None

    async def seed(self) -> StoreSeed:
        if self._leading is not None:
            return self._leading.seed()
        raise EntrepotError(Code.UNAVAILABLE, f"replica {self._group.replica} is not master")

    def greeted(self, greeting: Greeting, stream: ServerStream) -> None:
        if self._leading is not None:
            self.machine.begin = self._leading.engine.commit_log.min_offset
        self._perform(self.machine.greeted(greeting, self._streams.open(greeting.member.replica, stream)))

    def have(self, replica: int, stream: int, end: int) -> None:
        self._perform(self.machine.acknowledged(replica, stream, end))
