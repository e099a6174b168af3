"""The plan of a rolling restart: what there is to restart, where it answers, and the command that restarts it.

    [[part]]
    role = "broker"                    # nameserver, controller, broker, gateway
    address = "10.0.0.3:10911"         # of a gateway its HTTP door: http://10.0.0.5:8080
    broker = "broker-0"                # of a broker its name, and which replica it is
    replica = 1
    restart = "ssh store-1 systemctl restart entrepot-broker@broker-0"

A name server that is a controller, too, has `controller = true`.  The table `cluster` has `name`, `tls_certificate`,
`tls_key`, `tls_ca`, `secret_file` and `trusted_network` where the deployment has them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.url import fault_of_url
from entrepot.domain.written_text import WrittenTextError, written_text

Role = Literal["nameserver", "controller", "broker", "gateway"]
ORDER: Final[tuple[Role, ...]] = ("nameserver", "controller", "broker", "gateway")


class PlanError(Exception):
    """The plan cannot be followed, for the given reason."""


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process."""

    role: Role
    address: str
    restart: str = ""
    broker: str = ""
    replica: int = 0
    controller: bool = False

    @property
    def name(self) -> str:
        """Its name for people."""
        if self.role == "broker":
            return f"{self.broker}, replica {self.replica}" if self.replica else self.broker
        return f"{self.role} {self.address}"

    @property
    def elects(self) -> bool:
        """True for a controller, by itself or in a name server."""
        return self.role == "controller" or self.controller


class Wire(Struct, frozen=True, forbid_unknown_fields=True):
    """Name of the deployment, its TLS files and its secret, for requests to controllers."""

    name: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    secret_file: str = ""
    trusted_network: bool = False

    @property
    def trust(self) -> ClusterTrust:
        """Files by which controllers know others."""
        named = (self.tls_certificate, self.tls_key, self.tls_ca, self.secret_file)
        certificate, key, ca, secret = (Path(each) if each else None for each in named)
        return ClusterTrust(certificate, key, ca, secret_file=secret, is_network_trusted=self.trusted_network)


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All parts of a deployment."""

    part: list[Part]
    cluster: Wire = Wire()

    def of(self, role: Role) -> list[Part]:
        return [part for part in self.part if part.role == role]

    @property
    def is_controlled(self) -> bool:
        """True if controllers elect the masters."""
        return any(part.elects for part in self.part)

    @property
    def brokers(self) -> dict[str, list[Part]]:
        """The replicas of each broker, by its name."""
        found: dict[str, list[Part]] = {}
        for part in self.of("broker"):
            found.setdefault(part.broker, []).append(part)
        return found

    def check(self) -> None:
        """Check the plan. Raises PlanError."""
        if not self.of("gateway"):
            raise PlanError("it has no gateway, and they are asked how the others are")
        for part in self.part:
            if part.role == "broker" and not part.broker:
                raise PlanError(f"the broker at {part.address} needs its name: broker = ...")
            if part.role == "gateway" and (fault := fault_of_url(part.address, ("http", "https"))):
                raise PlanError(f"the address of a gateway is the URL of its HTTP door, not {part.address!r}: {fault}")
            if part.controller and part.role != "nameserver":
                raise PlanError(f"controller = true is for name servers: {part.name}")
        for name, replicas in self.brokers.items():
            if len({part.replica for part in replicas}) < len(replicas):
                raise PlanError(f"the replicas of {name} need different numbers: replica = ...")


def read_plan(path: Path) -> Plan:
    """Read and check a plan. Raises PlanError, OSError."""
    try:
        plan = msgspec.convert(tomllib.loads(written_text(path.read_bytes())), Plan)
    except (tomllib.TOMLDecodeError, WrittenTextError, msgspec.ValidationError) as error:
        raise PlanError(str(error)) from error
    plan.check()
    if missing := [part.name for part in plan.part if not part.restart]:
        raise PlanError(f"{missing[0]} has no command: restart = ...")
    return plan
