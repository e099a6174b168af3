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

from protocols.mqtt.encoder import encode, encode_publish
from protocols.mqtt.packets import Connect, Pingreq, Pingresp
from tests.e2e.test_serve import call, publish, receive, tokens_of
from tests.support.mqtt_client import RawClient
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

MIB = 1 << 20


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def wait_for(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.05)


@pytest.mark.timeout(90)
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
        started = time.monotonic()
        assert publish(server, "t", "last", {}) == 200
        assert time.monotonic() - started < 15


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
        packet = encode_publish("t/x", bytes(64 * 1024), 1, 1, version=4)
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


@pytest.mark.timeout(90)
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
        wait_for(lambda: publish(server, "t", "after", body) == 200)
        seen = len(items)
        while more := receive(server, "t", "g", 100):
            seen += len(more)
        assert seen == kept + 1, "what was confirmed is there, what was refused is not"
