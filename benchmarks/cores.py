"""More than one core: one and two gateways before one store process, and the CPU of each.

The store, its process for syncing, the gateways and the load generator share the cores of the machine, so the figures
are messages per CPU-second of each alone. The store's figure is the limit for more gateways: at so many messages per
second its one core is busy.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.amqp import W8, W8_ENDS
from benchmarks.mqtt_workloads import WORKLOADS
from benchmarks.processes import ENTREPOT, Server, children, entrepot, gwload, own_cpu_seconds, running
from benchmarks.report import Goal, Report

ROUNDS: Final = 3
STORE_GOAL: Final = Goal(250_000)
"""Messages that the store's process is to append per second of its CPU."""
_SCRIPT: Final = """\
import json, sys
from entrepot.gateway.serving import run_around_store
from entrepot.gateway.settings import load_settings
sys.exit(run_around_store(load_settings(flags=json.loads(sys.argv[1]))))
"""
"""A store and a gateway, since `serve --workers` with one gateway is one process."""


@dataclass(frozen=True, slots=True)
class Load:
    """One workload of gwload; `counted` and `rate` are its figures for the messages, all of them and per second."""

    what: str
    door: str
    arguments: tuple[str, ...]
    counted: str
    rate: str
    goal: Goal | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Processes of a server by role."""

    store: int
    sync: int
    gateways: tuple[int, ...]

    def cpu(self) -> tuple[float, ...]:
        """CPU-seconds of each so far, in this order."""
        return tuple(own_cpu_seconds(pid) for pid in (self.store, self.sync, *self.gateways))


Figures = dict[str, float]


def _mqtt(name: str) -> tuple[str, ...]:
    return next(each.command(quick=False) for each in WORKLOADS if each.name == name)


LOADS: Final = (
    Load("W1: MQTT QoS 1 fan-in", "mqtt", _mqtt("W1"), "acked", "pub_rate", STORE_GOAL),
    Load("W2: the same to a shared subscription of 4", "mqtt", _mqtt("W2"), "received", "del_rate"),
    Load("W8: AMQP publish, consume, ack", "amqp", (*W8, *W8_ENDS, "--duration", "3"), "received", "del_rate"),
)


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in three minutes; quick: one round of each."""
    rounds = 1 if quick else ROUNDS
    report = Report("cores", "More than one core: gateways before one store process", "in one process")
    for load in LOADS:
        console.print(load.what, style="dim")
        found: dict[int, list[Figures]] = {0: [], 1: [], 2: []}
        for _ in range(rounds):
            for gateways, figures in found.items():
                figures.append(_measured(load, gateways))
        for gateways in (1, 2):
            _tell(report, load, gateways, found)
    report.notes.append(f"medians of {rounds}, rounds alternating; the load generator shares the cores with the server")
    report.notes.append("msg/CPU-s: all messages of a run by the CPU of that process alone")
    return report


def _tell(report: Report, load: Load, gateways: int, found: dict[int, list[Figures]]) -> None:
    def median(name: str, of: int = gateways) -> float:
        return statistics.median(each[name] for each in found[of])

    named = f"{load.what}, {gateways} gateway{'s' if gateways > 1 else ''}"
    report.add(named, "msg/s", median("rate"), median("rate", 0))
    report.add(f"{named}: all of it", "msg/CPU-s", median("all"), median("all", 0))
    report.add(f"{named}: the store", "msg/CPU-s", median("store"), goal=load.goal)
    report.add(f"{named}: its process for syncing", "msg/CPU-s", median("sync"))
    for number in range(1, gateways + 1):
        report.add(f"{named}: gateway {number}", "msg/CPU-s", median(f"gateway {number}"))
    report.add(f"{named}: load generator", "msg/CPU-s", median("generator"), median("generator", 0))


def _measured(load: Load, gateways: int) -> Figures:
    """Run once against a new server; without gateways it is one process."""
    if not gateways:
        with entrepot() as server:
            return _figures(load, gwload(server, load.door, *load.arguments))
    with _around_store(gateways) as server:
        parts = _parts(server)
        before = parts.cpu()
        found = gwload(server, load.door, *load.arguments)
        used = [now - was for now, was in zip(parts.cpu(), before, strict=True)]
    figures, messages = _figures(load, found), float(found[load.counted])
    # The two looks include the beginning and the end of the run: gwload's own figure is divided in the same shares.
    share = float(found["broker_cpu_s"]) / max(sum(used), 0.01)
    names = ("store", "sync", *(f"gateway {number}" for number in range(1, gateways + 1)))
    figures.update((name, messages / max(cpu * share, 0.01)) for name, cpu in zip(names, used, strict=True))
    return figures


def _figures(load: Load, found: dict[str, Any]) -> Figures:
    messages = float(found[load.counted])
    return {
        "rate": float(found[load.rate]),
        "all": messages / max(float(found["broker_cpu_s"]), 0.01),
        "generator": messages / max(float(found["gen_cpu_s"]), 0.01),
    }


def _parts(server: Server) -> Parts:
    found = {pid: children(pid) for pid in children(server.pid)}
    ((store, (sync,)),) = ((pid, below) for pid, below in found.items() if below)
    return Parts(store, sync, tuple(pid for pid, below in found.items() if not below))


@contextmanager
def _around_store(gateways: int) -> Iterator[Server]:
    """A store process with `gateways` before it, on free ports."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        ready = Path(directory) / "ready.json"
        flags = {
            "cluster.workers": gateways,
            "server.free_ports": True,
            "server.ready_file": str(ready),
            "store.data_dir": f"{directory}/data",
            "log.level": "warning",
        }
        command = [ENTREPOT[0], "-c", _SCRIPT, json.dumps(flags)]
        with running(f"{gateways} before a store", command, ready) as server:
            yield server
