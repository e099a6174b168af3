"""The identity of a client, as its certificate or a balancer tells it, at every door."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.gateway.cli.app import run
from entrepot.protocols.amqp.frames import PROTOCOL_HEADER
from entrepot.protocols.amqp.methods_connection import ConnectionStartOk
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect
from tests.e2e.transports.conftest import ALL_DOORS
from tests.support.amqp.machine import CAPABLE
from tests.support.amqp.machine import said as saying
from tests.support.cases import cases
from tests.support.http.access import ROOT, new_user, said
from tests.support.http.client import http_client
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.command_line import build_commands_once
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}
CONNECT = encode(Connect("", 5), 5)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
DOORS = {
    "mqtts": CONNECT,
    "amqps": PROTOCOL_HEADER,
    "grpc": PREFACE,
    "http": b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
}
"""First words of a client at each door that speaks TLS: each answers."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def server(own: TestAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """All doors speak TLS, take certificates, and know those that were revoked."""
    certificate, revoked = str(own.issue("server")), str(own.revoke())
    settings = {
        **ROOT,
        **ALL_DOORS,
        "amqp.tls_port": "0",
        "grpc.tls": "required",
        "security.certificate_identity": "cn",
        "mqtt.tls_reload_seconds": "0.05",
    }
    for table in ("mqtt", "amqp", "grpc", "http"):
        settings |= {
            f"{table}.tls_certificate": certificate,
            f"{table}.tls_ca": str(own.file),
            f"{table}.tls_client_certificates": "optional",
            f"{table}.tls_crl": revoked,
        }
    with ServerProcess(tmp_path_factory.mktemp("server"), settings) as running:
        yield running
        assert "Traceback" not in running.log_text(), running.log_text()


def client_of(server: ServerProcess, own: TestAuthority, certificate: Path | None = None, **more: Any) -> Any:
    return http_client(f"https://{server.address('http')}", verify=own.client_context(certificate), **more)


def test_http_takes_the_user_from_a_certificate(server: ServerProcess, own: TestAuthority) -> None:
    with client_of(server, own, auth=("root", "root")) as root:
        new_user(root, *said("ALLOW", ("PUB", "Topic:own"), ("GET", "Topic:own")), name="device-1")
        assert root.put("/api/v1/topics/own", json={}).status_code == 201
    certificate = own.issue("device", "device-1.example", common_name="device-1")
    with client_of(server, own, certificate) as device:
        for _ in range(2):  # the second time it is remembered
            assert device.get("/api/whoami").json()["name"] == "device-1"
            assert device.post("/topics/own:publish", headers=EVENT).status_code == 200
            assert device.post("/topics/other:publish", headers=EVENT).status_code == 403
        assert device.get("/api/v1/topics/own").status_code == 200
        assert device.get("/api/whoami", auth=("root", "root")).json()["name"] == "root", "credentials go before it"
        assert device.get("/api/whoami", auth=("device-1", "wrong")).status_code == 401
    with client_of(server, own) as nobody:
        assert nobody.get("/api/whoami").status_code == 401
    with client_of(server, own, own.issue("stranger", "x.example", common_name="stranger")) as stranger:
        assert stranger.get("/api/whoami").status_code == 401, "there is no such user"
    with client_of(server, own, auth=("root", "root")) as root, client_of(server, own, certificate) as device:
        assert device.get("/api/whoami").status_code == 200
        assert root.put("/api/v1/users/device-1", json={"enabled": False}).status_code == 200
        assert device.get("/api/whoami").status_code == 403
        assert root.delete("/api/v1/users/device-1").status_code == 204


def test_a_certificate_that_was_revoked(server: ServerProcess, own: TestAuthority) -> None:
    """From the next connection on, at every door; the others' certificates count as before."""
    bad = own.issue("bad", "bad.example", common_name="bad")
    good = own.issue("good", "good.example", common_name="good")

    def is_taken(door: str, certificate: Path) -> bool:
        try:
            with (
                socket.create_connection(("127.0.0.1", server.port(door)), PATIENCE_SECONDS) as plain,
                own.client_context(certificate).wrap_socket(plain, server_hostname="localhost") as inside,
            ):
                inside.sendall(DOORS[door])
                return bool(inside.recv(1))
        except (ConnectionError, ssl.SSLError):
            return False

    try:
        assert all(is_taken(door, each) for door in DOORS for each in (bad, good))
        own.revoke(bad)
        for door in DOORS:
            wait_until(lambda door=door: not is_taken(door, bad), f"{door} knows the list")  # type: ignore[misc]
            assert is_taken(door, good)
        own.revoke(days=-1)
        for door in DOORS:
            wait_until(lambda door=door: not is_taken(door, good), f"{door} takes no list that is over")  # type: ignore[misc]
    finally:
        own.revoke()


