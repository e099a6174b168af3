"""PROXY headers before MQTT, TLS and WebSocket: believed from whom they may come from, and from nobody else."""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect
from entrepot.protocols.proxy.layout import SIGNATURE
from tests.e2e.transports.conftest import ALL_DOORS
from tests.support.cases import cases
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

V1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 40001 1883\r\n"
V1_6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 40001 1883\r\n"
V2 = SIGNATURE + b"\x21\x11\x00\x0c" + bytes((203, 0, 113, 7, 198, 51, 100, 1)) + struct.pack("!HH", 40_001, 1883)
V2_LOCAL = SIGNATURE + b"\x20\x00\x00\x00"
CONNECT = encode(Connect("", 5), 5)
HANDSHAKE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


@pytest.fixture(scope="module", params=["required", "optional"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def behind(mode: str, authority: TestAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that believes 127.0.0.1, and not 127.0.0.2."""
    settings = {
        **ALL_DOORS,
        "mqtt.tls_certificate": str(authority.issue("behind")),
        "mqtt.proxy_protocol": mode,
        "mqtt.trusted_proxies": '["127.0.0.1/32"]',
    }
    with ServerProcess(tmp_path_factory.mktemp("behind"), settings) as running:
        yield running
        assert running.stop() == 0, running.log_text()
        assert "Traceback" not in running.log_text(), running.log_text()


def connection(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS, (source, 0))


def answer(connected: socket.socket, data: bytes) -> bytes:
    try:
        connected.sendall(data)
        return connected.recv(1)
    except ConnectionError:
        return b""


def logged_peers(server: ServerProcess) -> list[str]:
    return re.findall(r"peer=(\S+)", server.log_text())


@cases("header, peer", [(V1, "203.0.113.7:40001"), (V1_6, "[2001:db8::7]:40001"), (V2, "203.0.113.7:40001")])
@cases("door", ["mqtt", "mqtts"])
def test_the_source_is_what_the_proxy_says(
    behind: ServerProcess, authority: TestAuthority, header: bytes, peer: str, door: str
) -> None:
    before = logged_peers(behind).count(peer)
    with connection(behind.port(door)) as plain:
        plain.sendall(header)
        connected: socket.socket = plain
        if door == "mqtts":
            connected = authority.client_context().wrap_socket(plain, server_hostname="localhost")
        with connected:
            assert answer(connected, CONNECT) == b"\x20"
            connected.sendall(CONNECT)  # against the protocol: the server closes, and says whom
            wait_until(lambda: logged_peers(behind).count(peer) == before + 1, behind.log_text)


def test_the_header_and_all_that_follows_in_one_piece(behind: ServerProcess, authority: TestAuthority) -> None:
    """What comes with the header belongs to TLS: not a byte of it is lost."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    with connection(behind.port("mqtts")) as plain:
        plain.sendall(V2 + outgoing.read())
        while True:
            incoming.write(plain.recv(65_536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
        tls.write(CONNECT)
        plain.sendall(outgoing.read())
        while True:
            incoming.write(plain.recv(65_536))
            try:
                assert tls.read(1) == b"\x20"
                break
            except ssl.SSLWantReadError:
                continue


@cases("header", [V1, V2, V2_LOCAL])
def test_a_header_in_pieces(behind: ServerProcess, header: bytes) -> None:
    with connection(behind.port("mqtt")) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(header)):
            plain.sendall(header[at : at + 1])
        assert answer(plain, CONNECT) == b"\x20"
    with connection(behind.port("ws")) as plain:
        assert answer(plain, header + HANDSHAKE) == b"H"
        assert plain.recv(100).startswith(b"TTP/1.1 101 ")


@cases("header", [b"PROXY TCP4 nonsense\r\n", SIGNATURE[:8] + b"nonsense", SIGNATURE + b"\x31\x11\x00\x00"])
def test_a_header_that_is_none_ends_the_connection(behind: ServerProcess, header: bytes) -> None:
    with connection(behind.port("mqtt")) as plain:
        assert answer(plain, header + CONNECT) == b""


def test_a_connection_without_a_header(behind: ServerProcess, mode: str) -> None:
    with connection(behind.port("mqtt")) as plain:
        assert answer(plain, CONNECT) == (b"\x20" if mode == "optional" else b"")


def test_who_is_not_trusted(behind: ServerProcess, mode: str) -> None:
    """With a header it is refused; without one it comes in where none is needed."""
    told = logged_peers(behind).count("203.0.113.7:40001")
    with connection(behind.port("mqtt"), "127.0.0.2") as plain:
        assert answer(plain, V1 + CONNECT) == b""
    with connection(behind.port("mqtt"), "127.0.0.2") as plain:
        assert answer(plain, CONNECT) == (b"\x20" if mode == "optional" else b"")
    assert logged_peers(behind).count("203.0.113.7:40001") == told


def test_without_the_setting_a_header_is_an_error(server: ServerProcess) -> None:
    with connection(server.port("mqtt")) as plain:
        assert answer(plain, V1 + CONNECT) == b""


def test_trust_is_needed_to_believe(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="trusted_proxies"):
        ServerProcess(tmp_path, {"mqtt.proxy_protocol": "optional"}).start()
