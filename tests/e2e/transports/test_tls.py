"""Certificates: of clients, of several hosts, and swapped while clients stay."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect, Pingreq
from tests.e2e.transports.conftest import ALL_DOORS
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.deployment import BrokerProcess, GatewayProcess, NameServerProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Serve = Callable[[dict[str, str]], Any]


@contextmanager
def tls(port: int, context: ssl.SSLContext, name: str = "localhost") -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as connection,
    ):
        yield connection


def greet(connection: socket.socket) -> bytes:
    """The beginning of what a CONNECT is answered with; nothing where the connection ended."""
    try:
        connection.sendall(encode(Connect("", 5), 5))
        return connection.recv(1)
    except (ConnectionError, ssl.SSLError):
        return b""


def serial(connection: ssl.SSLSocket) -> int:
    found = connection.getpeercert(binary_form=True)
    assert found is not None
    return x509.load_der_x509_certificate(found).serial_number


def serial_of(path: Path) -> int:
    return x509.load_pem_x509_certificates(path.read_bytes())[0].serial_number


@pytest.fixture
def own(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.mark.failure(
    "A certificate is replaced by an unusable file",
    group="Operators' mistakes and maintenance",
    does="The old one stays in use, until a usable one is there. Clients stay connected.",
    lost="nothing",
    told="log: new certificates cannot be used",
)
@pytest.mark.parametrize("door", ["mqtts", "wss"])
def test_certificates_are_swapped_while_clients_stay(serve: Serve, own: TestAuthority, door: str) -> None:
    certificate = own.issue("server")
    settings = {**ALL_DOORS, "mqtt.tls_certificate": str(certificate), "mqtt.tls_reload_seconds": "0.1"}
    context = own.client_context()
    with serve(settings) as server, tls(server.port("mqtts"), context) as before:
        first = serial_of(certificate)
        assert serial(before) == first
        assert greet(before) == b"\x20"

        def shown() -> int:
            with tls(server.port(door), context) as connection:
                return serial(connection)

        certificate.write_bytes(b"no certificate")
        wait_until(lambda: "new certificates cannot be used" in server.log_text(), "it is complained of")
        assert shown() == first, "the old one stays"
        second = serial_of(own.issue("server"))
        assert second != first
        wait_until(lambda: shown() == second, "new connections get the new one")
        before.sendall(encode(Pingreq(), 5))
        before.recv(1 << 16)
        assert server.log_text().count("new certificates cannot be used") == 1
        assert server.stop() == 0


def test_sighup_reads_them_at_once(tmp_path: Path, own: TestAuthority) -> None:
    certificate = own.issue("server")
    settings = {**ALL_DOORS, "mqtt.tls_certificate": str(certificate), "mqtt.tls_reload_seconds": "3600"}
    context = own.client_context()
    with ServerProcess(tmp_path, settings) as server:
        second = serial_of(own.issue("server"))
        server._process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        wait_until(lambda: "loaded anew" in server.log_text(), "it was told")
        with tls(server.port("mqtts"), context) as connection:
            assert serial(connection) == second
        assert server.stop() == 0


@pytest.mark.soak
def test_workers_read_them_when_their_parent_is_told(tmp_path: Path, own: TestAuthority) -> None:
    certificate = own.issue("server")
    settings = {
        "cluster.workers": "2",
        "mqtt.tls_port": "0",
        "mqtt.tls_certificate": str(certificate),
        "mqtt.tls_reload_seconds": "3600",
    }
    context = own.client_context()
    name_server = NameServerProcess(tmp_path, None, "nameserver-0")
    with (
        name_server,
        BrokerProcess(tmp_path, [name_server], {}, "broker-0"),
        GatewayProcess(tmp_path, [name_server], settings, "gateway-0") as gateway,
    ):
        with tls(gateway.port("mqtts"), context) as connection:
            assert serial(connection) == serial_of(certificate)
            assert greet(connection) == b"\x20"
        second = serial_of(own.issue("server"))
        gateway._process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
        wait_until(lambda: gateway.log_text().count("loaded anew") == 2, "both were told")
        for _ in range(6):
            with tls(gateway.port("mqtts"), context) as connection:
                assert serial(connection) == second
        assert gateway.stop() == 0


def test_the_host_that_is_asked_for_chooses(serve: Serve, own: TestAuthority) -> None:
    files = {name: own.issue(name.replace("*", "any"), name) for name in ("localhost", "one.example", "*.two.example")}
    hosts = ", ".join(
        f'{{"host": "{host}", "certificate": "{files[host]}"}}' for host in ("one.example", "*.two.example")
    )
    settings = {**ALL_DOORS, "mqtt.tls_certificate": str(files["localhost"]), "mqtt.tls_certificates": f"[{hosts}]"}
    context = own.client_context()
    with serve(settings) as server:
        for asked, given in (
            ("localhost", "localhost"),
            ("ONE.example", "one.example"),
            ("x.two.example", "*.two.example"),
        ):
            with tls(server.port("mqtts"), context, asked) as connection:
                assert serial(connection) == serial_of(files[given])
                assert greet(connection) == b"\x20"
        context.check_hostname = False
        for asked in ("two.example", "a.b.two.example", "127.0.0.1", "other"):
            with tls(server.port("wss"), context, asked) as connection:
                assert serial(connection) == serial_of(files["localhost"])
        assert server.stop() == 0


@pytest.mark.parametrize("mode", ["required", "optional"])
def test_clients_with_and_without_certificates(serve: Serve, tmp_path: Path, own: TestAuthority, mode: str) -> None:
    (tmp_path / "stranger").mkdir()
    stranger = TestAuthority(tmp_path / "stranger").issue("client", "device-1")
    settings = {
        **ALL_DOORS,
        "mqtt.tls_certificate": str(own.issue("server")),
        "mqtt.tls_ca": str(own.file),
        "mqtt.tls_client_certificates": mode,
    }
    with serve(settings) as server:
        known = own.client_context(own.issue("client", "device-1", common_name="device-1"))
        with tls(server.port("mqtts"), known) as connection:
            assert greet(connection) == b"\x20"
        for context, expected in (
            (own.client_context(), b"\x20" if mode == "optional" else b""),
            (own.client_context(stranger), b""),
        ):
            try:
                with tls(server.port("mqtts"), context) as connection:
                    assert greet(connection) == expected
            except (ConnectionError, ssl.SSLError):
                assert expected == b""
        wait_until(lambda: "no TLS handshake" in server.log_text(), server.log_text)  # a stop ends what is not open yet
        assert server.stop() == 0


def test_https_is_swapped_too_and_speaks_websocket(serve: Serve, own: TestAuthority) -> None:
    certificate = own.issue("http")
    settings = {"http.tls_certificate": str(certificate), "mqtt.tls_reload_seconds": "0.1"}
    context = own.client_context()
    with serve(settings) as server:

        def ask(request: str) -> tuple[int, bytes]:
            with tls(server.port("http"), context) as connection:
                connection.sendall(request.encode())
                return serial(connection), connection.recv(1000)

        health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        upgrade = (
            "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
        )
        assert ask(health)[1].startswith(b"HTTP/1.1 200 ")
        assert ask(upgrade)[1].startswith(b"HTTP/1.1 101 ")
        second = serial_of(own.issue("http"))
        wait_until(lambda: ask(health)[0] == second, "the new one is shown")
        assert server.stop() == 0
        assert "Traceback" not in server.log_text()


def test_a_start_without_its_certificate_says_which(tmp_path: Path) -> None:
    settings = {**ALL_DOORS, "mqtt.tls_certificate": str(tmp_path / "missing.pem")}
    with pytest.raises(AssertionError, match=r"certificates cannot be used.*missing\.pem"):
        ServerProcess(tmp_path, settings).start()
