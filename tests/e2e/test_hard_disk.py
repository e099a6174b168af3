"""Contract rows 6 and 7 on the real thing: a disk that is slow, and one that is full.

Serve only: they are about the disk under `serve`; that under a broker is slow in tests/cluster.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect, Pingreq, Pingresp, Publish
from tests.e2e.test_serve import call, publish, receive, tokens_of
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deployment
from tests.support.processes.server import ServerProcess
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


@pytest.mark.failure_also("A broker's disk is slow")
def test_a_slow_disk_holds_publishers_back_and_nobody_else(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: make peers installs it")
    with ServerProcess(tmp_path, {"store.max_unconfirmed_bytes": str(MIB), "topics.default_queues": "1"}) as server:
        assert publish(server, "t", "first", {}) == 200
        child = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
        tracing = subprocess.Popen(
            [strace, "-f", "-p", child, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=300000"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        assert tracing.stderr is not None
        if b"attached" not in tracing.stderr.readline():
            pytest.skip("this machine does not let strace attach")
        threading.Thread(target=tracing.stderr.read, daemon=True).start()
        host, _, port = server.ports["mqtt"].rpartition(":")
        before = resident_bytes(server.pid)
        try:
            with Idle(int(port)) as idle:
                held = flood(host, int(port), seconds=6)
                assert held > 3, "the publisher is not held back although nothing is confirmed"
                assert resident_bytes(server.pid) - before < 40 * MIB
                assert call(server, "GET", "/healthz")[0] == 200
                answered = idle.answered
                assert answered > 1, "nobody else was answered while a publisher was held back"
                wait_until(lambda: idle.answered > answered, "an idle client is answered")
        finally:
            tracing.terminate()
            tracing.wait(10)
        assert publish(server, "t", "last", {}) == 200
    tell("a slow disk", faults=1)


class Idle:
    """A client that only pings, each time when the last one was answered; `answered`: how many were."""

    def __init__(self, port: int) -> None:
        self.answered = 0
        self._client = RawClient(port)
        self._client.connect("idle")
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ping)

    def _ping(self) -> None:
        while not self._is_over.wait(0.2):
            self._client.say(Pingreq())
            self._client.expect(Pingresp)
            self.answered += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.socket.close()


def flood(host: str, port: int, seconds: float) -> float:
    """Push publishes without reading answers; returns for how many seconds the server took nothing."""
    with socket.create_connection((host, port)) as connection:
        connection.sendall(encode(Connect("flood", version=4), 4))
        connection.recv(4)
        connection.setblocking(False)
        packet = encode(Publish("t/x", bytes(64 * 1024), 1, 1), 4)
        held, pending = 0.0, b""
        refused_at: float | None = None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pending = pending or packet
            try:
                sent = connection.send(pending)
            except BlockingIOError:
                now = time.monotonic()
                held += now - (refused_at or now)  # what lies between two refusals
                refused_at = now
                time.sleep(0.01)
                continue
            refused_at, pending = None, pending[sent:]
        return held


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("a small file system needs the right to mount one")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.failure(
    "A disk is full",
    group="Disks",
    does=(
        "Publishing is refused, HTTP 507; consuming and acknowledging go on. When there is room, publishing goes on "
        "without a restart."
    ),
    lost="nothing confirmed",
    told="alarm: a broker's disk is full; `entrepot_disk_state`",
)
def test_a_full_disk_refuses_publishing_lets_consuming_go_on_and_recovers(tmp_path: Path, small_disk: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    settings = {
        "store.segment_size_bytes": str(4 * MIB),
        "store.preallocate_bytes": str(MIB),
        "store.reserve_bytes": str(MIB),
    }
    server = ServerProcess(tmp_path, settings)
    server.data_dir = small_disk / "data"
    with server:
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(12 * MIB))
        body = {"x": "y" * 100_000}
        statuses = [publish(server, "t", str(number), body) for number in range(200)]
        assert statuses[0] == 200
        assert 507 in statuses
        assert statuses[-1] == 507
        kept = statuses.count(200)
        items = receive(server, "t", "g", 100)
        assert items
        outcome = call(server, "POST", "/topics/t/eventsubscriptions/g:acknowledge", tokens_of(items))[1]
        assert len(outcome["succeededLockTokens"]) == len(items), "acknowledging goes on"
        ballast.unlink()
        wait_until(lambda: publish(server, "t", "after", body) == 200, "there is room again")
        seen = len(items)
        while more := receive(server, "t", "g", 100):
            seen += len(more)
        tell("a disk that fills up", messages=kept + 1, lost=kept + 1 - seen, faults=1)
        assert seen == kept + 1, "what was confirmed is there, what was refused is not"


def fill(place: Path) -> Path:
    """Take all that is left of a file system."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (MIB, 4096, 1):
            while True:
                try:
                    if file.write(bytes(size)) < size:
                        break
                except OSError:
                    break
    return ballast


