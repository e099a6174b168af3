"""ReplicaProcess: one replica of a broker group, as a process: the machine, and the parts that carry out its effects.

`replica_store.py` has its store, as a slave's or a master's.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from entrepot.broker.metadata.identity import open_identity
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.replication import effects as do
from entrepot.broker.replication.beginning import check_settings
from entrepot.broker.replication.controllers import Controllers
from entrepot.broker.replication.controlling import Controlling, ReplicaParts
from entrepot.broker.replication.copying import Copying
from entrepot.broker.replication.executor import Act, Executor
from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following import Following
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.log_service import LogService
from entrepot.broker.replication.peers import GroupSettings, Peers, link_settings
from entrepot.broker.replication.replica_store import ReplicaStore
from entrepot.broker.replication.service import ReplicaService
from entrepot.broker.replication.slave_reads import SlaveReads
from entrepot.broker.replication.slave_streams import SlaveStreams
from entrepot.broker.replication.status import status_of
from entrepot.broker.server.process import BrokerProcessSettings, make_listener
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError, StorageFullError, StoreFailedError
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise
from entrepot.protocols.wire.operations import ReplicaStatus, StoreSeed

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
        self._process, self._group = process, group
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[EntrepotError | None] = self._loop.create_future()
        self.store = ReplicaStore(
            settings,
            clock,
            on_synced=self._synced,
            on_failure=self._end,
            offer_reads=partial(self._offer_reads, settings.data_dir),
            healing=lambda: self._log.healing,
        )
        self._listener = make_listener(process, listener, settings)
        ReplicaService(self).install(self._listener.service)
        links = link_settings(process, group)
        self._streams = SlaveStreams(
            lambda: self.machine.confirmed,
            on_sent=lambda replica, stream, end: self.machine.sending(replica, stream, end),
            on_gone=lambda replica, stream: self.machine.slave_gone(replica, stream),
        )
        self._executor = Executor(self._acts(), self._end)
        self._perform, self.settled = self._executor.perform, self._executor.settled
        self._following = self._follower(links)
        self._peers = self._asker(links)
        self._copying = self._copier()
        self._log = LogService(
            group.compare_rate, self._peers.links, lambda: self.machine, lambda: self.store.commit_log
        )
        self._log.install(self._listener.service)
        self.machine = self.store.open_machine(group.replica)
        self._controlling = Controlling(
            ReplicaParts(self.machine, self.store, self._following, self._streams),
            group.lease,
            promise=self._promise,
            quiesce=self.quiesce,
            perform=self._perform,
        )
        self._controllers = Controllers(group, process.name, links, self._controlling, settings.data_dir, clock)
        self._controllers.install(self._listener.service)

    def _follower(self, links: LinkSettings) -> Following:
        return Following(
            links,
            prepare=self._prepare_store,
            greet=lambda: self.machine.greeting(),
            on_welcome=self._welcomed,
            on_runs=self._runs_came,
            on_lost=self._lost,
            segment_size=self.store.segment_size,
        )

    def _copier(self) -> Copying:
        return Copying(
            self._group.copy_rate,
            self._peers,
            lambda: self.machine,
            self._perform,
            self.settled,
            self.store.segment_size,
            self._following.go_on,
        )

    def _asker(self, links: LinkSettings) -> Peers:
        return Peers(
            self._group,
            links,
            status=self.status,
            fence=self.fence,
            is_settled=lambda: self.machine.is_joined and self._controllers.is_led,
            hint=lambda addresses: self._controllers.hint(addresses),
            take=lambda appointment: self._perform(self.machine.hear_appointment(appointment)),
            nobody_later=lambda: self._perform(self.machine.nobody_later()),
        )

    def _offer_reads(self, data_dir: Path, opened: OpenedStore) -> SlaveReads:
        process, service = self._process, self._listener.service
        number = open_identity(data_dir, process.name, process.number).number
        return SlaveReads(opened, service, number, self._group.replica, process.zone, self._told_confirmed)

    def _told_confirmed(self) -> int:
        return self.machine.told if self.machine.is_joined else -1

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
        if self.store.leading is not None:
            await self.store.leading.close()
        await self._listener.close()
        self.store.close()

    def _end(self, why: EntrepotError | None) -> None:
        """End the process: it cannot go on, or its broker left its cluster (None)."""
        if not self.stopped.done():
            self.stopped.set_result(why)

    # -- effects of the machine -------------------------------------------------------------------------------------

    def _acts(self) -> Mapping[type, Act]:
        return {
            do.Persist: lambda effect: self.store.files.save(effect.state),
            do.Cut: lambda effect: self.store.cut(effect.to, self.machine.confirmed, keeps=effect.keeps),
            do.Write: self._write,
            do.BeginAt: lambda effect: self.store.begin_at(effect.offset),
            do.Sync: lambda effect: self.store.of_slave.sync(effect.generation),
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
        if self.store.leading is not None:
            self.store.leading.set_changed()

    def _confirm(self, effect: do.Confirm) -> None:
        self.store.confirm(effect.offset)
        if self.store.leading is not None:
            self._streams.confirmed()

    # -- slave ---------------------------------------------------------------------------------------------------

    async def _prepare_store(self, seed: StoreSeed | None) -> bool:
        """Open a store; a new replica's begins like its group's."""
        if self.store.slave is None and seed is not None and not self.stopped.done():
            self.store.begin(self.machine, seed)
        return self.store.slave is not None

    def _welcomed(self, welcome: Welcome) -> None:
        self.store.caught_up_at(welcome.confirmed)
        self._perform(self.machine.welcomed(welcome))
        self._controllers.report_soon()  # by its last report it may have an end that the master lacks, cut off now
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
        store = self.store.of_slave
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

    # -- master --------------------------------------------------------------------------------------------------

    async def _lead(self, effect: do.AppendEpoch) -> None:
        """Become master: apply all of the log, then append its EPOCH record."""
        machine = self.machine
        leading = self.store.lead(
            machine, self._written, lambda end: self._perform(machine.synced_to(end)), self._streams.silence
        )
        start = leading.begin(effect.start)
        self._streams.lead(leading.engine.commit_log)
        self._perform(machine.epoch_written(start, leading.engine.end))

    def _written(self, end: int) -> None:
        self.machine.wrote(end)
        self._streams.written()

    def _open(self) -> None:
        assert self.store.leading is not None, "only a master opens"
        parts = self._group, self._process, self._listener, self._end
        self.store.leading.open(*parts, self._controllers.clock.is_right)

    def _resign(self, effect: do.Close) -> Coroutine[Any, Any, None]:
        """End the mastership at once; then open the store anew, as a slave's."""
        leading = self.store.end_leading()
        self._streams.close()
        failure = leading.resign(self._listener, effect.reason)
        if failure is not None:  # the operating system may show more than its disk has: the promise is not told
            self._end(failure)
        return self.store.open_anew(leading, self.machine)

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

        return self.store.leading is not None and await self.store.leading.quiesce(has_all, seconds)

    def status(self) -> ReplicaStatus:
        condition = self._log.condition(self.store.files.diverged_parts(), self._copying.source)
        own = status_of(self.machine, self.store.leading, self.store.commit_log, self._following.problem, condition)
        return replace(own, controllers=self._controllers.addresses, control_problem=self._controllers.problem)

    async def health(self) -> tuple[ReplicaStatus, ReplicaStatus | None]:
        own, is_slave = self.status(), self.machine.role is Role.SLAVE and self.machine.is_joined
        return own, await self._peers.status_of(own.appointment.master) if is_slave else None

    async def seed(self) -> StoreSeed:
        if self.store.leading is not None:
            return self.store.leading.seed()
        raise EntrepotError(Code.UNAVAILABLE, f"replica {self._group.replica} is not master")

    def greeted(self, greeting: Greeting, stream: ServerStream) -> None:
        if self.store.leading is not None:
            self.machine.begin = self.store.leading.engine.commit_log.min_offset
        self._perform(self.machine.greeted(greeting, self._streams.open(greeting.member.replica, stream)))

    def have(self, replica: int, stream: int, end: int) -> None:
        self._perform(self.machine.acknowledged(replica, stream, end))
