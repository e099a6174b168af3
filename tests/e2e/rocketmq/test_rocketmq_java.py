"""Versions of RocketMQ's Java SDK, unchanged: a producer of each type, a simple consumer and a push consumer."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes.server import ServerProcess

PEERS: Final = Path(__file__).resolve().parents[2] / "peers"
PROGRAM: Final = Path(__file__).resolve().parents[2] / "support" / "rocketmq" / "peers" / "JavaClient.java"
VERSIONS: Final = re.findall("<rocketmq.sdks>(.*)<", (PEERS / "pom.xml").read_text())[0].split()
TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
SECONDS: Final = 120

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * SECONDS)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_sends_receives_and_is_pushed(
    version: str, server: ServerProcess, topic: str, group: str, tmp_path: Path
) -> None:
    jar = PEERS / "rocketmq-sdk" / f"rocketmq-client-java-{version}.jar"
    if shutil.which("javac") is None or not jar.exists():
        pytest.skip(f"RocketMQ's Java SDK {version} is not fetched (make peers, with a JDK and Maven)")
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}"]
    command = ["java", *quick, "-cp", str(jar), str(PROGRAM), server.address("grpc"), topic, group, ",".join(TYPES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, check=False)
    steps = [line for line in done.stdout.splitlines() if line.partition(" ")[0] in ("sent", "received", "pushed")]
    expected = [f"{step} {kind}" for step in ("sent", "received", "pushed") for kind in TYPES]
    assert sorted(steps) == sorted(expected), done.stdout[-2000:] + done.stderr[-2000:]
