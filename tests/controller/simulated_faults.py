"""Faults of controllers: deaths, pauses, cuts from each other and from replicas, slow disks, all of them away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.controller.simulated_controller import SimulatedController

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import ControlledGroup

KINDS: Final = ("death", "pause", "slow disk", "cut", "split", "all away", "gateway dies", "gateway cut")


class ControllerFaults:
    """`done`: how often each kind came."""

    def __init__(self, group: ControlledGroup) -> None:
        self._group, self._world = group, group.register
        self.chance = group.clock.chance("controller faults")
        self.mean = self.chance.choice((30.0, 100.0, 400.0))
        self.kinds = [kind for kind in KINDS if self.chance.random() < 0.4]
        self.done: dict[str, int] = {}
        self._next()

    def _next(self) -> None:
        self._group.clock.after(self.chance.expovariate(1 / self.mean), self._come)

    def _come(self) -> None:
        if self._world.is_healing:
            return
        self._next()
        if not self.kinds:
            return
        kind = self.chance.choice(self.kinds)
        up = [each for each in self._world.controllers.values() if each.is_up]
        leading = [each for each in up if each.decisions.is_leader]
        some = leading if leading and self.chance.random() < 0.5 else up
        if some:
            controller = self.chance.choice(some)
            self._group.clock.note(controller.name, f"fault: {kind}")
            getattr(self, "_" + kind.replace(" ", "_"))(controller)
            self.done[kind] = self.done.get(kind, 0) + 1

    def _death(self, controller: SimulatedController) -> None:
        controller.die()

    def _pause(self, controller: SimulatedController) -> None:
        controller.pause(self.chance.choice((20.0, 150.0, 500.0)))

    def _slow_disk(self, controller: SimulatedController) -> None:
        controller.slowness = self.chance.choice((1.0, 5.0, 30.0))

    def _cut(self, controller: SimulatedController) -> None:
        """One way to another process."""
        other = self.chance.choice(self._slots(controller))
        self._close({self.chance.choice(((controller.slot, other), (other, controller.slot)))})

    def _split(self, controller: SimulatedController) -> None:
        """From all others, either way, or with some of the replicas on its side."""
        others = [slot for slot in self._slots(controller) if slot < 0 or self.chance.random() < 0.7]
        self._close({pair for slot in others for pair in ((controller.slot, slot), (slot, controller.slot))})

    def _all_away(self, _: SimulatedController) -> None:
        for controller in self._world.controllers.values():
            controller.die()

    def _gateway_dies(self, _: SimulatedController) -> None:
        self.chance.choice(self._group.gateways).die()

    def _gateway_cut(self, _: SimulatedController) -> None:
        """One way between a gateway and a replica."""
        gateway = self.chance.choice(self._group.gateways)
        replica = self.chance.choice(list(self._group.processes.values()))
        self._close({self.chance.choice(((gateway.slot, replica.slot), (replica.slot, gateway.slot)))})

    def _slots(self, controller: SimulatedController) -> list[int]:
        others = [each.slot for each in self._world.controllers.values() if each is not controller]
        return [*others, *(replica.slot for replica in self._group.processes.values())]

    def _close(self, pairs: set[tuple[int, int]]) -> None:
        cuts = self._group.network.cuts
        cuts |= pairs
        self._group.clock.after(self.chance.choice((30.0, 150.0, 600.0)), cuts.difference_update, pairs)
