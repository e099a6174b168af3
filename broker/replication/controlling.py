"""Controlling: a replica process, seen and ordered by its controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from entrepot.broker.replication.effects import Effect
from entrepot.broker.replication.following import Following
from entrepot.broker.replication.following_replica import Role
from entrepot.broker.replication.replica import Replica
from entrepot.broker.replication.replica_store import ReplicaStore
from entrepot.broker.replication.set_keeping import SetKeeping
from entrepot.broker.replication.slave_streams import SlaveStreams
from entrepot.broker.replication.slave_watch import SlaveSight, SlaveWatch
from entrepot.broker.replication.status import problem_of
from entrepot.broker.store.stall import Stall
from entrepot.domain.replication.control import NEVER, Report
from entrepot.domain.replication.mastership import NOBODY, FenceAnswer, Promise

MAX_LAG_SECONDS: Final = 10.0
"""Longest time for which a member of the set may lag behind, in seconds."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """Parts of the process to be read."""

    machine: Replica
    store: ReplicaStore
    following: Following
    streams: SlaveStreams


class Controlling:
    """The controllers' access to a process. `promise`, `quiesce` and `perform` are the process's."""

    def __init__(
        self,
        parts: ReplicaParts,
        lease: float,
        *,
        promise: Callable[[Promise], Awaitable[FenceAnswer | Promise]],
        quiesce: Callable[[int, float], Awaitable[bool]],
        perform: Callable[[list[Effect]], None],
    ) -> None:
        self.machine, self._parts = parts.machine, parts
        self.promise, self.quiesce, self.perform = promise, quiesce, perform
        self._loop = asyncio.get_running_loop()
        self._syncing, self._confirming = Stall(), Stall()
        self._watch = SlaveWatch(lease, max(MAX_LAG_SECONDS, lease))
        self._mastership = (0, 0)
        self._parted: dict[int, int] = {}
        """Streams of slaves that announced their stop."""

    def report(self, known: tuple[int, int]) -> Report:
        """Return its heartbeat. `known`: see there."""
        machine, now, leading = self.machine, self._loop.time(), self._parts.store.leading
        state, is_master = machine.state, machine.role is Role.MASTER
        goal = machine.end if is_master else machine.confirmed
        return Report(
            state.promised(machine.starts[-1], machine.synced, machine.confirmed),
            machine.role.value,
            state.promise.epoch,
            leading is not None and leading.is_open,
            problem_of(machine, self._parts.following.problem),
            self._parts.following.silence,
            self._syncing.age(machine.synced, machine.end, now),
            self._confirming.age(machine.confirmed, goal, now),
            known,
        )

    def bind(self, cluster: str) -> None:
        """Obey only these controllers from now on."""
        state = self.machine.state
        if not state.controllers:
            self.machine.state = replace(state, controllers=cluster)
            self._parts.store.files.save(self.machine.state)

    def observe(self, keeping: SetKeeping) -> None:
        """Find the slaves that are to leave the set of this master."""
        machine, now = self.machine, self._loop.time()
        if machine.role is not Role.MASTER:
            self._mastership = (0, 0)
            keeping.gone = frozenset()
            return
        if self._mastership != (machine.epoch, machine.state.run):
            self._mastership = (machine.epoch, machine.state.run)
            self._watch.begin(now)
            self._parted.clear()
        members = {member.replica for member in machine.state.appointment.members} | machine.slaves.keys()
        sights = {replica: self._sight(replica) for replica in members if replica != machine.state.replica}
        gone, machine.kept_out = self._watch.look(now, machine.end, sights)
        if gone - keeping.gone:
            log.warning("slaves are to leave the set", replicas=sorted(gone - keeping.gone))
        keeping.gone = gone

    def parted(self, replica: int) -> None:
        """Note that a slave stops; its next stream is that of another start."""
        slave = self.machine.slaves.get(replica)
        if slave is not None:
            self._parted[replica] = slave.stream

    def _sight(self, replica: int) -> SlaveSight:
        slave = self.machine.slaves.get(replica)
        if slave is not None and slave.stream >= 0 and slave.stream != self._parted.get(replica):
            self._parted.pop(replica, None)
        if slave is None or slave.stream < 0:
            return SlaveSight(None if replica not in self._parted else NEVER, 0)
        if slave.has_lost or replica in self._parted:
            return SlaveSight(NEVER, 0)
        return SlaveSight(self._parts.streams.silence(slave.stream), slave.acknowledged)

    def successor(self) -> int:
        """Return the member of the set that has most of the log; NOBODY without one, or if this is not the master."""
        machine, leading = self.machine, self._parts.store.leading
        if leading is None or not leading.is_open or leading.engine.failure is not None:
            return NOBODY
        ends = {
            replica: slave.acknowledged
            for replica, slave in machine.slaves.items()
            if slave.stream >= 0 and slave.member in machine.state.appointment.members
        }
        return max(ends, key=lambda replica: ends[replica]) if ends else NOBODY
