"""Name servers that are controllers, and broker groups whose masters they elect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.control import GroupView
from entrepot.protocols.wire import operations as wire
from tests.partition import disks
from tests.partition.deployment import Node
from tests.partition.network import Network
from tests.partition.replicated import ReplicatedDeployment
from tests.support.waiting import PATIENCE_SECONDS, wait_until

LEASE_SECONDS: Final = 1.0
CONTROLLERS: Final = ("control-1", "control-2", "control-3")
GROUPS: Final = {
    "broker-0": ("replica-01", "replica-02", "replica-03"),
    "broker-1": ("replica-11", "replica-12", "replica-13"),
}
RULES: Final = {"broker-0": "in-sync", "broker-1": "2-3"}
GATEWAYS: Final = ("gateway-0", "gateway-1")
MACHINES: Final = (*CONTROLLERS, *GROUPS["broker-0"], *GROUPS["broker-1"], *GATEWAYS, "client")
_GATEWAY_SETTINGS: Final = {"groups.invisible_seconds": "10"}
_ASK_SECONDS: Final = 2.0
_ELECTION_SECONDS: Final = 2 * PATIENCE_SECONDS


class ControlledDeployment(ReplicatedDeployment):
    """Three controllers, two groups of three replicas with a rule each, two gateways."""

    def __init__(self, network: Network, directory: Path) -> None:
        super().__init__(
            network,
            directory,
            GROUPS,
            gateways=GATEWAYS,
            settings=_GATEWAY_SETTINGS,
            name_servers=CONTROLLERS,
            rules=RULES,
        )
        named = [f"{number}={network.address(name)}:9876" for number, name in enumerate(CONTROLLERS, 1)]
        self._everywhere = {
            "cluster.controllers": json.dumps(named),
            "cluster.lease_seconds": LEASE_SECONDS,
            "cluster.silence_seconds": 2 * LEASE_SECONDS,
            "broker.heartbeat_seconds": 0.3,
        }
        self._controllers: dict[str, Node] = {}
        self._disks: set[str] = set()

    def _add(
        self, machine: str, name: str, *arguments: str, settings: Mapping[str, object] = MappingProxyType({})
    ) -> Node:
        return super()._add(machine, name, *arguments, settings={**self._everywhere, **settings})

    def _add_name_servers(self) -> None:
        for number, name in enumerate(CONTROLLERS, 1):
            own = {"controller.id": number, "controller.data_dir": self._data_of(name)}
            self._controllers[name] = self._add(name, name, "nameserver", settings=own)

    def _data_of(self, machine: str) -> Path:
        """On a disk of its own."""
        disk = self.disk(machine)
        if machine not in self._disks:
            self._disks.add(machine)
            disks.made(disk)
        return disk / "data"

    def disk(self, machine: str) -> Path:
        return self._directory / f"{machine}-disk"

    def stop(self) -> None:
        super().stop()
        for machine in self._disks:
            disks.removed(self.disk(machine))

    def controller(self, machine: str) -> Node:
        return self._controllers[machine]

    def others_than(self, machine: str) -> Sequence[str]:
        """All machines but that one and that of the clients."""
        return [each for each in MACHINES if each not in (machine, "client")]

    # -- what controllers say ------------------------------------------------------------------------------------

    def leader(self) -> str:
        """The machine of the controller that leads the others."""
        return wait_until(self._leader, "a controller leads", _ELECTION_SECONDS)

    def _leader(self) -> str:
        return next((name for name in CONTROLLERS if self._groups_at(name)), "")

    def groups_decided(self) -> dict[str, GroupView]:
        """What the controllers have decided, by group."""
        found = wait_until(
            lambda: next((views for name in CONTROLLERS if (views := self._groups_at(name))), None),
            "a controller answers",
            _ELECTION_SECONDS,
        )
        return {view.name: view for view in found}

    def decided_told(self) -> str:
        """A sentence for each group: who leads, and why."""
        views = next((views for name in CONTROLLERS if (views := self._groups_at(name))), [])
        return "; ".join(f"{view.name}: {view.reason} {view.problem}" for view in views) or "no controller answers"

    def _groups_at(self, controller: str) -> list[GroupView]:
        """Empty where it does not lead."""
        if self._controllers[controller].is_alive:
            with suppress(EntrepotError, AssertionError):
                found: list[GroupView] = self.ask(controller, wire.GROUPS, _ASK_SECONDS)
                return found
        return []

    def master(self, broker: str) -> str:
        def found() -> int:
            return self.groups_decided()[broker].appointment.master

        return self.groups[broker][wait_until(found, f"{broker} has a master", _ELECTION_SECONDS) - 1]

    def epoch(self, broker: str) -> int:
        return self.groups_decided()[broker].appointment.epoch

    def wait_replaced(self, broker: str, master: str) -> None:
        """Return when the controllers have elected another master."""
        number = self.groups[broker].index(master) + 1
        wait_until(
            lambda: self.groups_decided()[broker].appointment.master not in (0, number),
            lambda: f"{master} is replaced: {self.groups_decided()[broker]}",
            _ELECTION_SECONDS,
        )
