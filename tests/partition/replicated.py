"""Broker groups whose replicas are on machines of their own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.partition.client import HttpClient
from tests.partition.deployment import NAME_SERVERS, Deployment, Node
from tests.partition.network import Network
from tests.support.waiting import wait_until

SYNC_SECONDS = 300.0
"""A replica that was wiped copies everything."""


class ReplicatedDeployment(Deployment):
    """Name servers, groups of replicas by their names, gateways.

    `settings`: of the gateways.  `rules`: of the groups that have another than 2-3.
    """

    def __init__(
        self,
        network: Network,
        directory: Path,
        groups: Mapping[str, Sequence[str]],
        *,
        gateways: Sequence[str] = ("gateway",),
        settings: Mapping[str, object] = MappingProxyType({}),
        name_servers: Sequence[str] = NAME_SERVERS,
        rules: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(network, directory, name_servers)
        self.groups = groups
        self._rules = rules
        self.gateways: list[Node] = []
        self._gateway_machines = gateways
        self._settings = settings
        self._replicas: dict[str, Node] = {}

    def start(self) -> None:
        self._add_name_servers()
        for number, (broker, machines) in enumerate(self.groups.items()):
            self._add_group(broker, machines, keeps_key_values="no" if number else "yes")
        for node in self._nodes:
            node.wait_ready()
        for machine in self._gateway_machines:
            asked = ("gateway", "--nameserver", self._names, "--free-ports")
            self.gateways.append(self._add(machine, machine, *asked, settings=self._settings))
        for node in self.gateways:
            node.wait_ready()
        self.gateway = self.gateways[0]

    def _add_group(self, broker: str, machines: Sequence[str], **settings: str) -> None:
        addresses = [f"{at}={self.network.address(machine)}:10911" for at, machine in enumerate(machines, 1)]
        group = "[" + ", ".join(f'"{each}"' for each in addresses) + "]"
        for at, machine in enumerate(machines, 1):
            own = {"broker.replicas": group, "broker.replica_id": at, "broker.rule": self._rules.get(broker, "2-3")}
            own |= {f"broker.{name}": value for name, value in settings.items()}
            data = ["--data-dir", str(self._data_of(machine)), "--name", broker]
            asked = ("broker", "--nameserver", self._names, *data)
            advertise = ("--advertise", f"{self.network.address(machine)}:10911")
            self._replicas[machine] = self._add(machine, machine, *asked, *advertise, settings=own)

    def _data_of(self, machine: str) -> Path:
        return self._directory / f"{machine}-data"

    # -- replicas --------------------------------------------------------------------------------------------------

    def replica(self, machine: str) -> Node:
        return self._replicas[machine]

    def wipe(self, machine: str) -> None:
        """Its disk is lost."""
        shutil.rmtree(self._data_of(machine))

    def replicas(self, broker: str) -> list[dict[str, Any]]:
        """As `entrepot cluster show` has them."""
        client = HttpClient(self)
        try:
            found = client.ask("GET", "/api/v1/brokers").body["value"]
            return next((each["replicas"] for each in found if each["name"] == broker), [])
        finally:
            client.close()

    def master(self, broker: str) -> str:
        """The machine of the master."""

        def found() -> int:
            return next((each["replica"] for each in self.replicas(broker) if each["role"] == "master"), 0)

        return self.groups[broker][wait_until(found, f"{broker} has a master") - 1]

    def elect(self, broker: str, **asked: Any) -> None:
        """As an operator does."""
        client = HttpClient(self)
        try:
            answer = client.ask("POST", f"/api/v1/brokers/{broker}:elect", asked)
            assert answer.status == 200, answer
        finally:
            client.close()

    def wait_in_sync(self, broker: str) -> None:
        """Return when all its replicas are in sync, and have all."""

        def is_even() -> bool:
            found = self.replicas(broker)
            return len(found) == len(self.groups[broker]) and all(
                each["isInSync"] and each["behind"] is not None for each in found
            )

        wait_until(is_even, lambda: f"{broker} is in sync: {self.replicas(broker)}", SYNC_SECONDS)
