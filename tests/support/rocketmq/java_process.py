"""A program of Apache RocketMQ as a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.support.waiting import PATIENCE_SECONDS

PEERS: Final = Path(__file__).resolve().parents[2] / "peers"
VERSION: Final = re.findall("<rocketmq.version>(.*)<", (PEERS / "pom.xml").read_text())[0]
FETCHED: Final = PEERS / "rocketmq"
"""Where `make peers` puts the jars, with a stamp when they are all there."""
START_SECONDS: Final = 4 * PATIENCE_SECONDS
"""Three JVMs, one after the other."""
_OPENED: Final = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang")
"""Packages that RocketMQ reaches into; a Java of 17 or later would refuse it."""

_SHORT_LIFE: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Flags of a Java that lives for minutes: it compiles quickly, and not far."""
_LONG_HEAPS: Final = 8
"""Heaps of one that lives long, by those of the others."""


def require_rocketmq() -> None:
    """Skip the test where RocketMQ cannot run."""
    if shutil.which("java") is None or shutil.which("setpriv") is None:
        pytest.skip("RocketMQ needs Java, and setpriv")
    if not (FETCHED / f".fetched-{VERSION}").exists():
        pytest.skip(f"RocketMQ {VERSION} is not fetched (make peers, with Java and Maven)")


class JavaProcess:
    """One of its programs.  It does not outlive the tests, however they end.  `lives_long`: Java compiles as far as it
    can, with a large heap."""

    def __init__(
        self,
        directory: Path,
        name: str,
        main: str,
        heap_mib: int,
        arguments: Sequence[str],
        *,
        lives_long: bool = False,
    ) -> None:
        self.name = name
        self._directory = directory
        self._log = directory / f"{name}.log"
        opened = [flag for package in _OPENED for flag in ("--add-opens", f"{package}=ALL-UNNAMED")]
        heap_mib *= _LONG_HEAPS if lives_long else 1
        memory = [f"-Xms{heap_mib}m", f"-Xmx{heap_mib}m", f"-XX:MaxDirectMemorySize={2 * heap_mib}m"]
        flags = () if lives_long else _SHORT_LIFE
        java = ["java", f"-Duser.home={directory}", *opened, *memory, *flags, "-cp", f"{FETCHED}/lib/*"]
        self._command = ["setpriv", "--pdeathsig", "KILL", *java, main, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, without waiting."""
        homes = {"ROCKETMQ_HOME": str(self._directory), "RMQ_PROXY_HOME": str(self._directory)}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._directory), **homes}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def check(self) -> None:
        """Fail if it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log_text()}"

    def listens(self, port: int) -> bool:
        """True once somebody listens there; fails if it has ended."""
        self.check()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def stop(self) -> int:
        """SIGTERM, and wait for the end; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""
