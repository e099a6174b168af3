"""Health checks of RabbitMQ's API, for monitoring: each answers 200, or 503 with RabbitMQ's fields and our reason.

Invariant: nothing is called healthy that can confirm no message.  A node is a gateway, which keeps no replica itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.access.model import Action
from entrepot.domain.ports.cluster import control_of
from entrepot.gateway.messaging.readiness import reason_unready
from entrepot.gateway.operations.local_views.amqp_shapes import node_name
from entrepot.gateway.operations.rabbitmq.listing import Row
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Checked, PlainName

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.settings import Settings

DAY_SECONDS: Final = 86_400
UNIT_SECONDS: Final[Mapping[str, int]] = {
    "days": DAY_SECONDS,
    "weeks": 7 * DAY_SECONDS,
    "months": 365 * DAY_SECONDS // 12,
    "years": 365 * DAY_SECONDS,
}
MAX_WITHIN: Final = 10_000
"""Largest number of units in a question for certificates."""
MAX_PORT: Final = 65_535
PROTOCOLS: Final[Mapping[str, str]] = {
    "amqps": "amqp/ssl",
    "mqtts": "mqtt/ssl",
    "ws": "http/web-mqtt",
    "wss": "https/web-mqtt",
}
"""RabbitMQ's names of doors' listeners, where they are other words."""
_AMQP: Final = frozenset(("amqp091", "amqp0.9.1", "amqp0-9-1", "amqp0_9_1"))
_NO_LISTENER: Final = "No active listener"
_SINGLE: Final = "single node cluster"
_GET: Final = cluster(Action.GET)
_AT: Final = "/health/checks"

HEALTH_CHECKS: Final = new_noun()


class HealthChecks:
    """The checks of one gateway.  `addresses`: of its listeners, by door.  `now_ms`: the time of day."""

    def __init__(
        self,
        rabbitmq: RabbitMq,
        store: Store,
        settings: Settings,
        gateway: str,
        addresses: Mapping[str, str],
        is_ready: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._rabbitmq, self._store, self._settings, self._node = rabbitmq, store, settings, node_name(gateway)
        self._addresses, self._is_ready, self._now_ms = addresses, is_ready, now_ms

    @HEALTH_CHECKS.get(f"{_AT}/alarms", "checkAlarms", "Check that no gateway and no broker is in trouble", _GET)
    async def alarms(self) -> Checked:
        found, control = self._alarms(), control_of(self._store)
        for each in [] if control is None else await control.brokers():
            if not each.is_available:
                found.append({"node": each.name, "resource": "broker", "reason": each.problem})
        return _alarmed("There are alarms in effect in the cluster", found)

    @HEALTH_CHECKS.get(
        f"{_AT}/local-alarms", "checkLocalAlarms", "Check that this gateway takes and confirms messages", _GET
    )
    async def local_alarms(self) -> Checked:
        return _alarmed("There are alarms in effect on the node", self._alarms())

    @HEALTH_CHECKS.get("/healthchecks/node", "checkNode", "Check that this gateway takes and confirms messages", _GET)
    async def node(self) -> Checked:
        return Checked(self._problem())

    @HEALTH_CHECKS.get(
        f"{_AT}/port-listener/{{port}}", "checkPortListener", "Check that this gateway listens on a port", _GET
    )
    async def port_listener(self, port: PlainName) -> Checked:
        if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= MAX_PORT):
            raise bad_request("Invalid port")
        wanted, ports = int(port), [int(each.rpartition(":")[2]) for each in self._open().values()]
        if wanted in ports:
            return Checked("", {"port": wanted})
        return Checked(_NO_LISTENER, {"missing": wanted, "ports": ports})

    @HEALTH_CHECKS.get(
        f"{_AT}/protocol-listener/{{protocol}}",
        "checkProtocolListener",
        "Check that this gateway has a listener of a protocol",
        _GET,
    )
    async def protocol_listener(self, protocol: PlainName) -> Checked:
        wanted = protocol.lower()
        wanted = "amqp" if wanted in _AMQP else PROTOCOLS.get(wanted, wanted)
        protocols = [self._protocol(door) for door in self._open()]
        if wanted in protocols:
            return Checked("", {"protocol": wanted})
        return Checked(_NO_LISTENER, {"missing": wanted, "protocols": protocols})

    @HEALTH_CHECKS.get(f"{_AT}/virtual-hosts", "checkVirtualHosts", "Check that all virtual hosts work", _GET)
    async def virtual_hosts(self) -> Checked:
        names = [each.name for each in self._rabbitmq.vhosts]
        problem = self._problem()
        if not problem:
            return Checked()
        return Checked(f"Some virtual hosts are down: {problem}", {"virtual-hosts": names})

    @HEALTH_CHECKS.get(
        f"{_AT}/node-is-quorum-critical",
        "checkQuorumCritical",
        "Check that queues confirm messages, and go on without this gateway",
        _GET,
    )
    @HEALTH_CHECKS.get(
        f"{_AT}/node-is-mirror-sync-critical",
        "checkMirrorSyncCritical",
        "Check that queues confirm messages, and go on without this gateway",
        _GET,
    )
    async def critical(self) -> Checked:
        problem = self._problem()
        if problem:
            return Checked(f"There are queues that confirm nothing: {problem}", {"queues": []})
        return Checked("", {"reason": _SINGLE} if control_of(self._store) is None else {})

    @HEALTH_CHECKS.get(
        f"{_AT}/certificate-expiration/{{within}}/{{unit}}",
        "checkCertificateExpiration",
        "Check that no certificate of the settings ends within some days, weeks, months or years",
        _GET,
    )
    async def certificate_expiration(self, within: PlainName, unit: PlainName) -> Checked:
        if unit not in UNIT_SECONDS:
            raise bad_request(f"Time unit not recognised. Supported units: {', '.join(UNIT_SECONDS)}.")
        if not (within.isascii() and within.isdecimal() and int(within[:6]) <= MAX_WITHIN):
            raise bad_request("Invalid expiration value.")
        end_ms = self._now_ms() + int(within[:6]) * UNIT_SECONDS[unit] * 1000
        ending = await asyncio.to_thread(self._ending, end_ms)
        return Checked("Certificates expiring", {"expired": ending}) if ending else Checked()

    def _problem(self) -> str:
        """The reason why messages are not taken and confirmed here; empty where they are."""
        amqp = self._rabbitmq.amqp
        return reason_unready(self._store, self._is_ready) or (
            "the store is full" if amqp is not None and amqp.is_full else ""
        )

    def _alarms(self) -> list[Row]:
        problem = self._problem()
        return [{"node": self._node, "resource": "disk", "reason": problem}] if problem else []

    def _open(self) -> Mapping[str, str]:
        """The listeners that take clients: of a gateway that starts or ends HTTP alone, which answers this."""
        if self._is_ready():
            return self._addresses
        return {door: address for door, address in self._addresses.items() if door == "http"}

    def _protocol(self, door: str) -> str:
        return protocol_of(door, is_tls=self._settings.http.tls_certificate is not None)

    def _ending(self, end_ms: int) -> list[Row]:
        """The listeners with a certificate that ends before then, or that cannot be read."""
        rows: list[Row] = []
        for door, address in self._addresses.items():
            host, _, port = address.rpartition(":")
            for path in self._certificates(door):
                until = _end_of(path)
                if until is None or until[0] <= end_ms:
                    rows.append(
                        {
                            "node": self._node,
                            "protocol": self._protocol(door),
                            "interface": host.strip("[]"),
                            "port": int(port),
                            "certfile": str(path),
                            "certfile_expires_on": "it cannot be read" if until is None else until[1],
                        }
                    )
        return rows

    def _certificates(self, door: str) -> Iterable[Path]:
        mqtt, settings = self._settings.mqtt, self._settings
        of_mqtt = (mqtt.tls_certificate, *(each.certificate for each in mqtt.tls_certificates))
        grpc = settings.grpc.tls_certificate if settings.grpc.tls != "off" else None
        found: Mapping[str, tuple[Path | None, ...]] = {
            "amqps": (settings.amqp.tls_certificate,),
            "mqtts": of_mqtt,
            "wss": of_mqtt,
            "http": (settings.http.tls_certificate,),
            "grpc": (grpc,),
        }
        return [each for each in found.get(door, ()) if each is not None]


def protocol_of(door: str, *, is_tls: bool) -> str:
    """RabbitMQ's name of a listener.  `is_tls`: whether that of HTTP is one of HTTPS."""
    return PROTOCOLS.get(door, "https" if door == "http" and is_tls else door)


def _alarmed(reason: str, alarms: list[Row]) -> Checked:
    return Checked(reason, {"alarms": alarms}) if alarms else Checked()


def _end_of(path: Path) -> tuple[int, Any] | None:
    """The end of the first certificate of a chain to end, in ms and as a text; None where a file cannot be read."""
    from cryptography import x509  # on demand, because of its large tables

    try:
        chain = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return None
    first = min(each.not_valid_after_utc for each in chain)
    return int(first.timestamp() * 1000), first.isoformat()
