"""Debian's Prometheus as a process of the test's own, on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.support.processes.ports import free_port
from tests.support.processes.started import Started
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PROGRAM: Final = shutil.which("prometheus")


class Prometheus(Started):
    """A server that scrapes each second.  `jobs`: as in the file `prometheus.yml`, whose form has JSON in it."""

    def __init__(self, directory: Path, jobs: list[dict[str, Any]]) -> None:
        if PROGRAM is None:
            pytest.skip("prometheus is not installed (make peers)")
        self._program, self._directory, self._jobs = PROGRAM, directory, jobs
        self._url = f"http://127.0.0.1:{free_port()}"
        self._log = directory / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": self._jobs}
        file = self._directory / "prometheus.yml"
        file.write_text(json.dumps(config))
        command = [
            self._program,
            f"--config.file={file}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self._url.removeprefix('http://')}",
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._is_ready, self.log_text)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_text()
        try:
            return httpx2.get(f"{self._url}/-/ready", trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def ask(self, query: str) -> list[float]:
        """The values of a query's rows now."""
        answer = httpx2.get(
            f"{self._url}/api/v1/query", params={"query": query}, trust_env=False, timeout=PATIENCE_SECONDS
        )
        found = answer.json()
        assert found["status"] == "success", (query, found)
        return [float(row["value"][1]) for row in found["data"]["result"]]

    def targets(self) -> list[tuple[str, str]]:
        """The state of each target, and the fault of its last scrape."""
        found = httpx2.get(f"{self._url}/api/v1/targets", trust_env=False, timeout=PATIENCE_SECONDS).json()
        return [(each["health"], each["lastError"]) for each in found["data"]["activeTargets"]]

    def kill(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_SECONDS)
            self._process = None

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""
