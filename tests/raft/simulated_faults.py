"""Faults of a Raft group: deaths, cuts, partitions, pauses, slow disks, clocks that jump, loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.raft.simulated_member import SimulatedMember
from tests.simulation.faults import Faults
from tests.simulation.network import both_ways

if TYPE_CHECKING:
    from tests.raft.simulated_cluster import Cluster

KINDS: Final = ("death", "cut", "split", "partition", "pause", "slow disk", "jump", "loss")


class MemberFaults(Faults[SimulatedMember]):
    """The leader has more of them than others."""

    share = 0.5
    means = (20.0, 60.0, 200.0)
    pauses = (10.0, 80.0, 400.0)
    cuts = (30.0, 200.0, 800.0)
    jumps = (-1000.0, -50.0, 50.0, 1000.0)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, KINDS)
        self._cluster = cluster

    def _chosen(self) -> SimulatedMember:
        leader = self._cluster.leader()
        members = [*self._cluster.members.values()]
        return leader if leader is not None and self.chance.random() < 0.4 else self.chance.choice(members)

    def _death(self, member: SimulatedMember) -> None:
        if member.machine is not None:
            member.die()

    def _cut(self, member: SimulatedMember) -> None:
        """One way between two."""
        other = self.chance.choice([*self._cluster.members])
        self._close({self.chance.choice(((member.number, other), (other, member.number)))})

    def _split(self, member: SimulatedMember) -> None:
        """One member from all others, in one direction or both."""
        number = member.number
        out = {(number, other) for other in self._cluster.members}
        back = {(other, number) for other in self._cluster.members}
        self._close(self.chance.choice((out, back, out | back)))

    def _partition(self, member: SimulatedMember) -> None:
        """Two halves."""
        side = {number for number in self._cluster.members if self.chance.random() < 0.5}
        rest = set(self._cluster.members) - side
        self._close({way for one in side for way in both_ways(one, rest)})
