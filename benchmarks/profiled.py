"""`python -m benchmarks.profiled mqtt`: where the CPU time of a server's event loop goes under one workload.

The server is a child that runs under cProfile, while the load runs.  cProfile makes each call dearer: compare functions
with each other, not with figures of the benchmarks.  It sees the thread of the event loop alone: other threads and
processes, such as that which syncs the log, are not in it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from benchmarks.amqp import W8, W8_ENDS
from benchmarks.http import PATH, W11
from benchmarks.mqtt_workloads import chosen
from benchmarks.processes import ROOT, BenchmarkError, Server, build_gwload, gwload, raise_file_limit, running
from benchmarks.remote import FAN_IN, broker
from entrepot.gateway.cli.app import main as run_command

RESULTS: Final = ROOT / "benchmarks" / "profiles"
ROWS: Final = 40
"""Functions of each table in the file."""
SHOWN: Final = 15
"""Functions that are printed."""
BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
_FOR_SECONDS: Final = ("--duration", "5")


@dataclass(frozen=True, slots=True)
class Work:
    """One workload: its listener, and the arguments of gwload.  `has_broker`: the store is in a process of its own, and
    the gateway before it is looked at."""

    door: str
    arguments: tuple[str, ...]
    has_broker: bool = False


WORKS: Final = {
    "mqtt": Work("mqtt", (*chosen("W2")[0].arguments, *_FOR_SECONDS)),
    "amqp": Work("amqp", (*W8, *W8_ENDS, *_FOR_SECONDS)),
    "http": Work("http", (*W11, "--path", PATH, "--topics", "1", "--warmup", "2000", *_FOR_SECONDS)),
    "remote": Work("mqtt", (*FAN_IN, "--window", "20", *_FOR_SECONDS), has_broker=True),
}


def main(arguments: list[str] | None = None) -> int:
    """Profile one workload; return the exit code."""
    parser = argparse.ArgumentParser(prog="make profile", usage="make profile WORK=mqtt", description=__doc__)
    parser.add_argument("work", choices=WORKS, metavar=f"WORK={'|'.join(WORKS)}")
    name: str = parser.parse_args(arguments).work
    raise_file_limit()
    try:
        build_gwload()
        print(profiled(name, RESULTS))
    except BenchmarkError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def profiled(name: str, folder: Path) -> str:
    """Run a workload, write its tables and its `.pstats`; return what to print.  Raises BenchmarkError."""
    work = WORKS[name]
    folder.mkdir(parents=True, exist_ok=True)
    data, tables = folder / f"{name}.pstats", folder / f"{name}.txt"
    data.unlink(missing_ok=True)
    with _server(work, data) as server:
        server.process.send_signal(BEGIN)
        figures = gwload(server, work.door, *work.arguments)
        server.process.send_signal(END)
    if not data.exists():
        raise BenchmarkError("the server has written no profile")
    rates = ", ".join(f"{figures[key]:,.0f} {key}" for key in ("pub_rate", "del_rate") if figures.get(key))
    tables.write_text(f"{rates}, with the profiler\n{table(data, 'tottime', ROWS)}{table(data, 'cumulative', ROWS)}")
    return (
        f"{table(data, 'tottime', SHOWN)}{rates}, with the profiler\n"
        f"{_shown(tables)}: {ROWS} functions by their own time, and with all that they call\n"
        f"{_shown(data)}: for .venv/bin/python -m pstats"
    )


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def table(data: Path, order: str, rows: int) -> str:
    """The functions that took longest, with paths from the project's root."""
    text = StringIO()
    pstats.Stats(str(data), stream=text).sort_stats(order).print_stats(rows)
    _, _, found = text.getvalue().partition("\n\n")
    return found.replace(f"{ROOT}/entrepot/", "").replace(f"{ROOT}/", "")


@contextmanager
def _server(work: Work, data: Path) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="entrepot-profile-") as directory:
        ready = Path(directory) / "ready.json"
        command = [sys.executable, "-m", "benchmarks.profiled", "--serve", str(data)]
        ends = ["--free-ports", "--ready-file", str(ready), "--set", "log.level=warning"]
        if not work.has_broker:
            with running("entrepot", [*command, "serve", "--data-dir", f"{directory}/data", *ends], ready) as server:
                yield server
            return
        with broker() as store:
            where = f"127.0.0.1:{store.ports['broker']}"
            with running("a gateway", [*command, "gateway", "--broker", where, *ends], ready) as server:
                yield server


def serve(data: Path, arguments: list[str]) -> None:
    """Be the server, under a profiler between two signals."""
    profiler = cProfile.Profile()
    signal.signal(BEGIN, lambda *_: profiler.enable())
    signal.signal(END, lambda *_: profiler.disable())
    sys.argv[1:] = arguments
    try:
        run_command()
    finally:
        profiler.disable()
        profiler.dump_stats(data)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
