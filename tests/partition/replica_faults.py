"""Faults of replicas, each from its beginning to its end, while every door is at work."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from tests.partition.replicated import ReplicatedDeployment
from tests.support.doors.every_door_process import EveryDoorProcess

MESSAGES = 8
"""By which every door is to go on while a fault lasts."""


class ReplicaFaults:
    """`done` counts the faults; `reconnects` the connections, by door, that were made anew through planned moves."""

    def __init__(self, deployment: ReplicatedDeployment, doors: EveryDoorProcess, rng: Random) -> None:
        self._deployment, self._doors, self._rng = deployment, doors, rng
        self.done: Counter[str] = Counter()
        self.reconnects: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        """Publishes, by door, that planned moves did not confirm at once."""

    @property
    def all(self) -> list[Callable[[str], None]]:
        """Each takes the name of a broker group."""
        return [
            self.move,
            self.kill_master,
            self.pause_master,
            self.kill_slave,
            self.pause_slave,
            self.wipe_slave,
            self.slow_slave,
            self.cut_from_slave,
            self.cut_to_slave,
        ]

    def run(self, fault: Callable[[str], None], broker: str) -> None:
        """Do it, and return when everything is whole again."""
        print(f"{fault.__name__}: {broker}", flush=True)
        fault(broker)
        self.done[fault.__name__] += 1
        self._deployment.wait_in_sync(broker)

    def _slave(self, broker: str) -> tuple[str, str]:
        """The master and one of its slaves."""
        master = self._deployment.master(broker)
        return master, self._rng.choice([each for each in self._deployment.groups[broker] if each != master])

    # -- the master ------------------------------------------------------------------------------------------------

    def move(self, broker: str) -> None:
        _, target = self._slave(broker)
        before = self._doors.look()
        self._deployment.elect(broker, to=self._deployment.groups[broker].index(target) + 1)
        self._doors.goes_on(MESSAGES)
        after = self._doors.look()
        self.reconnects.update(_grown(before["connections"], after["connections"]))
        self.refused.update(_grown(before["refused"], after["refused"]))

    def kill_master(self, broker: str) -> None:
        node = self._deployment.replica(self._deployment.master(broker))
        node.kill()
        self._deployment.elect(broker)
        self._doors.goes_on(MESSAGES)
        node.begin()
        node.wait_ready()

    def pause_master(self, broker: str) -> None:
        """It believes that it is master when it goes on."""
        node = self._deployment.replica(self._deployment.master(broker))
        node.signal(signal.SIGSTOP)
        self._deployment.elect(broker)
        self._doors.goes_on(MESSAGES)
        node.signal(signal.SIGCONT)

    # -- slaves ----------------------------------------------------------------------------------------------------

    def kill_slave(self, broker: str) -> None:
        node = self._deployment.replica(self._slave(broker)[1])
        node.kill()
        self._doors.goes_on(MESSAGES)
        node.begin()
        node.wait_ready()

    def wipe_slave(self, broker: str) -> None:
        slave = self._slave(broker)[1]
        node = self._deployment.replica(slave)
        node.kill()
        self._doors.goes_on(MESSAGES)
        self._deployment.wipe(slave)
        node.begin()
        node.wait_ready()

    def pause_slave(self, broker: str) -> None:
        node = self._deployment.replica(self._slave(broker)[1])
        node.signal(signal.SIGSTOP)
        self._doors.goes_on(3 * MESSAGES)
        node.signal(signal.SIGCONT)

    def slow_slave(self, broker: str) -> None:
        self._deployment.network.slow(self._slave(broker)[1])
        self._doors.goes_on(3 * MESSAGES)
        self._deployment.network.heal()

    def cut_from_slave(self, broker: str) -> None:
        """It hears its master, who does not hear it."""
        master, slave = self._slave(broker)
        self._deployment.network.cut(slave, master)
        self._doors.goes_on(3 * MESSAGES)
        self._deployment.network.heal()

    def cut_to_slave(self, broker: str) -> None:
        master, slave = self._slave(broker)
        self._deployment.network.cut(master, slave)
        self._doors.goes_on(3 * MESSAGES)
        self._deployment.network.heal()


def _grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    return {name: count - before[name] for name, count in after.items() if count > before[name]}
