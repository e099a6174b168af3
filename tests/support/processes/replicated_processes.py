"""A broker group as processes: replicas of one broker, each with its data, beside name servers and gateways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.doors.load import door
from tests.support.processes.deployment import BrokerProcess, ClusterProcesses, ControllerProcess, NameServerProcess
from tests.support.processes.server import Process
from tests.support.waiting import wait_until


class ReplicaBrokerProcess(BrokerProcess):
    """One replica of a broker."""

    def __init__(
        self,
        directory: Path,
        name_servers: Sequence[NameServerProcess],
        settings: dict[str, str],
        name: str,
        replica: int,
    ) -> None:
        super().__init__(directory, name_servers, settings, f"{name}-replica-{replica}")
        self.broker_name = name
        self.replica = replica
        self.own_address = f"127.0.0.1:{self.reserve('broker')}"


class ReplicatedProcesses(ClusterProcesses):
    """A cluster whose one broker has replicas.

    `controllers`: how many elect its masters.  The first is in a name server, the others are by themselves.
    """

    def __init__(
        self,
        directory: Path,
        rule: str,
        *,
        replicas: int,
        gateways: int = 1,
        controllers: int = 0,
        lease: float = 1.0,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        own = {"broker.rule": rule, "broker.heartbeat_seconds": "0.2"}
        super().__init__(
            directory, {**own, **settings}, name_servers=2 if controllers else 1, brokers=0, gateways=gateways
        )
        made = [
            ReplicaBrokerProcess(directory, self.name_servers, self.settings, "broker-0", replica)
            for replica in range(1, replicas + 1)
        ]
        addresses = json.dumps([f"{each.replica}={each.own_address}" for each in made])
        for each in made:
            each.settings |= {"broker.replicas": addresses, "broker.replica_id": str(each.replica)}
        self.brokers = list(made)
        if controllers:
            self.add_controllers(controllers, lease)

    def add_controllers(self, count: int, lease: float) -> None:
        """To one that has none: what is started from now on is told of them."""
        own = self.name_servers[0]
        own.settings["controller.data_dir"] = str(own.directory / "controller-1.data")
        self.controllers = [ControllerProcess(own.directory, None, f"controller-{n}") for n in range(2, count + 1)]
        places = [f"127.0.0.1:{own.reserve('nameserver')}", *(each.place for each in self.controllers)]
        told = {"cluster.lease_seconds": str(lease), "cluster.controllers": _numbered(places)}
        for number, each in enumerate((own, *self.controllers), 1):
            each.settings |= {**told, "controller.id": str(number)}
        for each in (*self.brokers, *self.gateways):
            each.settings |= told

    def add_controller(self) -> ControllerProcess:
        """One more, not started, that the others do not know of."""
        number = len(self.controllers) + 2
        made = ControllerProcess(self.directory, dict(self.controllers[0].settings), f"controller-{number}")
        known = json.loads(made.settings["cluster.controllers"])
        own = {"controller.id": str(number), "cluster.controllers": json.dumps([*known, f"{number}={made.place}"])}
        made.settings |= own
        self.controllers.append(made)
        return made

    def replica(self, number: int) -> BrokerProcess:
        return self.brokers[number - 1]

    def controller(self, number: int) -> Process:
        """The name server of controller 1, or another controller."""
        return self.name_servers[0] if number == 1 else self.controllers[number - 2]

    def group(self) -> dict[str, Any]:
        """The broker as `entrepot cluster show` has it."""
        with door(self.gateways[0]) as client:
            [broker] = client.get("/api/v1/brokers").json()["value"]
            return dict(broker)

    def master(self) -> int:
        """Id of the replica that is master."""
        found = [each["replica"] for each in self.group()["replicas"] if each["role"] == "master"]
        return int(found[0]) if found else 0

    def elect(self, **asked: Any) -> dict[str, Any]:
        """As an operator does."""
        with door(self.gateways[0]) as client:
            answer = client.post("/api/v1/brokers/broker-0:elect", json=asked, timeout=60)
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

    def wait_in_sync(self, count: int) -> None:
        """Return when so many replicas are in sync, and follow a master that is open, or are it."""

        def is_even() -> bool:
            found = self.group()["replicas"]
            return sum(each["isInSync"] and not each["problem"] for each in found) >= count

        wait_until(is_even, lambda: f"{count} replicas are in sync: {self.group()}")


def _numbered(places: Sequence[str]) -> str:
    """As a setting has them."""
    return json.dumps([f"{number}={place}" for number, place in enumerate(places, 1)])
