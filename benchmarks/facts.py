"""Writes of key-values to etcd that go together, beside one call each: `python -m benchmarks facts`.

It needs etcd (`make peers-etcd`).  Each writer counts in a key of its own, each step on condition of the one before, as
sessions are written.  Both ways take turns at the same etcd.  Client and members share the cores, so ratios say more
than the figures.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from benchmarks.processes import BenchmarkError, cpu_seconds
from benchmarks.report import Report
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd import EtcdKeyValues, EtcdSettings, open_etcd
from entrepot.store_client.etcd.combining import Ask
from tests.support.etcd.cluster import BUILT, VERSION, EtcdCluster

MEMBERS: Final = (1, 3)
WRITERS: Final = (1, 16, 256)
ROUNDS: Final = 5
SECONDS, QUICK_SECONDS = 3.0, 1.0
VALUE_BYTES: Final = 100
TOGETHER, APART = "together", "one call each"


class Uncombined:
    """Stands for `Combined`: each write is a call of its own, at once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.waiting = 0

    async def write(self, question: pb.TxnRequest, keys: Iterable[bytes]) -> pb.TxnResponse:
        """Ask for a write."""
        return await self._ask(question)

    def close(self) -> None:
        """There is nothing to end."""


@dataclass(slots=True)
class Figures:
    """Cost of one run: writes, seconds, and CPU-seconds of the client and of all members."""

    writes: int
    seconds: float
    client: float
    members: float

    @property
    def rate(self) -> float:
        return self.writes / self.seconds

    @property
    def client_us(self) -> float:
        return self.client / self.writes * 1e6

    @property
    def members_us(self) -> float:
        return self.members / self.writes * 1e6


@dataclass(slots=True)
class Sides:
    """The figures of both ways, and the load of the machine before each run."""

    found: dict[str, list[Figures]] = field(default_factory=lambda: {TOGETHER: [], APART: []})
    loads: list[float] = field(default_factory=list)

    def add_to(self, report: Report, what: str) -> None:
        """Add medians, and their ratios."""
        for name, unit in (
            ("rate", "writes/s"),
            ("client_us", "client's CPU, us/write"),
            ("members_us", "members' CPU, us/write"),
        ):
            ours, theirs = (statistics.median(getattr(each, name) for each in self.found[way]) for way in self.found)
            report.add(what, unit, ours, theirs)


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in some four minutes."""
    if not (BUILT / f".etcd-{VERSION}").exists():
        raise BenchmarkError(f"etcd {VERSION} is not built (make peers-etcd, with Go)")
    report = Report("facts", "Writes to etcd that go together, beside one call each", APART, own=TOGETHER)
    loads: list[float] = []
    for members in MEMBERS:
        what = f"{members} member{'s' * (members > 1)}"
        with (
            tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory,
            EtcdCluster(Path(directory), members) as cluster,
        ):
            for writers in WRITERS:
                console.print(f"{what}, {writers} writers", style="dim")
                sides = uvloop.run(_measured(cluster, writers, quick=quick))
                sides.add_to(report, f"{what}, {writers} at once")
                loads += sides.loads
    rounds, seconds = (1, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    report.notes.append(f"medians of {rounds} alternating rounds of {seconds:g} s; values of {VALUE_BYTES} B")
    report.notes.append(
        f"etcd {VERSION[1:]}, its members and the client on the same cores; ratios of CPU: less is better"
    )
    report.notes.append(
        f"load average before the rounds: {min(loads):.1f} to {max(loads):.1f}, this benchmark's included"
    )
    return report


async def _measured(cluster: EtcdCluster, writers: int, *, quick: bool) -> Sides:
    """Take turns, after one short round of both that does not count."""
    sides = Sides()
    stores = {way: await open_etcd(EtcdSettings(cluster.addresses, f"{way[0]}{writers}/")) for way in (TOGETHER, APART)}
    stores[APART]._combined = Uncombined(stores[APART]._ask_to_write)  # type: ignore[assignment]
    versions: dict[str, list[int]] = {way: [ABSENT] * writers for way in stores}
    try:
        for number in range(1 + (1 if quick else ROUNDS)):
            for way, store in stores.items() if number % 2 else reversed(stores.items()):
                sides.loads.append(os.getloadavg()[0])
                seconds = (QUICK_SECONDS if quick else SECONDS) if number else QUICK_SECONDS
                figures = await _round(cluster, store, versions[way], seconds)
                if number:
                    sides.found[way].append(figures)
    finally:
        for store in stores.values():
            await store.close()
    return sides


async def _round(cluster: EtcdCluster, store: EtcdKeyValues, versions: list[int], seconds: float) -> Figures:
    """All writers write for some time; `versions`: of their keys, kept for the next round."""
    pids = [member.pid for member in cluster.members]
    loop = asyncio.get_running_loop()
    before, own, begun = sum(map(cpu_seconds, pids)), time.process_time(), loop.time()
    counts = await asyncio.gather(*(_write(store, at, versions, begun + seconds) for at in range(len(versions))))
    taken = loop.time() - begun
    return Figures(sum(counts), taken, time.process_time() - own, sum(map(cpu_seconds, pids)) - before)


async def _write(store: EtcdKeyValues, at: int, versions: list[int], end: float) -> int:
    loop, count = asyncio.get_running_loop(), 0
    while loop.time() < end:
        value = count.to_bytes(VALUE_BYTES, "big")
        versions[at] = await store.write([KeyValueChange(f"counter/{at}", value, versions[at])])
        count += 1
    return count
