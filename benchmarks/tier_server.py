"""Publishing to a server whose topic has a tier, beside one without: the server's CPU, the uploader's apart."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import httpx2
from rich.console import Console

from benchmarks.mqtt_workloads import FAN_IN, WINDOW_20
from benchmarks.processes import BenchmarkError, Server, children, cpu_seconds, entrepot, gwload, own_cpu_seconds
from benchmarks.report import Goal, Report
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.table import TopicTable
from entrepot.gateway.clock import SystemClock

TOPIC: Final = "bench"
"""Topic of gwload's MQTT names."""
PAIRS: Final = 10
WARM: Final = 5_000
AGE_SECONDS: Final = 2.0
"""Age of uploaded messages: a run has several uploads."""
WAIT_SECONDS: Final = 120
REST_SECONDS: Final = 1.0
REST_CPU_SECONDS: Final = 0.03
"""Most CPU-seconds of a server at rest, in that time."""


class Spent(NamedTuple):
    """CPU-seconds of a run: those of the server alone, and of its uploader."""

    server: float
    uploader: float


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it, in turns with a tier and without."""
    console.print("publishing, with a tier and without", style="dim")
    report = Report("tier_server", "Publishing to a server with a tier", "without")
    count, pairs = (100_000, 1) if quick else (500_000, PAIRS)
    taken: dict[bool, list[Spent]] = {True: [], False: []}
    for number in range(pairs):
        for has_tier in (True, False) if number % 2 else (False, True):
            taken[has_tier].append(_run(count, has_tier=has_tier))
        with_tier, without = taken[True][-1], taken[False][-1]
        told = f"{count / with_tier.server:,.0f} and {count / without.server:,.0f} messages a CPU-second"
        console.print(f"  pair {number + 1}: {told}", style="dim")
    rates = {has_tier: statistics.median(count / each.server for each in found) for has_tier, found in taken.items()}
    what = "publishing with a tier, beside without, of the server alone"
    report.add(what, "msg/CPU-s", rates[True], rates[False], judged="ratio", goal=Goal(0.9))
    best = {has_tier: max(count / each.server for each in found) for has_tier, found in taken.items()}
    report.add("the same of the best run of each", "msg/CPU-s", best[True], best[False], judged="ratio", goal=Goal(0.9))
    uploader = statistics.median(count / each.uploader for each in taken[True])
    report.add("of it the uploader's process", "msg/CPU-s", uploader)
    both = statistics.median(count / (each.server + each.uploader) for each in taken[True])
    report.add("publishing with a tier, beside without, with the uploader", "msg/CPU-s", both, rates[False])
    ratios = [theirs.server / ours.server for ours, theirs in zip(taken[True], taken[False], strict=True)]
    told = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    report.notes.append(f"publishing: medians of {pairs} pairs of {count:,} over MQTT at QoS 1; their ratios: {told}")
    return report


def _run(count: int, *, has_tier: bool) -> Spent:
    """Publish to a new server, until the table has all; waiting for it counts, too."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        cold = Path(directory) / "cold"
        flags = ("--set", f"tier.url={cold.as_uri()}", "--set", f"tier.max_age_seconds={AGE_SECONDS:g}")
        with entrepot(*(flags if has_tier else ())) as server:
            url = f"http://127.0.0.1:{server.ports['http']}/api/v1/topics/{TOPIC}"
            httpx2.put(url, json={"tierSeconds": 10**9} if has_tier else {}).raise_for_status()
            _publish(server, WARM)
            if has_tier:
                _wait_for(cold, WARM)
            _settle(server)
            before = _spent(server)
            _publish(server, count)
            if has_tier:
                _wait_for(cold, WARM + count)
            after = _spent(server)
    return Spent(after.server - before.server, after.uploader - before.uploader)


def _settle(server: Server) -> None:
    """Return when the server is at rest: its first upload loads what reads tables: not a cost of publishing."""
    spent = -1.0
    while (now := own_cpu_seconds(server.pid)) > spent + REST_CPU_SECONDS:
        spent = now
        time.sleep(REST_SECONDS)


def _publish(server: Server, count: int) -> None:
    gwload(server, "mqtt", *FAN_IN, *WINDOW_20, "--qos", "1", "--count", str(count))


def _wait_for(cold: Path, count: int) -> None:
    """Return when the topic's table has so many messages."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := _uploaded(cold)) < count:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{found:,} of {count:,} messages were uploaded in {WAIT_SECONDS} s")
        time.sleep(0.1)


def _uploaded(cold: Path) -> int:
    logs = list(cold.glob(f"{TOPIC}/*/_delta_log"))
    if not logs:
        return 0
    [log] = logs
    table = TopicTable(FolderStore(cold), str(log.parent.relative_to(cold)), SystemClock(), random.Random(1))
    return sum(table.progress(queue) or 0 for queue in table.progressing()) if table.open() else 0


def _spent(server: Server) -> Spent:
    return Spent(own_cpu_seconds(server.pid), sum(map(cpu_seconds, children(server.pid))))
