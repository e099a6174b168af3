"""Authentication: the wire with a secret of the cluster beside the wire without one. Both take turns in one run."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Final

import structlog
import uvloop
from rich.console import Console

from benchmarks.failover import gaps
from benchmarks.processes import Server
from benchmarks.remote import broker, remote_figures
from benchmarks.report import Goal, Report
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust

SECRET: Final = ClusterTrust(secret="the secret of this benchmark")
CONNECTIONS: Final = 200


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in five minutes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    rounds, messages = (1, 50_000) if quick else (7, 300_000)
    report = Report("authentication", "The wire with a secret beside without one", "without")
    found: dict[ClusterTrust, list[dict[str, float]]] = {SECRET: [], NO_TRUST: []}
    for number in range(rounds):
        console.print(f"append and pop, round {number + 1} of {rounds}", style="dim")
        for trust in (SECRET, NO_TRUST) if number % 2 else (NO_TRUST, SECRET):
            with broker(trust.secret) as server:
                figures = uvloop.run(remote_figures(server, messages, trust))
                figures["connected"] = uvloop.run(_connected(server, trust))
            found[trust].append(figures)
    for name in ("append", "pop"):
        ours, theirs = (messages / _median(found[trust], f"{name}_cpu") for trust in (SECRET, NO_TRUST))
        report.add(name, "msg/CPU-s", ours, theirs, judged="ratio", goal=Goal(0.97))
    for name, what in (("trip", "round trip, p50"), ("connected", "until a connection is up, p50")):
        report.add(what, "ms", *(_median(found[trust], name) for trust in (SECRET, NO_TRUST)))
    _add_failovers(report, console, quick=quick)
    report.notes.append(f"medians of {rounds}; ours: both ends have proved that they know the secret")
    return report


def _add_failovers(report: Report, console: Console, *, quick: bool) -> None:
    """Add the time without confirms after kills of a master; both sides take turns."""
    turns, kills = (1, 2) if quick else (3, 5)
    found: dict[str, list[float]] = {SECRET.secret: [], "": []}
    for number in range(turns):
        console.print(f"failover, turn {number + 1} of {turns}", style="dim")
        for secret in found:
            found[secret] += gaps(kills, 0, secret)[0]
    ours, theirs = statistics.median(found[SECRET.secret]), statistics.median(found[""])
    what = "the master is killed: longest time between two confirms, median"
    report.add(what, "s", ours, theirs, judged="ratio", goal=Goal(1.03, at_most=True))
    report.notes.append(f"failover: in-sync, 3 replicas, 3 controllers, lease 1 s; {turns * kills} kills of each")


def _median(found: list[dict[str, float]], name: str) -> float:
    return statistics.median(each[name] for each in found)


async def _connected(server: Server, trust: ClusterTrust) -> float:
    """Median time from nothing to a connection that takes requests."""
    settings, taken = LinkSettings("benchmark", trust=WireTrust.of_client(trust)), []
    for _ in range(CONNECTIONS):
        begun = time.perf_counter()
        link = Link(f"127.0.0.1:{server.ports['broker']}", settings)
        link.start()
        assert await link.wait_up(5.0), link.problem
        taken.append((time.perf_counter() - begun) * 1000)
        await link.close()
        await asyncio.sleep(0)
    return statistics.median(taken)
