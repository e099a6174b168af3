"""Real processes on free ports with their real files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil  # type: ignore[import-untyped]

from tests.support.processes import measured
from tests.support.processes.launcher import ROOT, WarmProcess, launch
from tests.support.processes.ports import ReservedPort
from tests.support.waiting import PATIENCE_SECONDS

START_SECONDS = 2 * PATIENCE_SECONDS
STOP_SECONDS = PATIENCE_SECONDS + 10


class Process:
    """A command of ours in a process of its own, which keeps its ports through restarts."""

    doors: ClassVar[tuple[str, ...]] = ()
    """Its listeners that have a free port unless its settings say otherwise."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, name: str = "server") -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.name = name
        self.ports: dict[str, str] = {}
        self._reserved: defaultdict[str, ReservedPort] = defaultdict(ReservedPort)
        self.tree = ROOT
        """The tree whose program runs from the next start on."""
        self.ready_seconds = 0.0
        self._log = directory / f"{name}.log"
        self.ready_file = directory / ("ready.json" if name == "server" else f"{name}.ready.json")
        self._process: WarmProcess | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if kind is not None:
            print(self.log_text())

    def _arguments(self) -> list[str]:
        """The command and its flags, without settings."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def all(self) -> list[Process]:
        """The processes that it is."""
        return [self]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until it is ready."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start, without waiting."""
        self.ready_file.unlink(missing_ok=True)
        settings = {**self.settings, **self._port_settings()}
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        arguments = [*self._arguments(), "--ready-file", str(self.ready_file), *flags]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT__")}
        self._started = time.monotonic()
        self._process = launch(arguments, environment, self._log, self.tree)

    def wait_ready(self) -> None:
        """Wait until what was begun is ready."""
        assert self._process is not None
        while not self.ready_file.exists():
            if self._process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self._process.returncode}:\n{self.log_text()}")
            if time.monotonic() - self._started > START_SECONDS:
                raise AssertionError(f"{self.name} is not ready:\n{self.log_text()}")
            time.sleep(0.01)
        self.ready_seconds = time.monotonic() - self._started
        self.ports = json.loads(self.ready_file.read_bytes())

    def _port_settings(self) -> dict[str, str]:
        """A port of its own for every listener that is to have a free one."""
        doors = (*self.doors, "broker") if self.settings.get("broker.enabled") == "true" else self.doors
        asked = {f"{door}.port": "0" for door in doors} | self.settings
        free = [key for key, value in asked.items() if key.endswith("port") and value == "0"]
        return {key: str(self._reserved[key].number) for key in free}

    def reserve(self, door: str) -> int:
        """The port that a door will have."""
        return self._reserved[f"{door}.port"].number

    def restart(self) -> None:
        """Start again on the same ports and data."""
        self.start()

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal_kill()
        if self._process is not None:
            self._process.wait(STOP_SECONDS)

    def signal_kill(self) -> None:
        """SIGKILL, without waiting."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(measured.KILL)

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for the end; the exit code."""
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        self.terminate()
        return self.wait()

    def port(self, door: str) -> int:
        """The port of a door."""
        return int(self.ports[door].rpartition(":")[2])

    def address(self, door: str) -> str:
        """Where a door is, once it has been started."""
        return self.ports[door]

    def resident_bytes(self) -> int:
        """Memory that the process holds, without the pages of mapped files."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon")

    def open_sockets(self) -> int:
        """File descriptors that are sockets: the connections and a few of its own."""
        found = 0
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found += entry.readlink().name.startswith("socket:")
            except FileNotFoundError:
                continue  # closed meanwhile
        return found

    def log_text(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class ServerProcess(Process):
    """`entrepot serve`: doors and a store in one process."""

    doors = ("mqtt", "amqp", "grpc", "http")

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self.data_dir = directory / "data"

    @property
    def setup_token(self) -> str:
        """What defining the first user takes."""
        return (self.data_dir / "setup-token").read_text().strip()

    def _arguments(self) -> list[str]:
        return ["serve", "--data-dir", str(self.data_dir)]


class WorkersProcess(ServerProcess):
    """`entrepot serve --workers`: gateways that share the ports, before a process that has the store."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, workers: int = 2) -> None:
        super().__init__(directory, settings)
        self.workers = workers

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--workers", str(self.workers)]

    def signal_kill(self) -> None:
        """SIGKILL to all of them at once; what is to be killed by itself is killed by its process id."""
        parts = self.parts() if self.is_running else []
        super().signal_kill()
        for pid in parts:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, measured.KILL)

    def parts(self) -> list[int]:
        """Process ids of the store and the gateways."""
        return children_of(self.pid)

    def store_pid(self) -> int:
        """Of the one that has a process for syncing."""
        (found,) = (pid for pid in self.parts() if children_of(pid))
        return found

    def gateway_pids(self) -> set[int]:
        """Of the others."""
        return {pid for pid in self.parts() if not children_of(pid)}


def children_of(pid: int) -> list[int]:
    """Process ids of children that live."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in found if is_alive(int(child))]


def is_alive(pid: int) -> bool:
    """True for a process that is there, and not merely unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def connections_at(pid: int, port: int) -> int:
    """Return the number of clients that a process has at a port."""
    found = psutil.Process(pid).net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)
