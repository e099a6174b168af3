"""Faults of a deployment with controllers, each from its beginning to its end, while a load is at work."""

from __future__ import annotations

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random

from tests.partition import disks
from tests.partition.bad_lines import Badness
from tests.partition.client import HttpClient, key_of_broker
from tests.partition.controlled import CONTROLLERS, LEASE_SECONDS, ControlledDeployment
from tests.partition.deployment import Node
from tests.partition.network import refusal_of_bad_lines
from tests.partition.steady_load import PAUSE_SECONDS, SteadyLoad
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

MESSAGES = 5
"""By which all are to go on while a fault lasts."""
MANY = int(2 * LEASE_SECONDS / PAUSE_SECONDS)
"""Those of some leases, where nobody is elected."""
SLOW_MS = 300
MUCH_BYTES = 200_000
STORAGE_FULL = 507
OK = 200
LATE_AND_LOST = Badness(20, 15, 0.02)
"""A line on which a lease of a second holds."""
Fault = Callable[[str], None]


class ControlledFaults:
    """`done` counts the faults, `pauses` has the longest seconds without a confirm of any one publisher in each."""

    def __init__(self, deployment: ControlledDeployment, load: SteadyLoad, rng: Random) -> None:
        self._deployment, self._load, self._rng = deployment, load, rng
        self._network = deployment.network
        self.done: Counter[str] = Counter()
        self.pauses: defaultdict[str, list[float]] = defaultdict(list)

    @property
    def all(self) -> Sequence[Fault]:
        """Each takes the name of a broker group."""
        return [
            self.kill_master,
            self.kill_slave,
            self.kill_leading_controller,
            self.kill_gateway,
            self.pause_master,
            self.part_master_from_all,
            self.part_master_from_slaves,
            self.part_master_from_controllers,
            self.cut_one_way,
            self.spoil_lines,
            self.kill_all_controllers,
            self.wipe_slave,
            self.restart_one_by_one,
            *scaled([], self._of_disks),
        ]

    @property
    def _of_disks(self) -> list[Fault]:
        slow: list[Fault] = [self.slow_disk_of_slave, self.slow_disk_of_master] if disks.can_be_slow() else []
        return [self.fill_disk_of_slave, self.fill_disk_of_master, *slow]

    def run(self, fault: Fault, broker: str) -> None:
        """Do it, and return when everything is whole again."""
        name, begun, epoch = fault.__name__, time.monotonic(), self._deployment.epoch(broker)
        print(f"{name}: {broker}", flush=True)
        self._load.pulse.take()
        fault(broker)
        for each in self._deployment.groups:
            self._deployment.wait_in_sync(each)
        self._load.goes_on(MESSAGES)
        pauses = self._load.pulse.take()
        everywhere = pauses.pop("all")
        slowest = max(pauses, key=lambda each: pauses[each])
        self.done[name] += 1
        self.pauses[name].append(pauses[slowest])
        print(
            f"  {time.monotonic() - begun:.1f} s, epochs {epoch} to {self._deployment.epoch(broker)}; longest without "
            f"a confirm: {slowest} {pauses[slowest]:.2f} s, all together {everywhere:.2f} s",
            flush=True,
        )

    def told(self) -> str:
        """A line for each kind of fault."""
        lines = [
            f"{name:<30}{len(pauses):>4} times, without a confirm {sorted(pauses)[len(pauses) // 2]:6.2f} s in the "
            f"middle, {max(pauses):6.2f} s at most"
            for name, pauses in self.pauses.items()
        ]
        return "\n".join(lines)

    def _slave(self, broker: str) -> str:
        master = self._deployment.master(broker)
        return self._rng.choice([each for each in self._deployment.groups[broker] if each != master])

    @staticmethod
    def _start(*nodes: Node) -> None:
        for node in nodes:
            node.begin()
        for node in nodes:
            node.wait_ready()

    # -- processes -------------------------------------------------------------------------------------------------

    def kill_master(self, broker: str) -> None:
        master = self._deployment.master(broker)
        node = self._deployment.replica(master)
        node.kill()
        self._deployment.wait_replaced(broker, master)
        self._load.goes_on(MESSAGES)
        self._start(node)

    def kill_slave(self, broker: str) -> None:
        node = self._deployment.replica(self._slave(broker))
        node.kill()
        self._load.goes_on(MESSAGES)
        self._start(node)

    def kill_leading_controller(self, broker: str) -> None:
        """And a master with it: the next leader replaces that."""
        master, leader = self._deployment.master(broker), self._deployment.leader()
        nodes = self._deployment.controller(leader), self._deployment.replica(master)
        for node in nodes:
            node.kill()
        self._deployment.wait_replaced(broker, master)
        self._load.goes_on(MESSAGES)
        self._start(*nodes)

    def kill_gateway(self, broker: str) -> None:
        node = self._rng.choice(self._deployment.gateways)
        node.kill()
        self._load.goes_on(MESSAGES)
        self._start(node)

    def kill_all_controllers(self, broker: str) -> None:
        """Publishing goes on."""
        nodes = [self._deployment.controller(name) for name in CONTROLLERS]
        for node in nodes:
            node.kill()
        self._load.goes_on(MANY)
        self._start(*nodes)
        self._deployment.leader()

    def pause_master(self, broker: str) -> None:
        """It believes that it is master when it goes on."""
        master = self._deployment.master(broker)
        node = self._deployment.replica(master)
        node.signal(signal.SIGSTOP)
        self._deployment.wait_replaced(broker, master)
        self._load.goes_on(MESSAGES)
        node.signal(signal.SIGCONT)

    def wipe_slave(self, broker: str) -> None:
        slave = self._slave(broker)
        node = self._deployment.replica(slave)
        node.kill()
        self._deployment.wipe(slave)
        self._start(node)

    def restart_one_by_one(self, broker: str) -> None:
        """The replicas of a group, a controller, a gateway: each is told to stop, and started again."""
        for machine in self._deployment.groups[broker]:
            self._restart(self._deployment.replica(machine))
            self._deployment.wait_in_sync(broker)
        self._restart(self._deployment.controller(self._rng.choice(CONTROLLERS)))
        self._restart(self._rng.choice(self._deployment.gateways))

    def _restart(self, node: Node) -> None:
        node.stop()
        self._start(node)

    # -- disks -----------------------------------------------------------------------------------------------------

    def fill_disk_of_slave(self, broker: str) -> None:
        """It keeps up no more, and all go on without it."""
        slave = self._slave(broker)
        number = self._deployment.groups[broker].index(slave) + 1

        def is_behind() -> bool:
            self._publish_much(broker)
            found = next((x for x in self._deployment.replicas(broker) if x["replica"] == number), None)
            return found is not None and (not found["isInSync"] or found["problem"] is not None)

        disks.fill(self._deployment.disk(slave))
        wait_until(is_behind, lambda: f"{slave} falls behind: {self._deployment.replicas(broker)}")
        self._load.goes_on(MESSAGES)
        self._make_room(slave)

    def fill_disk_of_master(self, broker: str) -> None:
        """It refuses what is published; the other group goes on.  (The load is in a queue of AMQP's too, which may lie
        on either: where it lies on this one, all of the load is refused.)"""
        master = self._deployment.master(broker)
        disks.fill(self._deployment.disk(master))
        wait_until(lambda: self._publish_much(broker) == STORAGE_FULL, f"{master} has no room")
        for other in self._deployment.groups:
            for _ in range(MESSAGES if other != broker else 0):
                wait_until(lambda other=other: self._publish_much(other) == OK, f"{other} takes messages")  # type: ignore[misc]
        self._make_room(master)

    def _publish_much(self, broker: str) -> int:
        """To a topic that nobody reads; the status of the answer."""
        client = HttpClient(self._deployment)
        headers = {"ce-specversion": "1.0", "ce-id": "much", "ce-source": "/test", "ce-type": "t"}
        headers["ce-partitionkey"] = key_of_broker(list(self._deployment.groups).index(broker))
        try:
            client.begin("POST", "/topics/filler:publish", "m" * MUCH_BYTES, headers)
            return client.answer(time.monotonic()).status
        finally:
            client.close()

    def _make_room(self, machine: str) -> None:
        """A process that has ended for want of it is started again."""
        disks.empty(self._deployment.disk(machine))
        node = self._deployment.replica(machine)
        if not node.is_alive:
            print(f"  {machine} has ended")
            self._start(node)

    def slow_disk_of_slave(self, broker: str) -> None:
        self._slow_disk(self._slave(broker))

    def slow_disk_of_master(self, broker: str) -> None:
        self._slow_disk(self._deployment.master(broker))

    def _slow_disk(self, machine: str) -> None:
        with disks.slow(self._deployment.replica(machine).pid, SLOW_MS):
            self._load.goes_on(MESSAGES)

    # -- the network -----------------------------------------------------------------------------------------------

    def part_master_from_all(self, broker: str) -> None:
        self._part_master(broker, self._deployment.others_than)

    def part_master_from_slaves(self, broker: str) -> None:
        """It confirms nothing any more, and gateways reach it."""
        self._part_master(broker, lambda master: [x for x in self._deployment.groups[broker] if x != master])

    def _part_master(self, broker: str, others: Callable[[str], Sequence[str]]) -> None:
        master = self._deployment.master(broker)
        for other in others(master):
            self._network.part(master, other)
        self._deployment.wait_replaced(broker, master)
        self._load.goes_on(MESSAGES, 20)
        self._network.heal()

    def part_master_from_controllers(self, broker: str) -> None:
        """Publishing goes on."""
        master = self._deployment.master(broker)
        for controller in CONTROLLERS:
            self._network.part(master, controller)
        self._load.goes_on(MANY)
        self._network.heal()

    def cut_one_way(self, broker: str) -> None:
        """Of what a master says nothing arrives, or of what is said to it."""
        master, is_deaf = self._deployment.master(broker), self._rng.random() < 0.5
        print(f"  {master} {'hears nobody' if is_deaf else 'is heard by nobody'}")
        for other in self._deployment.others_than(master):
            self._network.cut(*((other, master) if is_deaf else (master, other)))
        wait_until(lambda: self._deployment.master(broker) != master, f"{master} is replaced")
        self._load.goes_on(MESSAGES)
        self._network.heal()

    def spoil_lines(self, broker: str) -> None:
        """Packets come late, out of order, or not at all, and a master is killed meanwhile."""
        if refusal_of_bad_lines() is not None:
            return
        self._network.spoil(LATE_AND_LOST, self._rng.randrange(1 << 30))
        self.kill_master(broker)
        self._network.heal()
