"""Faults of controllers: deaths, pauses, cuts from each other and from replicas, slow disks, all of them away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.controller.simulated_controller import SimulatedController
from tests.simulation.faults import Faults
from tests.simulation.network import both_ways

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import ControlledGroup

KINDS: Final = ("death", "pause", "slow disk", "cut", "split", "all away", "gateway dies", "gateway cut")


class ControllerFaults(Faults[SimulatedController]):
    """Of those that are up; as often as not of the leader."""

    concern = "controller faults"
    share = 0.4
    means = (30.0, 100.0, 400.0)
    pauses = (20.0, 150.0, 500.0)
    cuts = (30.0, 150.0, 600.0)
    slownesses = (1.0, 5.0, 30.0)

    def __init__(self, group: ControlledGroup) -> None:
        super().__init__(group, KINDS)
        self._group, self._controllers = group, group.register.controllers

    def _chosen(self) -> SimulatedController | None:
        up = [each for each in self._controllers.values() if each.is_up]
        leading = [each for each in up if each.decisions.is_leader]
        some = leading if leading and self.chance.random() < 0.5 else up
        return self.chance.choice(some) if some else None

    def _death(self, controller: SimulatedController) -> None:
        controller.die()

    def _cut(self, controller: SimulatedController) -> None:
        """One way to another process."""
        other = self.chance.choice(self._slots(controller))
        self._close({self.chance.choice(((controller.slot, other), (other, controller.slot)))})

    def _split(self, controller: SimulatedController) -> None:
        """From all others, either way, or with some of the replicas on its side."""
        others = [slot for slot in self._slots(controller) if slot < 0 or self.chance.random() < 0.7]
        self._close(both_ways(controller.slot, others))

    def _all_away(self, _: SimulatedController) -> None:
        for controller in self._controllers.values():
            controller.die()

    def _gateway_dies(self, _: SimulatedController) -> None:
        self.chance.choice(self._group.gateways).die()

    def _gateway_cut(self, _: SimulatedController) -> None:
        """One way between a gateway and a replica."""
        gateway = self.chance.choice(self._group.gateways)
        replica = self.chance.choice(list(self._group.processes.values()))
        self._close({self.chance.choice(((gateway.slot, replica.slot), (replica.slot, gateway.slot)))})

    def _slots(self, controller: SimulatedController) -> list[int]:
        others = [each.slot for each in self._controllers.values() if each is not controller]
        return [*others, *(replica.slot for replica in self._group.processes.values())]
