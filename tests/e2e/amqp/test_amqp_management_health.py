"""Health checks of the management API: what a healthy server tells, at RabbitMQ too, and what one in trouble tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.amqp.management import SETTINGS, Managed
from tests.support.cases import cases
from tests.support.processes.ports import free_port
from tests.support.processes.server import ServerProcess

TLS = Path(__file__).parents[2] / "fixtures/tls"


def check(managed: Managed, path: str) -> tuple[int, Any]:
    answer = managed.ask("GET", f"/health/checks/{path}")
    return answer.status_code, answer.json()


@cases("path", ["alarms", "local-alarms", "virtual-hosts", "certificate-expiration/1/days"])
def test_a_healthy_server(managed: Managed, path: str) -> None:
    assert check(managed, path) == (200, {"status": "ok"})


def test_one_node_is_critical_for_nothing(managed: Managed) -> None:
    healthy = {"status": "ok", "reason": "single node cluster"}
    for name in ("quorum", "mirror-sync"):
        assert check(managed, f"node-is-{name}-critical") == (200, healthy)


def test_ports(managed: Managed) -> None:
    assert check(managed, f"port-listener/{managed.port}") == (200, {"status": "ok", "port": managed.port})
    status, told = check(managed, "port-listener/1")
    assert (status, told["status"], told["reason"], told["missing"]) == (503, "failed", "No active listener", 1)
    assert managed.port in told["ports"] and int(managed.url.rpartition(":")[2]) in told["ports"]
    for wrong in ("x", "7o"):
        status, told = check(managed, f"port-listener/{wrong}")
        assert (status, told["reason"]) == (400, "Invalid port")


def test_protocols(managed: Managed) -> None:
    for protocol in ("amqp", "AMQP", "amqp091", "amqp0-9-1"):
        assert check(managed, f"protocol-listener/{protocol}") == (200, {"status": "ok", "protocol": "amqp"})
    assert check(managed, "protocol-listener/http") == (200, {"status": "ok", "protocol": "http"})
    for asked, missing in (("amqps", "amqp/ssl"), ("stomp", "stomp")):
        status, told = check(managed, f"protocol-listener/{asked}")
        assert (status, told["reason"], told["missing"]) == (503, "No active listener", missing)
        assert {"amqp", "http"} <= set(told["protocols"])


def test_questions_for_certificates_that_make_no_sense(managed: Managed) -> None:
    units = "Time unit not recognised. Supported units: days, weeks, months, years."
    for path, reason in (("4/eons", units), ("1/day", units), ("x/days", "Invalid expiration value.")):
        status, told = check(managed, f"certificate-expiration/{path}")
        assert (status, told["error"], told["reason"]) == (400, "bad_request", reason)


def test_a_certificate_that_ends_is_told_with_its_listener(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        **SETTINGS,
        "amqp.tls_port": str(port),
        "amqp.tls_certificate": str(TLS / "certificate.pem"),
        "amqp.tls_key": str(TLS / "key.pem"),
    }
    with ServerProcess(tmp_path, settings) as server:
        managed = Managed("entrepot", server.port("amqp"), f"http://{server.address('http')}")
        assert check(managed, "certificate-expiration/0/days") == (200, {"status": "ok"})
        status, told = check(managed, "certificate-expiration/10000/years")
        assert (status, told["status"], told["reason"]) == (503, "failed", "Certificates expiring")
        [row] = told["expired"]
        assert (row["protocol"], row["port"]) == ("amqp/ssl", port)
        assert row["certfile"].endswith("certificate.pem") and row["certfile_expires_on"]
        assert check(managed, "protocol-listener/amqps") == (200, {"status": "ok", "protocol": "amqp/ssl"})
