"""Connections that say nothing take descriptors, up to those that are kept for the server itself."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import amqp  # type: ignore[import-untyped]
import httpx2
import pytest
from amqp.exceptions import AMQPError  # type: ignore[import-untyped]

from entrepot.domain.descriptors import LEAST_RESERVE
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROOM = 40
"""Connections until new ones are refused."""
SEGMENT = 1 << 20


def opened(server: ServerProcess) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


@pytest.fixture
def server(tmp_path: Path):
    settings = {"store.segment_size_bytes": str(SEGMENT), "store.preallocate_bytes": str(SEGMENT)}
    settings["grpc.handshake_timeout_seconds"] = "100"  # silent connections are to stay
    with ServerProcess(tmp_path, settings) as running:
        yield running


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def refused_by_amqp(port: int) -> str:
    """The words of a refused AMQP connection."""
    with pytest.raises(AMQPError) as refusal:
        amqp.Connection(f"127.0.0.1:{port}", connect_timeout=PATIENCE_SECONDS).connect()
    return str(refusal.value)


@pytest.mark.failure(
    "Clients open connections until descriptors are short",
    group="Strangers and floods",
    does="New connections are refused, then closed at once. Those that are there, and the store, go on.",
    lost="nothing",
    told="`/readyz` 503 and log: too many files and connections are open",
)
@pytest.mark.parametrize("door", ["mqtt", "amqp", "grpc", "http"])
def test_silent_connections_leave_the_server_its_own(server: ServerProcess, door: str):
    """Those that are there go on, over new segments of the log; new ones are refused in the words of their door."""
    url, log = f"http://127.0.0.1:{server.port('http')}", server.data_dir / "commitlog"
    with ExitStack() as stack:
        early = stack.enter_context(RawClient(server.port("mqtt")))
        early.connect("early")
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=PATIENCE_SECONDS))
        assert http.get("/healthz").status_code == 200
        before = opened(server)
        limit = before + ROOM + LEAST_RESERVE
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))

        def connect(count: int) -> list[socket.socket]:
            address = ("127.0.0.1", server.port(door))
            return [stack.enter_context(socket.create_connection(address)) for _ in range(count)]

        silent = connect(ROOM + 4)
        wait_until(lambda: opened(server) >= before + ROOM, lambda: f"{opened(server)} of {limit} are open")
        with RawClient(server.port("mqtt")) as late:
            assert late.connect("late").reason == ReasonCode.SERVER_BUSY
        assert "too many files and connections are open" in refused_by_amqp(server.port("amqp"))
        assert [httpx2.get(f"{url}/{path}").status_code for path in ("healthz", "metrics")] == [200, 200]
        refusal = httpx2.get(f"{url}/readyz")
        assert (refusal.status_code, refusal.json()["detail"]) == (503, "too many files and connections are open")

        silent += connect(LEAST_RESERVE)
        wait_until(lambda: sum(map(is_closed, silent)) >= LEAST_RESERVE // 4, "none is closed")
        wait_until(lambda: opened(server) < limit - LEAST_RESERVE // 4, lambda: f"{opened(server)} of {limit} are open")
        segments = len(os.listdir(log))
        for number in range(5):
            early.publish(f"t{number}/x", bytes(SEGMENT // 2))
        assert len(os.listdir(log)) >= segments + 2
        assert http.get("/healthz").status_code == 200
        for connection in silent:
            connection.close()
        wait_until(lambda: httpx2.get(f"{url}/readyz").status_code == 200, "there is no room again")
        with RawClient(server.port("mqtt")) as late:
            assert late.connect("late").reason == ReasonCode.SUCCESS
    told = [line for line in server.log_text().splitlines() if "too many files and connections are open" in line]
    assert any("listener=http" in line for line in told), told
    assert any(f"listener={door}" in line for line in told), told
    assert server.stop() == 0