SMALL_STORE = {
    "store.segment_size_bytes": str(8 * MIB),
    "store.reserve_bytes": str(MIB),
    "store.disk_emergency_free_bytes": "0",  # else the oldest segment goes
}
LARGE = {"x": "y" * 50_000}


def small_server(directory: Path, disk: Path) -> ServerProcess:
    server = ServerProcess(directory, SMALL_STORE)
    server.data_dir = disk / "data"
    return server


def publish_until_refused(server: Deployment) -> int:
    """Returns how many were confirmed."""
    for number in range(500):
        if publish(server, "t", str(number), LARGE) == 507:
            return number
    raise AssertionError("the disk never was full")


@pytest.mark.failure_also("A broker is killed while its disk is full")
def test_a_server_killed_on_a_full_disk_starts_again(tmp_path: Path, small_disk: Path) -> None:
    """Nobody gives room back meanwhile; publishing comes back by itself when somebody does (contract row 6)."""
    server = small_server(tmp_path, small_disk)
    (small_disk / "ballast").write_bytes(bytes(6 * MIB))
    server.start()
    kept = publish_until_refused(server)
    taken: set[str] = set()
    for _ in range(3):
        server.kill()
        ballast = fill(small_disk)
        server.start()
        assert publish(server, "t", "more", LARGE) == 507
        items = receive(server, "t", "g", 10)
        assert len(items) == 10, "consuming goes on from the reserve that it had"
        outcome = call(server, "POST", "/topics/t/eventsubscriptions/g:acknowledge", tokens_of(items))[1]
        assert len(outcome["succeededLockTokens"]) == 10
        taken |= {item["event"]["id"] for item in items}
    ballast.unlink()
    wait_until(lambda: publish(server, "t", "after", LARGE) == 200, "there is room again")
    while more := receive(server, "t", "g", 100):
        taken |= {item["event"]["id"] for item in more}
    tell("a server killed on a full disk", rounds=3, messages=kept + 1, lost=kept + 1 - len(taken), faults=3)
    assert len(taken) == kept + 1, "what was confirmed is there, what was refused is not"
    server.stop()


@pytest.mark.failure_also("A broker is killed while its disk is full")
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_server_without_any_reserve_starts_on_a_full_disk(tmp_path: Path, small_disk: Path, end: str) -> None:
    """As a copy of a data directory has none; others took the last byte."""
    server = small_server(tmp_path, small_disk)
    server.start()
    for number in range(20):
        assert publish(server, "t", str(number), LARGE) == 200
    server.kill() if end == "killed" else server.stop()
    for segment in (server.data_dir / "commitlog").iterdir():
        os.truncate(segment, len(segment.read_bytes().rstrip(b"\0")))
    ballast = fill(small_disk)
    server.start()
    assert publish(server, "t", "more", LARGE) == 507
    assert call(server, "GET", "/healthz")[0] == 200
    ballast.unlink()
    wait_until(lambda: publish(server, "t", "after", LARGE) == 200, "there is room again")
    tell(f"a server without any reserve, {end}", messages=21, faults=1)
    assert len(receive(server, "t", "g", 100)) == 21
    server.stop()
