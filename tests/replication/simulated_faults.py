"""Faults of replicas: deaths, cuts, pauses, slow disks, clocks that jump, wiped, rolled-back and copied directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.mastership import Member, heard_of
from tests.replication.simulated_disk import ReplicaDisk
from tests.replication.simulated_replica import SimulatedReplica
from tests.simulation.faults import Faults
from tests.simulation.network import both_ways

if TYPE_CHECKING:
    from tests.replication.simulated_group import Group

KINDS: Final = ("death", "break", "cut", "split", "pause", "slow disk", "jump", "wipe", "roll back", "copy", "loss")
COPYING: Final = ("roll back", "copy")
"""Nobody copies directories where people elect by hand."""


class ReplicaFaults(Faults[SimulatedReplica]):
    """Those that find nothing to do are not counted."""

    share = 0.6
    means = (6.0, 20.0, 80.0)
    pauses = (5.0, 40.0, 200.0)
    cuts = (10.0, 60.0, 400.0)
    jumps = (-500.0, -50.0, 50.0, 500.0)

    def __init__(self, group: Group) -> None:
        super().__init__(group, (kind for kind in KINDS if not (group.register.is_by_hand and kind in COPYING)))
        self._group = group
        self.kinds += [kind for kind in self.kinds if kind in COPYING]  # most find nothing to do

    def _chosen(self) -> SimulatedReplica:
        return self.chance.choice(list(self._group.processes.values()))

    def _happen(self, kind: str, replica: SimulatedReplica) -> None:
        if self._act(kind)(replica):
            self._count(kind)
            self._group.clock.note(replica.name, f"fault: {kind}")
            if kind in COPYING:  # whoever does that elects, too
                self._group.clock.after(self.chance.choice((10.0, 50.0, 200.0)), self._group.register.elect_somebody)

    # -- processes and disks -------------------------------------------------------------------------------------

    def _death(self, replica: SimulatedReplica) -> bool:
        """Sooner where something hangs on it: an unfinished sync, a promise to an election that has not ended."""
        group = self._group
        promised = {number for each in group.register.coordinators for number in each.heard}
        for share, at_stake in (
            (0.5, [each for each in group.processes.values() if each.number in promised]),
            (0.5, [each for each in group.processes.values() if each.is_syncing]),
        ):
            if at_stake and self.chance.random() < share:
                replica = self.chance.choice(at_stake)
                break
        if replica.machine is None:
            return False
        replica.die()
        return True

    def _pause(self, replica: SimulatedReplica) -> bool:
        return not replica.is_paused and super()._pause(replica)

    def _end(self, replica: SimulatedReplica) -> None:
        if replica.machine is not None:
            replica.die()
            replica.snapshot = None

    def _wipe(self, replica: SimulatedReplica) -> bool:
        """As many as the rule bears: what is confirmed is on another disk that is whole."""
        if replica.slot != replica.number or not self._may_lose(replica):
            return False
        self._end(replica)
        self._group.wipe(replica)
        return True

    def _roll_back(self, _: SimulatedReplica) -> bool:
        """A directory comes back from a copy; its later starts were heard of."""
        found = [each for each in self._group.processes.values() if each.snapshot and self._is_older(each.snapshot)]
        if not found:
            return False
        replica = self.chance.choice(found)
        snapshot, replica.snapshot = replica.snapshot, None
        if snapshot is None or not self._may_lose(replica):
            return False
        self._end(replica)
        replica.disk = snapshot.copy()
        replica.disk.is_old_copy = True
        return True

    def _copy(self, replica: SimulatedReplica) -> bool:
        """A second process runs with a copy of a directory."""
        snapshot = replica.snapshot
        if snapshot is None or self._group.has_twin or not self._is_older(snapshot):
            return False
        replica.snapshot = None
        disk = snapshot.copy()
        disk.is_old_copy = True
        self._group.add_twin(replica.number, disk)
        return True

    def _is_older(self, snapshot: ReplicaDisk) -> bool:
        """Its last start was heard of: nobody knows of one that was not."""
        heard = heard_of(self._group.register.decided.heard, snapshot.state.member)
        last = self._group.processes[snapshot.state.replica].disk.state
        is_last = heard is not None and (last.member != snapshot.state.member or heard.run == last.run)
        return heard is not None and heard.run > snapshot.state.run and is_last

    def _may_lose(self, replica: SimulatedReplica) -> bool:
        """Its data is on other disks, also of one that may be master (an operator may have taken out one that is in
        sync); and nobody is about to choose it for what it had."""
        group = self._group
        is_set = group.rule.kind is RuleKind.IN_SYNC
        counted = group.register.decided.members if is_set else group.register.decided.known
        others = [member for member in counted if member.replica != replica.number]
        rule = group.register.decided.rule
        electable = {member.replica for member in group.register.decided.known}
        is_spare = any(each.replica in electable for each in others) and (is_set or rule.required < rule.replicas)
        return is_spare and not group.register.coordinators and all(self._is_whole(member) for member in others)

    def _is_whole(self, member: Member) -> bool:
        disk = self._group.processes[member.replica].disk
        return disk.state.incarnation == member.incarnation and disk.is_whole

    # -- the network ---------------------------------------------------------------------------------------------

    def _break(self, replica: SimulatedReplica) -> bool:
        if replica.connection is None:
            return False
        replica.connection.end()
        return True

    def _cut(self, replica: SimulatedReplica) -> bool:
        """One way between two, for a while."""
        other = 0 if self.chance.random() < 0.4 else self.chance.choice([*self._group.processes])
        return self._close(
            {(replica.slot, other), (other, replica.slot)} - {self.chance.choice([(other, replica.slot)])}
        )

    def _split(self, replica: SimulatedReplica) -> bool:
        """One replica from all others, either way."""
        others = [0, *self._group.processes]
        return self._close(both_ways(replica.slot, others))
