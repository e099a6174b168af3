"""Three machines, each with a replica and a controller on a disk that loses power."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.replication.verifying import Comparison, compare
from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.brokers.forgetful_disk import ForgetfulDisk, Losses
from tests.support.processes.deployment import start_all
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.processes.server import Process
from tests.support.spark.topic_log import Row, log_of
from tests.support.waiting import wait_until

MACHINES: Final = (1, 2, 3)
STEPS_OF_A_START: Final = 60
"""About as many as the disk of a machine takes then."""
_SETTINGS: Final = {
    "store.checkpoint_interval_seconds": "1",
    "store.segment_size_bytes": str(2 << 20),
    "store.preallocate_bytes": str(1 << 20),
    "store.reserve_bytes": str(1 << 20),
}


class ForgetfulMachines(ReplicatedProcesses):
    """Their processes, and name servers and gateways beside them, which keep nothing."""

    def __init__(self, directory: Path, rule: str, *, gateways: int = 1) -> None:
        super().__init__(directory, rule, replicas=3, controllers=3, gateways=gateways, settings=_SETTINGS)
        self.disks = {machine: ForgetfulDisk(directory / f"disk-{machine}") for machine in MACHINES}
        for machine, disk in self.disks.items():
            self.replica(machine).data_dir = disk.place / "broker"
        self.name_servers[0].settings["controller.data_dir"] = str(self.disks[1].place / "controller")
        for controller, machine in zip(self.controllers, MACHINES[1:], strict=True):
            controller.data_dir = self.disks[machine].place / "controller"

    def close(self) -> None:
        self.kill()
        for disk in self.disks.values():
            disk.close()

    def processes(self, machines: Sequence[int]) -> list[Process]:
        """What runs there."""
        return [part for each in machines for part in (self.controller(each), self.replica(each))]

    def cut_power(self, machines: Sequence[int], rng: Random | None) -> Losses:
        """Of all of them at one moment."""
        for process in self.processes(machines):
            process.signal_kill()
        losses = [self.disks[machine].cut_power(rng) for machine in machines]
        for process in self.processes(machines):
            process.kill()
        return Losses(sum(each.names for each in losses), sum(each.sectors for each in losses))

    def start_there(self, machines: Sequence[int]) -> None:
        start_all(self.processes(machines))

    def start_through_cuts(self, machines: Sequence[int], rng: Random) -> int:
        """Start what runs there; power is lost meanwhile once, if that is as far.  Returns how often it was."""
        disk, processes = self.disks[rng.choice(machines)], self.processes(machines)
        disk.stop_after(rng.randrange(STEPS_OF_A_START))
        for process in processes:
            process.begin()
        wait_until(
            lambda: disk.has_stopped or all(each.ready_file.exists() or not each.is_running for each in processes),
            self.log_text,
        )
        disk.go_on()
        is_cut = disk.has_stopped
        if is_cut:
            self.cut_power(machines, rng.choice([rng, None]))
        self.start_there(machines)
        return int(is_cut)

    def wait_even(self) -> None:
        """Return when all replicas have everything."""

        def is_even() -> bool:
            found = self.group()["replicas"]
            return all(each["isInSync"] and not each["problem"] and each["behind"] == 0 for each in found)

        wait_until(is_even, lambda: f"all have everything: {self.group()}")

    def compare(self) -> Comparison:
        """The replicas' logs, byte for byte."""
        addresses = [each.address("broker") for each in self.brokers]
        return asyncio.run(compare(addresses, LinkSettings()))

    def log_of(self, topic: str) -> list[Row]:
        """A topic as the group has it."""
        return _log_at(StoreLocation(name_servers=(self.name_servers[0].address("nameserver"),)), topic)

    def logs_of(self, topic: str) -> list[list[Row]]:
        """A topic as the disks of all machines have it: they are stopped for this."""
        assert self.stop() == 0
        found = [_log_at(StoreLocation(data_dir=str(self.replica(each).data_dir)), topic) for each in MACHINES]
        self.start()
        return found


def _log_at(place: StoreLocation, topic: str) -> list[Row]:
    with closing(open_reader(place)) as reader:
        return log_of(reader, [topic] if topic in reader.topics() else [])


def names_in(rows: Sequence[Row]) -> Counter[str]:
    """How often each message of the load is there."""
    return Counter(json.loads(row[3])["id"] for row in rows)
