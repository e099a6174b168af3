"""Connections to the RocketMQ port: TLS and plaintext by their first byte, certificates, and PROXY headers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from entrepot.gateway.rocketmq.grpc.call import Call, Unary
from entrepot.gateway.security.self_made_certificate import fingerprint
from entrepot.gateway.transport.source import Source
from entrepot.protocols.grpc.messages import framed
from entrepot.protocols.http2.frames import PREFACE, SETTINGS, settings_frame
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.cases import cases
from tests.support.http2.peer import data, head
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.grpc_site import GrpcSite
from tests.support.rocketmq.raw_grpc import RawGrpc, request
from tests.support.waiting import PATIENCE_SECONDS, until


class Sources:
    """A method that notes where its callers are."""

    def __init__(self) -> None:
        self.seen: list[Source] = []

    async def look(self, question: bytes, call: Call) -> bytes:
        self.seen.append(call.source)
        return question

    async def site(self, **settings: Any) -> GrpcSite:
        made = GrpcSite({b"/Look": Unary(bytes, self.look, bytes)}, **settings)
        await made.start()
        return made


async def looked(client: RawGrpc) -> None:
    client.ask(1, b"/Look")
    client.send(data(1, framed(b"x"), is_last=True))
    assert (await client.answer(1))[0] == framed(b"x")


def trusting(certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def test_tls_and_plaintext_come_to_one_port(tmp_path: Path):
    authority, sources = TestAuthority(tmp_path), Sources()
    site = await sources.site(tls="optional", tls_certificate=authority.issue("server"))
    context = authority.client_context()
    context.set_alpn_protocols(["h2"])
    async with RawGrpc(site.port, tls=context) as secured, RawGrpc(site.port) as plain:
        await looked(secured)
        assert secured.alpn == "h2"
        await looked(plain)
    assert [(source.is_tls, source.host) for source in sources.seen] == [(True, "127.0.0.1"), (False, "127.0.0.1")]
    await site.stop(0)


async def test_plaintext_is_refused_where_tls_is_required(tmp_path: Path):
    site = await Sources().site(tls="required", tls_certificate=TestAuthority(tmp_path).issue("server"))
    async with RawGrpc(site.port) as plain:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await plain.until(lambda each: each.kind == SETTINGS)
    await site.stop(0)


async def test_tls_to_a_port_without_it_is_one_line():
    site = await Sources().site(tls="off")
    with capture_logs() as lines:
        for _ in range(2):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", site.port, ssl=ssl.create_default_context())
    told = [line for line in lines if line["event"] == "a client speaks TLS to a port without TLS"]
    assert [line["setting"] for line in told] == ["grpc.tls"] * 2
    assert len({line["seldom"] for line in told}) == 1, "the log limits lines of one kind"
    await site.stop(0)


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_self_made_certificate(tmp_path: Path, is_kept: bool):
    settings = {"tls_self_made_file": tmp_path / "made.pem"} if is_kept else {}
    shown = []
    for _ in range(2):
        with capture_logs() as lines:
            site = await Sources().site(tls="optional", **settings)
        [line] = [line for line in lines if "self-made" in line["event"]]
        certificate = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", site.port))
        (tmp_path / "shown.pem").write_text(certificate)
        assert fingerprint(tmp_path / "shown.pem") == line["sha256"]
        async with RawGrpc(site.port, tls=trusting(certificate)) as client:
            await looked(client)
            assert client.alpn == "h2"
        shown.append(line["sha256"])
        await site.stop(0)
    assert (shown[0] == shown[1]) is is_kept
    if is_kept:
        assert stat.S_IMODE((tmp_path / "made.pem").stat().st_mode) == 0o600


@cases("written", ["", "not a certificate"])
async def test_a_file_that_cannot_be_used_stops_no_start(tmp_path: Path, written: str):
    path = tmp_path / ("file.pem" if written else "nowhere/file.pem")
    if written:
        path.write_text(written)
    with capture_logs() as lines:
        site = await Sources().site(tls="optional", tls_self_made_file=path)
    assert any("cannot be kept" in line["event"] for line in lines)
    assert await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", site.port))
    await site.stop(0)


async def test_who_looks_at_the_port_is_not_told_of():
    site = await Sources().site(tls="optional")
    with capture_logs() as lines:
        for _ in range(3):
            socket.create_connection(("127.0.0.1", site.port)).close()
        async with RawGrpc(site.port) as client:
            await looked(client)
    assert lines == []
    await site.stop(0)


async def test_names_in_client_certificates(tmp_path: Path):
    authority, sources = TestAuthority(tmp_path), Sources()
    site = await sources.site(
        tls="required",
        tls_certificate=authority.issue("server"),
        tls_ca=authority.file,
        tls_client_certificates="optional",
    )
    known = authority.client_context(authority.issue("client", "device.example", common_name="device"))
    async with RawGrpc(site.port, tls=known) as client, RawGrpc(site.port, tls=authority.client_context()) as nobody:
        await looked(client)
        await looked(nobody)
    shown, none = (source.certificate for source in sources.seen)
    assert shown is not None
    assert (shown.common_name, shown.dns_names, none) == ("device", ("device.example",), None)
    await site.stop(0)


V1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 40001 8081\r\n"


@pytest.mark.parametrize("mode", ["off", "optional", "required"])
async def test_proxy_headers_before_tls_and_plaintext(tmp_path: Path, mode: str):
    authority, sources = TestAuthority(tmp_path), Sources()
    site = await sources.site(
        tls="optional",
        tls_certificate=authority.issue("server"),
        trusted_proxies=["127.0.0.0/8"],
        proxy_protocol=mode,
    )

    def talk(first: bytes, wrap: Callable[[socket.socket], socket.socket]) -> bytes:
        with socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS) as connection:
            connection.sendall(first)
            try:
                inside = wrap(connection)
                asked = head(1, fields=request(b"/Look")) + data(1, framed(b"x"), is_last=True)
                inside.sendall(PREFACE + settings_frame() + asked)
                found = b""
                while b"grpc-status" not in found and (more := inside.recv(10_000)):
                    found += more
            except OSError:
                return b""
            return found

    context = authority.client_context()
    ways: list[Callable[[socket.socket], socket.socket]] = [
        lambda plain: plain,
        lambda plain: context.wrap_socket(plain, server_hostname="localhost"),
    ]
    for way in ways:
        assert (b"grpc-status" in await asyncio.to_thread(talk, V1, way)) is (mode != "off")
        assert (b"grpc-status" in await asyncio.to_thread(talk, b"", way)) is (mode != "required")
    hosts = [source.host for source in sources.seen]
    assert (
        hosts
        == {
            "off": ["127.0.0.1"] * 2,
            "optional": ["203.0.113.7", "127.0.0.1"] * 2,
            "required": ["203.0.113.7"] * 2,
        }[mode]
    )
    await site.stop(0)


def test_a_first_start_takes_both(tmp_path: Path):
    """With nothing set: SDKs that speak TLS by themselves, and those that do not; the certificate stays over starts."""
    certificates = set()
    for _ in range(2):
        with ServerProcess(tmp_path) as server:
            certificate = ssl.get_server_certificate(("127.0.0.1", server.port("grpc")))
            certificates.add(certificate)
            address = f"localhost:{server.port('grpc')}"
            for roots in (certificate.encode(), None):
                with GrpcClient(address, roots=roots) as client:
                    asked = v2.HeartbeatRequest(client_type=v2.PRODUCER)
                    assert client.call("Heartbeat", asked).status.code == v2.OK
            assert fingerprint(server.data_dir / "grpc-certificate.pem") in server.log_text()
            assert server.stop() == 0
    assert len(certificates) == 1


def test_workers_have_one_certificate(tmp_path: Path):
    with ServerProcess(tmp_path, {"cluster.workers": "2"}) as server:
        where = ("127.0.0.1", server.port("grpc"))
        assert len({ssl.get_server_certificate(where) for _ in range(20)}) == 1
        assert server.log_text().count(fingerprint(server.data_dir / "grpc-certificate.pem")) == 2


async def test_many_calls_after_a_change_of_many_connections():
    """Counts of connections and early bytes go down again."""
    sources = Sources()
    site = await sources.site(tls="optional", max_connections=3)
    for _ in range(10):
        async with RawGrpc(site.port) as client:
            await looked(client)
        await until(lambda: not site.server._conversations, "the connection has ended")
    assert site.early.held == 0
    await site.stop(0)
