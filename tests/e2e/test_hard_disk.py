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

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from protocols.mqtt.encoder import encode, encode_publish
from protocols.mqtt.packets import Connect
from tests.e2e.test_serve import call, publish, receive, tokens_of
from tests.support.server import ServerProcess

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
        lost = threading.Event()
        idle = paho.Client(CallbackAPIVersion.VERSION2, client_id="idle")
        idle.on_disconnect = lambda *rest: lost.set()
        idle.connect(host, int(port), keepalive=2)
        idle.loop_start()
        before = resident_bytes(server.pid)
        try:
            held = flood(host, int(port), seconds=6)
            assert held > 3, "the publisher is not held back although nothing is confirmed"
            assert resident_bytes(server.pid) - before < 40 * MIB
            assert call(server, "GET", "/healthz")[0] == 200
            assert not lost.is_set(), "an idle client lost its connection"
        finally:
            tracing.terminate()
            tracing.wait(10)
        started = time.monotonic()
        assert publish(server, "t", "last", {}) == 200
        assert time.monotonic() - started < 5
        idle.on_disconnect = None
        idle.disconnect()
        idle.loop_stop()


def flood(host: str, port: int, seconds: float) -> float:
    """Push publishes without reading answers; returns for how many seconds the server took nothing."""
    with socket.create_connection((host, port)) as connection:
        connection.sendall(encode(Connect("flood", version=4), 4))
        connection.recv(4)
        connection.setblocking(False)
        packet = encode_publish("t/x", bytes(64 * 1024), 1, 1, version=4)
        held, pending = 0.0, b""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pending = pending or packet
            try:
                sent = connection.send(pending)
            except BlockingIOError:
                time.sleep(0.01)
                held += 0.01
                continue
            pending = pending[sent:]
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
