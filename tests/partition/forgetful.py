"""Machines whose disks forget what was not synced, and cuts of their power, one, some or all at a moment."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from tests.partition.controlled import CONTROLLERS, GROUPS, ControlledDeployment
from tests.partition.controlled_faults import MESSAGES, ControlledFaults, Fault
from tests.partition.deployment import Node
from tests.partition.network import Network
from tests.partition.steady_load import SteadyLoad
from tests.support.brokers.forgetful_disk import ForgetfulDisk, Losses
from tests.support.waiting import wait_until

_STEPS = 200


class ForgetfulDeployment(ControlledDeployment):
    """The controlled deployment on such disks.  `forgotten`: by all cuts."""

    def __init__(self, network: Network, directory: Path) -> None:
        super().__init__(network, directory)
        self.forgetful: dict[str, ForgetfulDisk] = {}
        self.forgotten = Losses()

    def _data_of(self, machine: str) -> Path:
        if machine not in self.forgetful:
            self.forgetful[machine] = ForgetfulDisk(self.disk(machine))
        return self.disk(machine) / "data"

    def stop(self) -> None:
        super().stop()
        for disk in self.forgetful.values():
            disk.close()

    def node(self, machine: str) -> Node:
        return self.controller(machine) if machine in CONTROLLERS else self.replica(machine)

    def cut_power(self, machines: Sequence[str], rng: Random) -> None:
        """Of all of them when the disk of the first is between two steps; they are not started again."""
        first = self.forgetful[machines[0]]
        first.stop_after(rng.randrange(_STEPS))
        wait_until(lambda: first.has_stopped, f"{machines[0]} writes")
        chance = rng.choice([rng, None])
        for machine in machines:
            self.node(machine).signal(signal.SIGKILL)
        for machine in machines:
            losses = self.forgetful[machine].cut_power(chance)
            self.forgotten.names += losses.names
            self.forgotten.sectors += losses.sectors
            self.node(machine).kill()


class PowerFaults(ControlledFaults):
    """Each begins with a cut of power, and ends when all machines have it again."""

    def __init__(self, deployment: ForgetfulDeployment, load: SteadyLoad, rng: Random) -> None:
        super().__init__(deployment, load, rng)
        self._machines = deployment

    @property
    def all(self) -> Sequence[Fault]:
        return [self.cut_one, self.cut_master, self.cut_two, self.cut_group, self.cut_controllers, self.cut_everything]

    def cut_one(self, broker: str) -> None:
        self._cut([self._rng.choice(GROUPS[broker])], self._goes_on)

    def cut_master(self, broker: str) -> None:
        master = self._deployment.master(broker)
        self._cut([master], lambda: self._deployment.wait_replaced(broker, master))

    def cut_two(self, broker: str) -> None:
        """Nothing is confirmed without them."""
        self._cut(self._rng.sample(GROUPS[broker], 2))

    def cut_group(self, broker: str) -> None:
        self._cut(self._rng.sample(GROUPS[broker], len(GROUPS[broker])))

    def cut_controllers(self, broker: str) -> None:
        """With the group's master, so that they have something to decide when they are back."""
        self._cut([self._deployment.master(broker), *CONTROLLERS])

    def cut_everything(self, broker: str) -> None:
        """But gateways, which keep nothing."""
        others = [machine for each in GROUPS if each != broker for machine in GROUPS[each]]
        self._cut([*self._rng.sample(GROUPS[broker], len(GROUPS[broker])), *others, *CONTROLLERS])

    def _goes_on(self) -> None:
        self._load.goes_on(MESSAGES)

    def _cut(self, machines: Sequence[str], meanwhile: Callable[[], None] = lambda: None) -> None:
        self._machines.cut_power(machines, self._rng)
        meanwhile()
        self._start(*(self._machines.node(machine) for machine in machines))
