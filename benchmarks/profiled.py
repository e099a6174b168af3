"""`python -m benchmarks.profiled mqtt`: where the CPU time of a server's event loop goes under one workload.

`engine` is a gateway in front of RocketMQ, with `--only` under one of that benchmark's workloads.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final

from benchmarks.amqp import W8, W8_ENDS
from benchmarks.engine_places import before_broker, before_rocketmq, rocketmq
from benchmarks.engine_work import WORKLOADS
from benchmarks.http import PATH, W11
from benchmarks.mqtt_workloads import chosen
from benchmarks.processes import ROOT, BenchmarkError, Server, build_gwload, gwload, raise_file_limit, running
from benchmarks.remote import FAN_IN
from entrepot.gateway.cli.app import main as run_command

RESULTS: Final = ROOT / "benchmarks" / "profiles"
ROWS: Final = 40
"""Functions of each table in the file."""
SHOWN: Final = 15
"""Functions that are printed."""
BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
SECONDS: Final = 5.0
_FOR_SECONDS: Final = ("--duration", f"{SECONDS:g}")


@dataclass(frozen=True, slots=True)
class Work:
    """One workload: its listener, and the arguments of gwload.  `before`: the store is in processes of its own,
    "broker" or "rocketmq", and the gateway before it is looked at."""

    door: str
    arguments: tuple[str, ...]
    before: str = ""


WORKS: Final = {
    "mqtt": Work("mqtt", (*chosen("W2")[0].arguments, *_FOR_SECONDS)),
    "amqp": Work("amqp", (*W8, *W8_ENDS, *_FOR_SECONDS)),
    "http": Work("http", (*W11, "--path", PATH, "--topics", "1", "--warmup", "2000", *_FOR_SECONDS)),
    "remote": Work("mqtt", (*FAN_IN, "--window", "20", *_FOR_SECONDS), before="broker"),
    "engine": Work("mqtt", (*FAN_IN, "--window", "20", *_FOR_SECONDS), before="rocketmq"),
}
ONLY: Final = {each.name: each for each in WORKLOADS}


def main(arguments: list[str] | None = None) -> int:
    """Profile one workload; return the exit code."""
    parser = argparse.ArgumentParser(prog="make profile", usage="make profile WORK=mqtt", description=__doc__)
    parser.add_argument("work", choices=WORKS, metavar=f"WORK={'|'.join(WORKS)}")
    parser.add_argument("--only", choices=ONLY, help=f"engine: one of its workloads, {', '.join(ONLY)}")
    asked = parser.parse_args(arguments)
    name: str = asked.work
    if asked.only and name != "engine":
        parser.error("--only is of engine's workloads")
    raise_file_limit()
    try:
        build_gwload()
        print(profiled(name, RESULTS, asked.only))
    except BenchmarkError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


def profiled(name: str, folder: Path, only: str | None = None) -> str:
    """Run a workload, or one of engine's in its place, write its tables and its `.pstats`; return what to print.
    Raises BenchmarkError."""
    work = WORKS[name]
    folder.mkdir(parents=True, exist_ok=True)
    data, tables = folder / f"{name}.pstats", folder / f"{name}.txt"
    data.unlink(missing_ok=True)
    with _server(work, data) as server:
        server.process.send_signal(BEGIN)
        figures = _figures(server, work, only)
        server.process.send_signal(END)
    if not data.exists():
        raise BenchmarkError("the server has written no profile")
    rates = ", ".join(f"{figures[key]:,.0f} {key}" for key in ("rate", "pub_rate", "del_rate") if figures.get(key))
    tables.write_text(f"{rates}, with the profiler\n{table(data, 'tottime', ROWS)}{table(data, 'cumulative', ROWS)}")
    return (
        f"{table(data, 'tottime', SHOWN)}{rates}, with the profiler\n"
        f"{_shown(tables)}: {ROWS} functions by their own time, and with all that they call\n"
        f"{_shown(data)}: for .venv/bin/python -m pstats"
    )


def _figures(server: Server, work: Work, only: str | None) -> dict[str, Any]:
    if only is None:
        return gwload(server, work.door, *work.arguments)
    return asdict(ONLY[only].run(server, SECONDS, f"profiled-{only}"))


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
    command = [sys.executable, "-m", "benchmarks.profiled", "--serve", str(data)]
    if work.before == "rocketmq":
        with rocketmq("ASYNC_FLUSH") as cluster, before_rocketmq(cluster, command) as server:
            yield server
    elif work.before == "broker":
        with before_broker(command) as server:
            yield server
    else:
        with _alone(command) as server:
            yield server


@contextmanager
def _alone(command: Sequence[str]) -> Iterator[Server]:
    """A server with its store in its own process."""
    with tempfile.TemporaryDirectory(prefix="entrepot-profile-") as directory:
        ready = Path(directory) / "ready.json"
        ends = ["--free-ports", "--ready-file", str(ready), "--set", "log.level=warning"]
        with running("entrepot", [*command, "serve", "--data-dir", f"{directory}/data", *ends], ready) as server:
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
