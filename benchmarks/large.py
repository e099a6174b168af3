"""Very much of one thing at once, each at a server of its own: what it costs, and how long others wait meanwhile.

50,000 connections over two gateways, a million sessions that are away, a million retained messages, 10,000 AMQP queues
with 100,000 bindings, a log of 10 GB, a backlog of 5,000,000 in one group.  Data come from `large_data`.  It takes some
twenty minutes and 15 GB of disk; a quick run has a hundredth of each.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from benchmarks import large_data
from benchmarks.growth_kept import (
    BINDINGS_OF_A_QUEUE,
    CALLS,
    add_beside,
    queues,
    request,
    retained,
    sessions,
    started,
)
from benchmarks.growth_server import Add, get, rest
from benchmarks.processes import (
    ENTREPOT,
    ROOT,
    BenchmarkError,
    Server,
    children,
    cpu_seconds,
    own_resident_bytes,
    running,
)
from benchmarks.report import Goal, Report
from benchmarks.store_parts import GROUP, TOPIC, consume_all, timed

CONNECTIONS, LOG_BYTES, BACKLOG = 50_000, 10 << 30, 5_000_000
KEPT: Final = (
    (sessions, 1_000_000, "sessions away"),
    (retained, 1_000_000 - CALLS, "retained messages"),
    (queues, 10_000, f"AMQP queues with {BINDINGS_OF_A_QUEUE} bindings"),
)
WORKERS: Final = 2
"""Processes of each gateway: a process may have as many files open as the system allows, often 20,000."""
CROWDS: Final = 2
"""Clients of each gateway, with an address of this machine each."""


def run(console: Console, *, quick: bool) -> Report:
    """Run all parts, one after the other."""
    report = Report("large", "Very much of one thing at once")
    share = 100 if quick else 1
    parts = [(_connections, CONNECTIONS), (_log, LOG_BYTES), (_backlog, BACKLOG)]
    for part, count in parts:
        console.print(part.__name__.strip("_"), style="dim")
        with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
            part(report, Path(directory) / "data", count // share)
    for kept, count, words in KEPT:
        console.print(words, style="dim")
        with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
            kept(_add_to(report, f"{count // share:,} {words}"), Path(directory) / "data", count // share)
    report.notes.append("CPU and memory of a server with all its processes; PUBACK: the longest of a publisher beside")
    return report


def _add_to(report: Report, of: str) -> Add:
    def add(what: str, unit: str, value: float, *, is_each: bool = False) -> None:
        report.add(f"{of}: {what}", unit, value)

    return add


# -- connections ---------------------------------------------------------------------------------------------------


def _connections(report: Report, data: Path, count: int) -> None:
    what = f"{count:,} MQTT connections over two gateways"
    with ExitStack() as stack:
        arguments: tuple[str, ...] = ("broker", "--data-dir", str(data), "--name", "b", "--port", "0")
        broker = stack.enter_context(_process(data, "broker", *arguments))
        where = f"127.0.0.1:{broker.ports['broker']}"
        arguments = ("gateway", "--workers", str(WORKERS), "--free-ports", "--broker", where)
        gateways = [stack.enter_context(_process(data, f"gateway-{n}", *arguments)) for n in range(2)]
        before = [_memory(each) for each in gateways], sum(cpu_seconds(each.pid) for each in gateways)
        begun = time.perf_counter()
        crowds = [
            stack.enter_context(_crowd(gateways[n % 2], count // (2 * CROWDS), f"127.0.1.{n + 1}"))
            for n in range(2 * CROWDS)
        ]
        for crowd in crowds:
            assert crowd.stdout is not None
            if crowd.stdout.readline() != "there\n":
                raise BenchmarkError("a connection was refused")
        report.add(f"{what}: until all are there", "s", time.perf_counter() - begun)
        grown = sum(_memory(each) for each in gateways) - sum(before[0])
        report.add(f"{what}: memory of each", "KiB", grown / count / 1024)
        cpu = sum(cpu_seconds(each.pid) for each in gateways) - before[1]
        report.add(f"{what}: CPU of one connect", "us", cpu / count * 1e6)
        report.add(f"{what}: CPU at rest", "% of a core", 100 * sum(rest(each) for each in gateways))
        add = _add_to(report, what)
        add_beside(add, "a scrape", gateways[0], lambda: get(gateways[0], "/metrics"))
        add_beside(add, "the overview", gateways[0], lambda: get(gateways[0], "/api/v1/overview"))
        left = [int(crowd.communicate("")[0]) for crowd in crowds]
        report.add(f"{what}: still there at the end", "", sum(left), goal=Goal(count))


@contextmanager
def _process(data: Path, name: str, *arguments: str) -> Iterator[Server]:
    ready = data.parent / f"{name}.json"
    with running(name, [*ENTREPOT, *arguments, "--ready-file", str(ready), "--set", "log.level=warning"], ready) as one:
        yield one


@contextmanager
def _crowd(server: Server, count: int, source: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.large_clients", str(server.ports["mqtt"]), str(count), source]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
        try:
            yield crowd
        finally:
            crowd.kill()


def _memory(server: Server) -> int:
    return own_resident_bytes(server.pid) + sum(map(own_resident_bytes, children(server.pid)))


# -- the store -----------------------------------------------------------------------------------------------------


def _log(report: Report, data: Path, size: int) -> None:
    count = size // len(large_data.LARGE_BODY)
    what = f"a log of {size / (1 << 30):,.3g} GiB"
    begun = time.perf_counter()
    uvloop.run(large_data.messages(data, count, large_data.LARGE_BODY))
    report.add(f"{what}: written", "MB/s", size / 1e6 / (time.perf_counter() - begun))
    add = _add_to(report, what)
    with started(add, data) as server:
        add_beside(add, "100 receives", server, lambda: _receive(server, CALLS))
        add_beside(add, "a scrape", server, lambda: get(server, "/metrics"))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        (data.parent / "ready.json").unlink()
    with started(_add_to(report, f"{what}, after SIGKILL"), data):
        pass
    begun = time.perf_counter()
    command = [*ENTREPOT, "store", "verify", "--data-dir", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report.add(f"{what}: entrepot store verify", "s", time.perf_counter() - begun)
    if done.returncode:
        raise BenchmarkError(f"store verify: {done.stdout}{done.stderr}")


def _receive(server: Server, times: int) -> None:
    """Receive one message after the other, and acknowledge each."""
    path = f"/topics/{TOPIC}/eventsubscriptions/{GROUP}"
    for _ in range(times):
        [found] = json.loads(request(server, f"{path}:receive?maxEvents=1&maxWaitTime=0", {}))["value"]
        done = request(server, f"{path}:acknowledge", {"lockTokens": [found["brokerProperties"]["lockToken"]]})
        assert not json.loads(done)["failedLockTokens"]


def _backlog(report: Report, data: Path, count: int) -> None:
    what = f"a backlog of {count:,} in one group"
    begun = time.perf_counter()
    uvloop.run(large_data.messages(data, count, b"x" * 100))
    report.add(f"{what}: written", "msg/s", count / (time.perf_counter() - begun))
    add = _add_to(report, what)
    with started(add, data) as server:
        add_beside(add, "100 receives", server, lambda: _receive(server, CALLS))
        add_beside(add, "its status", server, lambda: get(server, f"/api/v1/groups/{GROUP}"))
        add_beside(add, "the overview", server, lambda: get(server, "/api/v1/overview"))
    uvloop.run(_consumed(report, what, data, count - CALLS))


async def _consumed(report: Report, what: str, data: Path, count: int) -> None:
    async with large_data.opened(data) as broker:
        cpu, wall = await timed(lambda: consume_all(broker, count))
        report.add(f"{what}: popped and acknowledged", "msg/s", count / wall)
        report.add(f"{what}: popped and acknowledged", "msg/CPU-s", count / cpu)
        found = await broker.topology.group_status(GROUP)
        left = sum(each.lag for each in found.progress)
        report.add(f"{what}: left at the end", "", left, goal=Goal(0, at_most=True))
