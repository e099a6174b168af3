"""The MQTT listener beside Debian's mosquitto, with gwload: the workloads of `mqtt_workloads`.

Both servers take turns in one run, each round with a new one and an empty store. Ours has every message on the disk
before its PUBACK and its delivery; mosquitto keeps it in memory, and only for subscribers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console

from benchmarks.mqtt_workloads import Workload, chosen
from benchmarks.processes import BenchmarkError, Server, entrepot, gwload, mosquitto, mosquitto_path
from benchmarks.report import Report

ROUNDS = 3
Figures = dict[str, Any]


def run(console: Console, *, quick: bool, only: str | None = None) -> Report:
    """Run all of it in some ten minutes; quick: one round of each. `only` is a prefix of workloads' names."""
    rounds = 1 if quick else ROUNDS
    report = Report("mqtt", "MQTT: durable before the PUBACK, beside mosquitto in memory", "mosquitto")
    has_peer = mosquitto_path() is not None
    if not has_peer:
        report.notes.append("mosquitto is not installed (make peers): no ratios")
    workloads = chosen(only)
    if not workloads:
        raise BenchmarkError(f"no workload is called {only}")
    for workload in workloads:
        console.print(workload.name, style="dim")
        ours, theirs = _rounds(report, workload, rounds, quick=quick, has_peer=has_peer)
        _compare(report, workload, ours, theirs)
    report.notes.append(f"medians of {rounds}, rounds alternating; the load generator shares the cores with the server")
    return report


def _rounds(
    report: Report, workload: Workload, rounds: int, *, quick: bool, has_peer: bool
) -> tuple[list[Figures], list[Figures]]:
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for _ in range(rounds):
        _measure(report, workload, entrepot, ours, quick=quick)
        if has_peer:
            _measure(report, workload, mosquitto, theirs, quick=quick)
    return ours, theirs


def _measure(
    report: Report,
    workload: Workload,
    server: Callable[[], AbstractContextManager[Server]],
    figures: list[Figures],
    *,
    quick: bool,
) -> None:
    """Run once against a new server. A failed run is in the notes, and has no figures."""
    with server() as running:
        try:
            command = workload.command(quick=quick)
            if workload.probe:
                probed = gwload(running, "mqtt", *workload.probe_command())
                command = workload.sized_command(probed, quick=quick)
            found = gwload(running, "mqtt", *command)
        except BenchmarkError as error:
            report.notes.append(f"{workload.name} failed: {str(error)[:240]}")
            return
    if found.get("lost"):
        report.notes.append(f"{workload.name}: {running.name} lost {found['lost']:,.0f} of {found['expected']:,.0f}")
    figures.append(found)


def _compare(report: Report, workload: Workload, ours: list[Figures], theirs: list[Figures]) -> None:
    for figure in workload.figures:
        report.add(
            f"{workload.name}: {figure.what}",
            figure.unit,
            _median(ours, figure.key, figure.divisor),
            _median(theirs, figure.key, figure.divisor),
            judged=figure.judged,
            goal=figure.goal,
        )


def _median(figures: list[Figures], name: str, divisor: float) -> float | None:
    values = [found[name] for found in figures if found.get(name) is not None]
    return statistics.median(values) / divisor if values else None
