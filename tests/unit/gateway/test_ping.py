"""`entrepot ping`: a greeting over the wire, or readiness over HTTP, as an exit code and one line."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from entrepot.broker.namesrv.server import NameServer
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.cli.app import run
from entrepot.gateway.transport.binding import address_of, bind
from entrepot.store_client.remote.ping import ping
from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS


@asynccontextmanager
async def name_server(cluster: str = "", trust: ClusterTrust = NO_TRUST) -> AsyncIterator[str]:
    listener = bind("127.0.0.1", 0)
    server = NameServer(listener, cluster=cluster, trust=trust)
    await server.start()
    try:
        yield address_of(listener)
    finally:
        await server.close()


async def test_who_greets_is_there() -> None:
    async with name_server("plant") as address:
        assert (await ping(address, cluster="plant", seconds=PATIENCE_SECONDS)).seconds > 0


async def test_a_part_that_is_no_replica_is_ready_and_has_no_role(capsys: pytest.CaptureFixture[str]) -> None:
    async with name_server() as address:
        asked = ["ping", address, "--timeout", f"{PATIENCE_SECONDS}"]
        assert await asyncio.to_thread(run, [*asked, "--ready", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["target"], told["isReady"], told["replica"]) == (address, True, None)
        assert await asyncio.to_thread(run, [*asked, "--role", "master"]) == 1
        assert capsys.readouterr().err == f"entrepot: {address} is not a master: it is not a replica\n"


async def test_one_of_another_cluster_is_not() -> None:
    async with name_server("plant") as address:
        with pytest.raises(EntrepotError, match="this is cluster 'plant', not 'other'"):
            await ping(address, cluster="other", seconds=PATIENCE_SECONDS)


async def test_tls_needs_what_the_other_side_asks_for(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    member = ClusterTrust(certificate, key, certificate)
    async with name_server(trust=member) as address:
        assert (await ping(address, trust=member, seconds=PATIENCE_SECONDS)).seconds > 0
        with pytest.raises(EntrepotError):
            await ping(address, trust=ClusterTrust(ca=certificate), seconds=PATIENCE_SECONDS)
        with pytest.raises(EntrepotError):
            await ping(address, seconds=PATIENCE_SECONDS)


async def test_who_says_nothing_is_given_up() -> None:
    silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    with pytest.raises(EntrepotError, match="greet"):
        await ping(f"127.0.0.1:{silent.sockets[0].getsockname()[1]}", seconds=0.3)
    silent.close()


def test_nobody_there_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert run(["ping", address, "--timeout", "60"]) == 1
        assert capsys.readouterr().err.startswith(f"entrepot: {address} does not answer: ")
        assert run(["ping", f"http://{address}"]) == 1
        assert capsys.readouterr().err.startswith(f"entrepot: cannot reach http://{address}")


@cases("target", ["here", ":1883", "host:", "host:0", "host:70000", "host:1x"])
def test_what_is_no_address_is_wrong_usage(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ping", target]) == 2
    assert "is neither HOST:PORT nor a URL" in capsys.readouterr().err


def test_an_http_door_has_no_role(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ping", "http://127.0.0.1:8080", "--role", "master"]) == 2
    assert "an HTTP door has no role" in capsys.readouterr().err
    assert run(["ping", "127.0.0.1:9876", "--role", "king"]) == 2
    assert "'king' is not one of 'master', 'slave'" in capsys.readouterr().err


def test_settings_are_those_of_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ping", "127.0.0.1:9876", "--set", "cluster.nam=x"]) == 2
    assert "cluster.name" in capsys.readouterr().err
