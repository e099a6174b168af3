"""Leading: a replica's time as master: the broker over its store, and the listener for gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from entrepot.broker.broker import Broker
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.remoting.listener import RemotingListener, ServerChannel
from entrepot.broker.replication.confirming import ConfirmWatch, missing_of
from entrepot.broker.replication.peers import REPLICA_CLIENT, GroupSettings
from entrepot.broker.replication.replica import Replica
from entrepot.broker.replication.slave_lag import slave_statuses
from entrepot.broker.server.process import BrokerProcess, BrokerProcessSettings, Mastership
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.record import RecordKind
from entrepot.broker.store.store_clock import StoreClock
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.clock import Clock
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.route import mastership_order
from entrepot.protocols.wire.operations import SlaveStatus, StoreSeed

QUIESCE_STEP_SECONDS: Final = 0.002
SAVE_SECONDS: Final = 1.0
"""Longest time for saving before a planned move, while writes go on, in seconds. The store is opened anew in the pause,
and reads everything unsaved from the log."""
IDLE_SECONDS: Final = 0.05
"""Longest wait of a master for a moment without waiters, before it stops writing, in seconds."""
TELL_SECONDS: Final = 0.5
"""Longest wait for other replicas to acknowledge records, in seconds: until then no confirmation is known."""
PART_SECONDS: Final = 0.03
"""Time for which a resigning master refuses what still comes, before its goodbye, in seconds: the outcome of a request
that meets the goodbye is unknown."""
SHORT_LEASES: Final = 2
"""Leases without enough replicas to confirm, after which a master says so and refuses messages."""
LOOKS: Final = 4
"""Looks at the slaves in the time of a lease."""
HOLD_SECONDS: Final = 2.0
"""Pause in which an election is expected once a replica has caught up, in seconds."""
log = structlog.get_logger(__name__)


class Leading:
    """A mastership. `on_written` and `on_durable` get the end of the log. `silence`: seconds since a slave's stream was
    heard, by its number, or None."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        opened: OpenedStore,
        *,
        machine: Replica,
        on_written: Callable[[int], None],
        on_durable: Callable[[int], None],
        silence: Callable[[int], float | None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        # The earlier master's clock may have been ahead of this one.
        self.broker = Broker(settings, StoreClock(clock, opened.engine.lookup.index.latest_ms), None, opened)
        self.engine = self.broker.engine
        self._clock, self._machine = clock, machine
        self._on_durable = on_durable
        self._is_within_sync = False
        self._server: BrokerProcess | None = None
        self._opening: asyncio.Task[None] | None = None
        self._going_on: asyncio.TimerHandle | None = None
        self._silence = silence
        self._confirming = ConfirmWatch()
        self._looking: asyncio.TimerHandle | None = None
        self._parting: list[ServerChannel] = []
        self.is_open = False
        """True while gateways are let in."""
        self.engine.on_written, self.engine.on_durable = on_written, self._durable

    def slaves(self) -> dict[int, SlaveStatus]:
        """Return all slaves that have followed this master."""
        machine, now_ms = self._machine, self._clock.now_ms()
        return slave_statuses(machine.slaves, machine.state.appointment.members, self.engine.commit_log, now_ms)

    # -- the log -------------------------------------------------------------------------------------------------

    def begin(self, start: EpochStart) -> EpochStart:
        """Append the EPOCH record; return the start with its offset."""
        epoch = max(start.recovery_epoch, self.engine.recovery_epoch + start.is_unclean)
        start = start._replace(recovery_epoch=epoch)
        offset = self.engine.append_record(RecordKind.EPOCH, start.payload(), self.broker.core.now_ms())
        self.broker.core.commit.submit(Confirmation())
        log.info("became master", epoch=start.epoch, run=start.run, end=self.engine.end)
        return start._replace(start=offset)

    def _durable(self, end: int) -> None:
        self._is_within_sync = True
        try:
            self._on_durable(end)
        finally:
            self._is_within_sync = False

    def confirm(self, offset: int) -> None:
        """Confirm everything before an offset: enough disks have it by the rule."""
        self.engine.confirm_limit = max(self.engine.confirm_limit, offset)
        self.engine.move_floor()
        if not self._is_within_sync:  # else the sync that is ending tells
            self.broker.core.commit.confirmed_more()

    def seed(self) -> StoreSeed:
        """Return the beginning of a new slave's store."""
        identity = self.engine.identity
        begin = self.engine.commit_log.min_offset
        return StoreSeed(identity.store_id, identity.handle_key, identity.segment_size_bytes, begin)

    # -- the listener --------------------------------------------------------------------------------------------

    def open(
        self,
        group: GroupSettings,
        process: BrokerProcessSettings,
        listener: RemotingListener,
        on_left: Callable[[EntrepotError | None], None],
        has_right_clock: Callable[[], bool],
    ) -> None:
        """Let gateways in, soon: the records of that must be confirmed, so nobody waits for it here."""
        order = mastership_order(self._machine.epoch, self._machine.state.run)
        rule, replicas = self._machine.state.appointment.rule, tuple(sorted(group.addresses.items()))
        mastership = Mastership(
            order, group.replica, replicas, rule.text, self._copies, lambda: self.problem, has_right_clock
        )
        self.broker.condition.confirm_problem = lambda: self.problem
        server = BrokerProcess(self.broker, process, listener, self._clock, mastership)
        server.watch_replicas(self._refuses)
        server.stopped.add_done_callback(partial(_tell_left, on_left))
        self._opening = background(self._loop).start("opening of a master", self._open(server, on_left, group.lease))

    def _copies(self) -> int:
        return self._machine.state.appointment.copies

    async def _open(self, server: BrokerProcess, on_left: Callable[[EntrepotError | None], None], lease: float) -> None:
        self._server = server
        try:
            await server.start()
            self.is_open = True
            self._look(lease)
        except (OSError, EntrepotError) as error:
            if self.engine.failure is None:
                on_left(error if isinstance(error, EntrepotError) else StoreFailedError(str(error)))

    def _look(self, lease: float) -> None:
        """Look whether enough slaves are there to confirm anything."""
        self._looking = self._loop.call_later(lease / LOOKS, self._look, lease)
        machine = self._machine
        silences = {replica: self._silence(slave.stream) for replica, slave in machine.slaves.items()}
        heard = [replica for replica, silence in silences.items() if silence is not None and silence < lease]
        missing = missing_of(machine.state.appointment, machine.slaves, heard)
        if self._confirming.look(self._loop.time(), missing, SHORT_LEASES * lease):
            log.warning("master confirms again" if not self.problem else "master cannot confirm", problem=self.problem)
            self.set_changed()

    @property
    def problem(self) -> str:
        """The reason why it can confirm nothing, in words, or nothing."""
        return self._confirming.problem

    def set_changed(self) -> None:
        """Note that another replica is in sync: a confirmation means more."""
        if self._server is not None:
            self._server.info_changed()

    def _refuses(self) -> EntrepotError | None:
        """Return the reason to take no message: too few replicas have the confirmed records, or could have more."""
        if self.problem:
            return EntrepotError(Code.UNAVAILABLE, f"{self.problem}: the message was not taken")
        appointment = self._machine.state.appointment
        if appointment.takes_messages:
            return None
        return EntrepotError(
            Code.UNAVAILABLE,
            f"{len(appointment.members)} of {appointment.rule.replicas} replicas are in sync, publishing needs "
            f"{appointment.rule.min_in_sync}: the message was not taken",
        )

    async def quiesce(self, has_all: Callable[[int], bool], seconds: float) -> bool:
        """Stop writing until a replica has everything, or for so many seconds; True if it has. Then hold on for a
        moment: an election is about to begin."""
        if self._server is not None and self.is_open:
            await self.broker.checkpoints.save(SAVE_SECONDS)
        server, commit = self._server, self.broker.core.commit
        if server is None or not self.is_open:
            return False
        if self._going_on is not None:
            self._going_on.cancel()
        server.service.hold()
        begun, taken = self._loop.time(), self.engine.end
        while self._loop.time() < begun + seconds and self.engine.failure is None:
            written = self.engine.commit_log.written_offset
            if commit.is_idle or (self._loop.time() > begun + IDLE_SECONDS and written >= taken):
                commit.hold()
            is_told = self.engine.confirmed_offset >= written or self._loop.time() > begun + TELL_SECONDS
            if commit.is_at_rest and is_told and has_all(written):
                self._going_on = self._loop.call_later(HOLD_SECONDS, self._go_on)
                return True
            await asyncio.sleep(QUIESCE_STEP_SECONDS)
        self._go_on()
        return False

    def _go_on(self) -> None:
        """Go on: nobody was elected."""
        if self._server is not None and self.engine.failure is None:
            self.broker.core.commit.go_on()
            self._server.service.go_on()

    def resign(self, listener: RemotingListener, reason: str) -> StoreFailedError | None:
        """Confirm nothing any more: waiting confirmations are unknown; held-back and arriving messages are refused.
        `close` is to follow: then gateways look for the next master. Returns the store's failure, if any."""
        log.warning("lost mastership", reason=reason)
        failure = self.engine.failure
        self.engine.on_written = self.engine.on_durable = lambda offset: None
        if self._server is not None:
            self._server.refuse_held()
        self._parting = [each for each in listener.channels if not each.who.startswith(REPLICA_CLIENT)]
        for channel in self._parting:
            channel.end_calls()
        self.broker.core.commit.give_up(StoreFailedError(f"no longer master: {reason}"))
        return failure

    async def close(self) -> None:
        self.is_open = False
        if self._parting:
            await asyncio.sleep(PART_SECONDS)
        for channel in self._parting:
            channel.goodbye("no longer master")
        for timer in (self._going_on, self._looking):
            if timer is not None:
                timer.cancel()
        await cancel_tasks(self._opening)
        server, self._server = self._server, None
        if server is not None:
            await server.close()
        await self.broker.close()


def _tell_left(on_left: Callable[[EntrepotError | None], None], stopped: asyncio.Future[EntrepotError | None]) -> None:
    if not stopped.cancelled():
        on_left(stopped.result())