def test_commands_take_an_authority_and_a_certificate(
    server: ServerProcess, own: TestAuthority, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By options, by variables of ours, or by OpenSSL's."""
    build_commands_once(monkeypatch)
    monkeypatch.setenv("ENTREPOT_SERVER", f"https://{server.address('http')}")
    certificate = own.issue("operator", "operator.example", common_name="operator")
    with client_of(server, own, auth=("root", "root")) as root:
        new_user(root, *said("ALLOW", ("LIST", "Topic:*")), name="operator")

    def asked(*options: str, **variables: Path) -> tuple[int, str]:
        with monkeypatch.context() as changed:
            for name, value in variables.items():
                changed.setenv(name, str(value))
            code = run([*options, "topic", "list"])
        shown = capfd.readouterr()
        return code, shown.out + shown.err

    code, told = asked()
    assert code == 1 and "certificate verify failed" in told
    code, told = asked("--ca", str(own.file))
    assert code == 1 and "credentials are needed" in told
    assert asked("--ca", str(own.file), "--cert", str(certificate))[0] == 0
    assert asked(ENTREPOT_CA=own.file, ENTREPOT_CERT=certificate)[0] == 0
    assert asked("--cert", str(certificate), SSL_CERT_FILE=own.file)[0] == 0
    for options, words in (
        (("--key", str(certificate)), "--key needs --cert"),
        (("--ca", "nowhere.pem"), "nowhere.pem: not usable as authorities"),
        (("--ca", str(own.file), "--cert", str(own.file)), "not usable as a certificate"),
    ):
        code, told = asked(*options)
        assert (code, words in told) == (2, True), told
    assert asked("--ca", str(own.file))[0] == 1, "nothing is kept from the command before"


# -- behind a balancer -------------------------------------------------------------------------------------------------

V1 = b"PROXY TCP4 203.0.113.%d 198.51.100.1 40001 80\r\n"


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {**ROOT, "security.max_failed_logins": "3"}
    for table in ("amqp", "http", "grpc"):
        settings |= {f"{table}.proxy_protocol": "optional", f"{table}.trusted_proxies": '["127.0.0.1/32"]'}
    with ServerProcess(tmp_path_factory.mktemp("behind"), settings) as running:
        yield running
        assert "Traceback" not in running.log_text(), running.log_text()


def said_by_http(server: ServerProcess, first: bytes, password: str, source: str = "127.0.0.1") -> bytes:
    """The status line of a question that only a user may ask."""
    shown = base64.b64encode(f"root:{password}".encode())
    with socket.create_connection(("127.0.0.1", server.port("http")), PATIENCE_SECONDS, (source, 0)) as connection:
        question = b"GET /api/whoami HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic %b\r\n\r\n" % shown
        connection.sendall(first + question)
        return connection.recv(4096).partition(b"\r\n")[0]


def test_http_counts_failed_logins_by_the_address_that_the_balancer_tells(behind: ServerProcess) -> None:
    guesser, other = V1 % 7, V1 % 8
    assert [said_by_http(behind, guesser, "wrong")[9:12] for _ in range(4)][-1] == b"429"
    assert said_by_http(behind, guesser, "root")[9:12] == b"429"
    assert said_by_http(behind, other, "root")[9:12] == b"200"
    assert said_by_http(behind, b"", "root")[9:12] == b"200", "without a header it is the balancer's own question"
    assert said_by_http(behind, other, "root", "127.0.0.2")[9:12] == b"400", "nobody else is believed"


def test_amqp_counts_failed_logins_by_the_address_that_the_balancer_tells(behind: ServerProcess) -> None:
    def refusal(last: int, password: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", behind.port("amqp")), PATIENCE_SECONDS) as connection:
            connection.sendall(V1 % last + PROTOCOL_HEADER)
            assert connection.recv(65_536)
            connection.sendall(saying(0, ConnectionStartOk(CAPABLE, "PLAIN", b"\0root\0" + password, "en_US")))
            return connection.recv(65_536)

    assert [b"ACCESS_REFUSED" in refusal(17, b"wrong") for _ in range(4)] == [True] * 4
    assert b"ACCESS_REFUSED" in refusal(17, b"root"), "too many guesses came from there"
    assert b"ACCESS_REFUSED" not in refusal(18, b"root")
    with http_client(f"http://{behind.address('http')}", auth=("root", "root")) as root:
        entries = root.get("/api/v1/audit?kind=refusals").json()["value"]
    assert {each["source"] for each in entries} >= {"203.0.113.17"}


@cases("door", ["amqp", "http"])
def test_who_is_not_the_balancer_is_not_believed(behind: ServerProcess, door: str) -> None:
    with socket.create_connection(("127.0.0.1", behind.port(door)), PATIENCE_SECONDS, ("127.0.0.2", 0)) as connection:
        connection.sendall(V1 % 9 + DOORS.get(door, PROTOCOL_HEADER))
        assert not connection.recv(64).startswith((b"\x01", b"HTTP/1.1 200"))


def test_mqtt_on_the_http_port_is_told_the_address_too(behind: ServerProcess) -> None:
    upgrade = (
        b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    packet = encode(Connect("guesser", 5, username="root", password=b"wrong"), 5)
    frame = b"\x82" + bytes([0x80 | len(packet)]) + bytes(4) + packet  # masked with zeros
    with socket.create_connection(("127.0.0.1", behind.port("http")), PATIENCE_SECONDS) as connection:
        connection.sendall(V1 % 27 + upgrade)
        assert connection.recv(4096).startswith(b"HTTP/1.1 101 ")
        connection.sendall(frame)
        assert connection.recv(4096)
    with http_client(f"http://{behind.address('http')}", auth=("root", "root")) as root:
        entries = root.get("/api/v1/audit?kind=refusals").json()["value"]
    assert "203.0.113.27" in {each["source"] for each in entries}


def test_the_certificate_of_an_http_proxy_is_nobody_elses(own: TestAuthority, tmp_path: Path) -> None:
    """A reverse proxy that shows its own certificate asks for all its clients: each has to say who it is."""
    settings = {
        **ROOT,
        "http.tls_certificate": str(own.issue("server")),
        "http.tls_ca": str(own.file),
        "http.tls_client_certificates": "required",
        "http.trusted_proxies": '["127.0.0.1/32"]',
        "security.certificate_identity": "cn",
    }
    with ServerProcess(tmp_path, settings) as server:
        certificate = own.issue("proxy", "proxy.example", common_name="root")
        with client_of(server, own, certificate) as proxy:
            assert proxy.get("/api/whoami", headers={"x-forwarded-for": "203.0.113.7"}).status_code == 401
            assert proxy.get("/api/whoami").status_code == 401
            assert proxy.get("/api/whoami", auth=("root", "root")).json()["name"] == "root"
