"""Starting, measuring and stopping of the compared processes: servers as children, and gwload."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
GWLOAD_SOURCE: Final = ROOT / "benchmarks" / "gwload"
ENTREPOT: Final = (sys.executable, "-c", "from entrepot.gateway.cli.app import main; main()")
START_SECONDS: Final = 20
FILES_WANTED: Final = 25_000
"""Descriptors for 10,000 connections of a client and of a server that is its child."""


class BenchmarkError(Exception):
    """A benchmark cannot go on, for the given reason."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, and the port of each listener."""

    name: str
    process: subprocess.Popen[bytes]
    ports: dict[str, int]

    @property
    def pid(self) -> int:
        return self.process.pid


def raise_file_limit() -> int:
    """Raise the limit of descriptors here and in children; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def build_gwload() -> Path:
    """Compile the load generator where it is missing or older than its source."""
    target = GWLOAD_SOURCE / "gwload"
    sources = [*GWLOAD_SOURCE.glob("*.c"), *GWLOAD_SOURCE.glob("*.h")]
    if target.exists() and target.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
        return target
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or shutil.which("make") is None:
        raise BenchmarkError("gwload is built with make and a C compiler, and they are not both here")
    built = subprocess.run(["make", "-s", f"CC={compiler}"], cwd=GWLOAD_SOURCE, capture_output=True, text=True)
    if built.returncode:
        raise BenchmarkError(f"gwload was not built: {built.stderr.strip()}")
    return target


def gwload(server: Server, door: str, *arguments: str, seconds: float = 120) -> dict[str, Any]:
    """Run the load generator against a server; return its figures. Raises on any loss or failure."""
    port = str(server.ports[door])
    command = [str(build_gwload()), "--pub-port", port, "--sub-port", port, "--pid", str(server.pid), "--json"]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{server.name}: gwload {' '.join(arguments)}: not done after {seconds:g} s") from None
    if done.returncode:
        raise BenchmarkError(f"{server.name}: gwload {' '.join(arguments)}: {done.stderr.strip() or done.stdout}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@contextmanager
def entrepot(*flags: str) -> Iterator[Server]:
    """Our server on free ports, with an empty store that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        ready = Path(directory) / "ready.json"
        command = [*ENTREPOT, "serve", "--free-ports", "--data-dir", f"{directory}/data", "--ready-file", str(ready)]
        command += ["--set", "log.level=warning", *flags]
        with running("entrepot", command, ready) as server:
            yield server


MOSQUITTO_CONFIGURATION: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
persistence false
"""


def mosquitto_path() -> str | None:
    """The path of Debian's mosquitto, or None."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@contextmanager
def mosquitto() -> Iterator[Server]:
    """Mosquitto without limits, in memory alone."""
    program = mosquitto_path()
    if program is None:
        raise BenchmarkError("mosquitto is not installed (make peers)")
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as configuration:
        configuration.write(MOSQUITTO_CONFIGURATION.format(port=port))
        configuration.flush()
        os.chmod(configuration.name, 0o644)  # mosquitto drops root's rights
        with running("mosquitto", [program, "-c", configuration.name], {"mqtt": port}) as server:
            yield server


@contextmanager
def bare_asgi() -> Iterator[Server]:
    """The least that uvicorn can serve, on the same event loop and parser as ours."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "benchmarks.bare_asgi:app", "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--log-level", "warning", "--no-access-log"]
    with running("empty ASGI app", command, {"http": port}) as server:
        yield server


@contextmanager
def running(name: str, command: Sequence[str], where: Path | dict[str, int]) -> Iterator[Server]:
    """A server for the length of a block; `where` has its ports, or is the ready file that will have them."""
    process = start(command)
    try:
        if isinstance(where, Path):
            wait_until(where.exists, process, name)
            where = ports_in(where)
        else:
            ports = where.values()
            wait_until(lambda: all(map(accepts, ports)), process, name)
        yield Server(name, process, where)
    finally:
        stop(process)


def ports_in(ready: Path) -> dict[str, int]:
    """The port of each listener in a ready file."""
    return {door: int(where.rpartition(":")[2]) for door, where in json.loads(ready.read_bytes()).items()}


def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child in the project's root; only its standard error is kept."""
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if Path(command[0]).name == "mosquitto" else None,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate it, and kill it if needed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(is_there: Any, process: subprocess.Popen[bytes], name: str, seconds: float = START_SECONDS) -> None:
    """Wait for a server to be up. Raises BenchmarkError when it ends instead or takes too long."""
    deadline = time.monotonic() + seconds
    while not is_there():
        if process.poll() is not None:
            raise BenchmarkError(f"{name} ended with code {process.returncode} instead of starting")
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{name} was not up after {seconds:g} s")
        time.sleep(0.02)


def accepts(port: int) -> bool:
    """True if the port accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu_seconds(pid: int, *, with_ended: bool = False) -> float:
    """CPU time of a process and all its children so far, as the kernel counts it; `with_ended`: of ended ones, too."""
    own = own_cpu_seconds(pid, with_ended=with_ended)
    return own + sum(cpu_seconds(child, with_ended=with_ended) for child in children(pid))


def own_cpu_seconds(pid: int, *, with_ended: bool = False) -> float:
    """CPU time of a process alone, or with its ended children; 0 where it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Process ids of children; none where it has gone."""
    try:
        tasks = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for task in tasks for child in task.split()]


def own_resident_bytes(pid: int) -> int:
    """Memory of a process alone that is in no file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError(f"process {pid} has no resident size")


def resident_bytes_here() -> int:
    """Memory of this process, with the files that it has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
