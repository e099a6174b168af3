"""Seeded histories of machines with clocks of their own, one of them wrong; and the faults that they find."""

from __future__ import annotations

from typing import Final

import pytest

from entrepot.broker.controller.controller import Controller
from entrepot.broker.controller.register import Group
from entrepot.broker.controller.watched import Watched
from entrepot.gateway.clock import SystemClock
from tests.controller.histories import run_history, told_histories
from tests.controller.simulated_controllers import ControlledGroup, PlantedFaults
from tests.controller.simulated_machines import Machine, Machines, ProcessClock
from tests.replication.histories import RULES
from tests.simulation.histories import find
from tests.tiers.marks import scaled, soak_only

HISTORIES = scaled(10, 3_000)
MOST_HISTORIES = 3_000


def stepped(group: ControlledGroup) -> int:
    assert group.machines is not None
    return group.machines.steps


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_clock_does_not_decide(rule: str) -> None:
    found = told_histories("histories with wrong clocks", rule, HISTORIES, 3_000_017, stepped, machines=Machines)
    machines = [group.machines for group in found]
    steps, ahead = sum(each.steps for each in machines if each), sum(each.ahead for each in machines if each)
    assert steps > HISTORIES, "clocks are set"
    assert ahead, "processes begin with clocks that are ahead"


class ElectsAnyClock(Controller):
    """Clocks are not compared."""

    def clock_told(self, *told: object) -> None:
        pass


class LetsItGoOn(Controller):
    """A master that begins anew is asked for nothing."""

    def _has_doubtful_clock(self, group: Group, watched: Watched, replica: int) -> bool:
        return False


class HastyMachine(Machine):
    """A process takes its system's time at once."""

    def begin(self) -> ProcessClock:
        return HastyClock(self)


class HastyClock(ProcessClock):
    @property
    def clock(self) -> SystemClock:
        return SystemClock(self._machine.time, self._machine.now)

    @clock.setter
    def clock(self, value: SystemClock) -> None:
        pass


class HastyMachines(Machines):
    machine_type = HastyMachine


FAULTS: Final = {
    "any clock is elected": (PlantedFaults(controller=ElectsAnyClock), Machines, "3 in sync", 820086939),
    "a master goes on with any clock": (PlantedFaults(controller=LetsItGoOn), Machines, "2-2", 0),
    "a step is followed at once": (PlantedFaults(), HastyMachines, "3 in sync", 3332067697),
}


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", ["any clock is elected", soak_only("a master goes on with any clock"), "a step is followed at once"]
)
def test_a_fault_is_found(name: str) -> None:
    planted, machines, rule, known = FAULTS[name]
    find(
        f"{name} {rule}",
        lambda seed: run_history(seed, rule, planted, machines=machines),
        MOST_HISTORIES,
        scaled(known, None),
    )
