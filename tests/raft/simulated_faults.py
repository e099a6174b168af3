"""Faults from outside: deaths, cuts, partitions, pauses, slow disks, clocks that jump, loss.

Each history has some kinds of them, not all: one kind may hide the effects of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.raft.simulated_member import SimulatedMember

if TYPE_CHECKING:
    from tests.raft.simulated_cluster import Cluster

KINDS: Final = ("death", "cut", "split", "partition", "pause", "slow disk", "jump", "loss")


class Faults:
    """`done`: count of each kind."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.chance = cluster.clock.chance("faults")
        self.mean = self.chance.choice((20.0, 60.0, 200.0))
        self.kinds = [kind for kind in KINDS if self.chance.random() < 0.5]
        self.done: dict[str, int] = {}
        self.is_over = False
        self._next()

    def _next(self) -> None:
        self._cluster.clock.after(self.chance.expovariate(1 / self.mean), self._come)

    def _come(self) -> None:
        if self.is_over:
            return
        self._next()
        if not self.kinds:
            return
        kind = self.chance.choice(self.kinds)
        leader = self._cluster.leader()
        members = [*self._cluster.members.values()]
        member = leader if leader is not None and self.chance.random() < 0.4 else self.chance.choice(members)
        self._cluster.clock.note(f"member {member.number}", f"fault: {kind}")
        getattr(self, "_" + kind.replace(" ", "_"))(member)
        self.done[kind] = self.done.get(kind, 0) + 1

    def _death(self, member: SimulatedMember) -> None:
        if member.machine is not None:
            member.die()

    def _pause(self, member: SimulatedMember) -> None:
        if member.machine is not None:
            member.pause(self.chance.choice((10.0, 80.0, 400.0)))

    def _slow_disk(self, member: SimulatedMember) -> None:
        member.slowness = self.chance.choice((1.0, 5.0, 40.0))

    def _jump(self, member: SimulatedMember) -> None:
        member.skew += self.chance.choice((-1000.0, -50.0, 50.0, 1000.0))

    def _loss(self, member: SimulatedMember) -> None:
        network = self._cluster.network
        network.loss, network.doubles = self.chance.choice(((0.0, 0.0), (0.1, 0.3), (0.4, 0.4)))

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
        self._close({pair for one in side for two in rest for pair in ((one, two), (two, one))})

    def _close(self, pairs: set[tuple[int, int]]) -> None:
        pairs = {pair for pair in pairs if pair[0] != pair[1]}
        cuts = self._cluster.network.cuts
        cuts |= pairs
        self._cluster.clock.after(self.chance.choice((30.0, 200.0, 800.0)), cuts.difference_update, pairs)
