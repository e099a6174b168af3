"""A log whose first segment is gone: every record that is left is whole, and yet it is said everywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_serve import call, publish, receive
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import Process, ServerProcess
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

SETTINGS = {"store.segment_size_bytes": str(1 << 20), "topics.default_queues": "1"}


def verify(data_dir: Path) -> tuple[int, str]:
    command = [sys.executable, "-c", "from entrepot.gateway.cli.app import main; main()", "store", "verify", "--full"]
    done = subprocess.run([*command, "--data-dir", str(data_dir)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.failure(
    "The oldest segment of a log is gone",
    group="Disks",
    does="The store opens and serves what is left.",
    lost="the messages of that segment",
    told="log, `/healthz` (`damaged`), `store verify`: so many bytes are missing",
)
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["serve", "cluster"])
def test_it_is_told_at_start_by_verify_and_by_health(tmp_path: Path, kind: str) -> None:
    whole = ServerProcess(tmp_path, SETTINGS) if kind == "serve" else ClusterProcesses(tmp_path, SETTINGS, brokers=1)
    kept: Process = whole if isinstance(whole, ServerProcess) else whole.brokers[0]
    data_dir: Path = kept.data_dir  # type: ignore[attr-defined]
    with whole:
        for number in range(30):
            assert publish(whole, "t", str(number), {"x": "y" * 100_000}) == 200
        assert call(whole, "GET", "/healthz") == (200, {"status": "ok"})
        kept.stop()
        assert verify(data_dir)[0] == 0, "what is whole is healthy, with every file that is there"
        (data_dir / "commitlog" / f"{0:020d}").unlink()
        code, told = verify(data_dir)
        assert code == 1
        assert "the first 1048576 bytes of the log are missing, 10 messages or more" in told
        kept.start()
        assert "kept messages are missing" in kept.log_text()
        wait_until(lambda: call(whole, "GET", "/healthz")[1]["status"] == "damaged", whole.log_text)
        status, health = call(whole, "GET", "/healthz")
        assert status == 200, "a restart would mend nothing"
        assert "the first 1048576 bytes of the log are missing" in health["problems"][0]
        assert call(whole, "GET", "/readyz")[0] == 200
        tell(f"a log without its beginning, {kind}", messages=30, faults=1)
        assert len(receive(whole, "t", "g", 100)) == 20, "what is left is served"
