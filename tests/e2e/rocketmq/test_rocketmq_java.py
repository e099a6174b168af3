"""Versions of RocketMQ's Java SDK, unchanged: a producer of each type, a simple consumer and a push consumer."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.peers.hosts import JAVA_QUICK, JAVA_VERSIONS, java_absent, java_jar

PROGRAM: Final = Path(__file__).resolve().parents[2] / "support" / "rocketmq" / "peers" / "JavaClient.java"
TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
SECONDS: Final = 120

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * SECONDS)]


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_a_version_sends_receives_and_is_pushed(
    version: str, server: ServerProcess, topic: str, group: str, tmp_path: Path
) -> None:
    if absent := java_absent(version):
        pytest.skip(absent)
    java = ["java", *JAVA_QUICK, f"-Duser.home={tmp_path}", "-cp", str(java_jar(version)), str(PROGRAM)]
    command = [*java, server.address("grpc"), topic, group, ",".join(TYPES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, check=False)
    steps = [line for line in done.stdout.splitlines() if line.partition(" ")[0] in ("sent", "received", "pushed")]
    expected = [f"{step} {kind}" for step in ("sent", "received", "pushed") for kind in TYPES]
    assert sorted(steps) == sorted(expected), done.stdout[-2000:] + done.stderr[-2000:]
