"""h2spec, other people's suite of HTTP/2 and HPACK, at a real server: every case passes, over plaintext and TLS."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient

H2SPEC: Final = Path(__file__).resolve().parents[2] / "peers" / "bin" / "h2spec"
LEAST_CASES: Final = 140
"""It has 146 with `--strict`."""
ANSWER_SECONDS: Final = 10

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    if not H2SPEC.exists():
        pytest.skip("h2spec is not installed (make peers, with Go)")
    with ServerProcess(tmp_path_factory.mktemp("h2spec")) as running:
        yield running


@pytest.mark.parametrize("ways", [(), ("--tls", "--insecure")], ids=["plaintext", "tls"])
def test_every_case_passes(server: ServerProcess, ways: tuple[str, ...]) -> None:
    command = [str(H2SPEC), "--strict", "--timeout", str(ANSWER_SECONDS), "--host", "127.0.0.1", *ways]
    done = subprocess.run(
        [*command, "--port", str(server.port("grpc"))], capture_output=True, text=True, timeout=500, check=False
    )
    counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    assert counts is not None, done.stdout + done.stderr
    tests, passed, skipped, failed = map(int, counts.groups())
    assert (skipped, failed) == (0, 0), done.stdout[-6000:]
    assert tests == passed >= LEAST_CASES
    with GrpcClient(server.address("grpc")) as client:
        assert client.send(client.message("after")).status.message == "OK"
    assert "Traceback" not in server.log_text()
