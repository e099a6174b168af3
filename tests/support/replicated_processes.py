"""A broker group as processes: replicas of one broker, each with its data, beside name servers and gateways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.deployment import BrokerProcess, ClusterProcesses, NameServerProcess
from tests.support.load import door
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
        self.own_address = f"127.0.0.1:{self._reserved['broker.port'].number}"


class ReplicatedProcesses(ClusterProcesses):
    """A cluster whose one broker has replicas."""

    def __init__(
        self,
        directory: Path,
        rule: str,
        *,
        replicas: int,
        gateways: int = 1,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        own = {"broker.rule": rule, "broker.heartbeat_seconds": "0.2"}
        super().__init__(directory, {**own, **settings}, brokers=0, gateways=gateways)
        made = [
            ReplicaBrokerProcess(directory, self.name_servers, self.settings, "broker-0", replica)
            for replica in range(1, replicas + 1)
        ]
        addresses = json.dumps([f"{each.replica}={each.own_address}" for each in made])
        for each in made:
            each.settings |= {"broker.replicas": addresses, "broker.replica_id": str(each.replica)}
        self.brokers = list(made)

    def replica(self, number: int) -> BrokerProcess:
        return self.brokers[number - 1]

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
