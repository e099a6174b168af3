"""Disks that are put back to a snapshot of their present run, in the simulation with controllers.

The controllers remember what each log had, as long as they live: here all of them do, and have heard the last report.
What was confirmed has been told: a master that died with its confirm on its lips is not followed by a disk that is put
back (ADR 74, the second hole).  One disk at a time, and one whose bytes are on others; now and then the master dies
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.broker.replication.following_replica import Role
from tests.controller.simulated_agent import NAME
from tests.replication.simulated_disk import ReplicaDisk
from tests.replication.simulated_replica import SimulatedReplica

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import ControlledGroup

FORGETFUL: Final = ("death", "all away")


class PutBacks:
    """`done`: how often a disk was put back; `found`: how often one that then lacked what was confirmed."""

    def __init__(self, group: ControlledGroup) -> None:
        self._group = group
        self._chance = group.clock.chance("put backs")
        self._mean = self._chance.choice((15.0, 50.0))
        self._snapshots: dict[int, ReplicaDisk] = {}
        self.done = self.found = 0
        group.controller_faults.kinds = [kind for kind in group.controller_faults.kinds if kind not in FORGETFUL]
        group.faults.kinds = [kind for kind in group.faults.kinds if kind not in ("roll back", "copy")]
        self._next()

    def _next(self) -> None:
        self._group.clock.after(self._chance.expovariate(1 / self._mean), self._come)

    def _come(self) -> None:
        if self._group.register.is_healing:
            return
        self._next()
        replica = self._chance.choice(list(self._group.processes.values()))
        snapshot = self._snapshots.get(replica.slot)
        if snapshot is None or self._chance.random() < 0.2 or snapshot.state.run != replica.disk.state.run:
            self._snapshots[replica.slot] = self._taken(replica)
        elif self._may_be_put_back(replica):
            del self._snapshots[replica.slot]
            self._put_back(replica, snapshot)

    def _taken(self, replica: SimulatedReplica) -> ReplicaDisk:
        """A snapshot as a power loss would leave the disk."""
        found = replica.disk.copy()
        found.crash(self._chance)
        return found

    def _may_be_put_back(self, replica: SimulatedReplica) -> bool:
        group = self._group
        others = [each for each in group.processes.values() if each is not replica]
        is_known = self._snapshots[replica.slot].state.incarnation == replica.disk.state.incarnation
        machine = replica.machine
        is_there = machine is not None and (machine.is_open or (machine.role is Role.SLAVE and machine.is_joined))
        if not is_there:
            return False
        is_alone = replica.disk.is_whole and all(each.disk.is_whole for each in others)
        told = [each.live.confirmed for each in group.processes.values() if each is replica or each.is_master]
        is_told = max(told) >= len(group.truth)
        return is_known and is_told and is_alone and group.faults._may_lose(replica)

    def _have_heard(self, replica: SimulatedReplica) -> None:
        """Have the last reports of a replica, and of its master, come to all controllers."""
        for each in self._group.processes.values():
            if each is replica or each.is_master:
                machine = each.live
                answer = machine.state.promised(machine.starts[-1], machine.synced, machine.confirmed)
                for controller in self._group.register.controllers.values():
                    if NAME in controller.decisions.watched:
                        controller.decisions.watched[NAME].logs.note(answer, is_open=machine.is_open)

    def _put_back(self, replica: SimulatedReplica, snapshot: ReplicaDisk) -> None:
        group = self._group
        self.done += 1
        self.found += len(snapshot.log) < group.confirmed_by(replica.live.epoch)
        self._have_heard(replica)
        group.clock.note(replica.name, f"fault: put back from {len(replica.disk.log)} to {len(snapshot.log)}")
        replica.die()
        replica.snapshot = None
        had = max(replica.disk.had, tuple(replica.disk.log), key=len)  # acknowledgements may be on their way
        replica.disk = snapshot
        replica.disk.had = had
        masters = [each for each in group.processes.values() if each.is_master]
        if masters and self._chance.random() < 0.5:
            self._chance.choice(masters).die()
