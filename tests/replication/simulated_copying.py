"""Copies in the simulation: a replica that has not joined fetches what another one has confirmed, as `copying` does.

The answer comes late, when its log may have become another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.broker.replication.files.runs import Run
from entrepot.broker.replication.following_replica import Role
from entrepot.domain.replication.epochs import start_before
from tests.replication.simulated_replica import SimulatedReplica, pieces

if TYPE_CHECKING:
    from tests.replication.simulated_group import Group

COPY_CHANCE: Final = 0.3
MOST_COPIED: Final = 6
MOST_ASKED: Final = 6
STEP_MEAN: Final = 3.0


class Copies:
    """`count`: runs that were taken."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._chance = group.clock.chance("copies")
        self._holding: dict[SimulatedReplica, int] = {}  # the life of each that copies
        self.count = 0

    def holds(self, replica: SimulatedReplica) -> bool:
        """True while a replica greets nobody, as it copies."""
        return self._holding.get(replica) == replica.life

    def welcomed(self, replica: SimulatedReplica) -> None:
        """A master has taken it: now and then it leaves that one for a while, to copy from others."""
        if replica.machine is not None and replica.machine.is_joined and self._chance.random() < COPY_CHANCE:
            self._holding[replica] = replica.life
            self._group.disconnect(replica)
            replica.live.lost()
            self._step(replica, self._chance.randint(1, MOST_ASKED))

    def _step(self, replica: SimulatedReplica, left: int) -> None:
        """Ask another replica for what comes next."""
        machine, group = replica.live, self._group
        if not left or machine.role is not Role.SLAVE:
            del self._holding[replica]
            replica.follow_again()
            return
        source = self._chance.choice([each for each in group.processes.values() if each is not replica])
        before = start_before(machine.starts, machine.end)
        group.network.send(replica, source, self._asked, replica, source, before, machine.end)
        replica.later(self._chance.expovariate(1 / STEP_MEAN), self._step, replica, left - 1)

    def _asked(self, replica: SimulatedReplica, source: SimulatedReplica, before: tuple[int, int], offset: int) -> None:
        machine = source.live
        confirmed = min(machine.confirmed, machine.synced)
        if offset >= confirmed or (offset and start_before(machine.starts, offset) != before):
            return
        run = source.run_from(offset, min(MOST_COPIED, confirmed - offset))._replace(confirmed=confirmed)
        self._group.network.send(source, replica, self._came, replica, run, before)

    def _came(self, replica: SimulatedReplica, run: Run, before: tuple[int, int]) -> None:
        effects = replica.live.copied(pieces(run), before)
        self.count += bool(effects)
        replica.run(effects)
