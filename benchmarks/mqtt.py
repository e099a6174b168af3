"""The MQTT door beside Debian's mosquitto, with gwload (the workloads' names are those of its WORKLOADS.md).

Messages per CPU-second of the server with its children is the figure to compare: it is steady on a busy machine.  Both
servers take turns in one run.  Ours has every message on the disk before its PUBACK; mosquitto keeps it in memory, and
is given an offline session so that it keeps it at all.
"""

from __future__ import annotations

import statistics
from typing import Any

from rich.console import Console

from benchmarks.processes import BenchmarkError, Server, entrepot, gwload, mosquitto, mosquitto_path
from benchmarks.report import Goal, Report

FAN_IN = ("--pubs", "100", "--topics", "10", "--size", "200")
W1 = (*FAN_IN, "--qos", "1", "--duration", "3", "--warmup", "2000")
W1D = (*FAN_IN, "--mode", "backlog", "--subs", "1", "--filter", "all", "--qos", "1", "--duration", "4")
W1D_COUNT = {"20": "200000", "1": "100000"}
W3 = (*FAN_IN, "--window", "20", "--qos", "0", "--warmup", "500")
W10 = ("--pubs", "10", "--topics", "1", "--subs", "1", "--qos", "1", "--size", "200", "--rate", "2000")
STORM = ("--mode", "conn", "--conns", "5000", "--conc", "64", "--hold", "2")
IDLE = ("--mode", "conn", "--conns", "10000", "--conc", "64", "--hold", "4")

Figures = dict[str, Any]


def run(console: Console, *, quick: bool) -> Report:
    """All of it; a few minutes, quick: one round of each."""
    rounds = 1 if quick else 3
    report = Report("mqtt", "MQTT: QoS 1 durable before the PUBACK, beside mosquitto in memory", "mosquitto")
    has_peer = mosquitto_path() is not None
    if not has_peer:
        report.notes.append("mosquitto is not installed (make peers): no ratios")
    for window, goal in (("20", 1.5), ("1", 0.5)):
        console.print(f"fan-in at QoS 1, window {window}", style="dim")
        ours, theirs = _fan_in(window, rounds, has_peer)
        _compare(report, f"QoS 1 fan-in, window {window}", ours, theirs, goal)
    console.print("fan-in at QoS 0", style="dim")
    _qos_0(report, rounds, has_peer, quick)
    console.print("latency at 2,000 messages a second", style="dim")
    _latency(report, rounds, has_peer, quick)
    console.print("connections", style="dim")
    _connections(report, has_peer)
    report.notes += [
        "QoS 1: W1 for ours (everything is stored), W1d for mosquitto (one offline session), rounds alternating",
        f"medians of {rounds}; the load generator shares the cores with the server",
    ]
    return report


def _fan_in(window: str, rounds: int, has_peer: bool) -> tuple[list[Figures], list[Figures]]:
    ours, theirs = [], []
    for _ in range(rounds):
        with entrepot() as server:
            ours.append(gwload(server, "mqtt", *W1, "--window", window))
        if has_peer:
            with mosquitto() as server:
                kept = gwload(server, "mqtt", *W1D, "--window", window, "--count", W1D_COUNT[window], "--drain", "10")
            theirs.append({name.removeprefix("pub_"): value for name, value in kept.items()})
    return ours, theirs


def _compare(report: Report, what: str, ours: list[Figures], theirs: list[Figures], goal: float) -> None:
    report.add(
        what,
        "msg/CPU-s",
        _median(ours, "pub_per_cpu_s"),
        _median(theirs, "pub_per_cpu_s"),
        judged="ratio",
        goal=Goal(goal),
    )
    report.add(what, "msg/s", _median(ours, "pub_rate"), _median(theirs, "rate"))
    report.add(what, "cores used", _median(ours, "broker_cores"), _median(theirs, "broker_cores"))


def _qos_0(report: Report, rounds: int, has_peer: bool, quick: bool) -> None:
    count = "200000" if quick else "1000000"
    ours, theirs = [], []
    for _ in range(rounds):
        with entrepot() as server:
            ours.append(gwload(server, "mqtt", *W3, "--count", count))
        if has_peer:
            with mosquitto() as server:
                theirs.append(gwload(server, "mqtt", *W3, "--count", count))
    report.add(
        "QoS 0 fan-in (ours stored, mosquitto's dropped)",
        "msg/CPU-s",
        _median(ours, "pub_per_cpu_s"),
        _median(theirs, "pub_per_cpu_s"),
    )


def _latency(report: Report, rounds: int, has_peer: bool, quick: bool) -> None:
    seconds = ("--duration", "4" if quick else "8", "--warmup", "1000")
    ours, theirs = [], []
    for _ in range(rounds):
        with entrepot() as server:
            ours.append(gwload(server, "mqtt", *W10, *seconds))
        if has_peer:
            with mosquitto() as server:
                theirs.append(gwload(server, "mqtt", *W10, *seconds))
    for name, what, goal in (
        ("ack_p50_us", "to PUBACK at 2,000/s, p50", None),
        ("ack_p99_us", "to PUBACK at 2,000/s, p99", Goal(10, at_most=True)),
        ("lat_p50_us", "to the subscriber at 2,000/s, p50", None),
        ("lat_p99_us", "to the subscriber at 2,000/s, p99", None),
    ):
        report.add(what, "ms", _median(ours, name, 1000), _median(theirs, name, 1000), goal=goal)
    report.add("CPU at 2,000/s", "cores used", _median(ours, "broker_cores"), _median(theirs, "broker_cores"))


def _connections(report: Report, has_peer: bool) -> None:
    def measured(server: Server, arguments: tuple[str, ...]) -> Figures:
        try:
            return gwload(server, "mqtt", *arguments)
        except BenchmarkError as error:
            report.notes.append(str(error)[:200])
            return {}

    with entrepot() as server:
        storm = measured(server, STORM)
    with entrepot() as server:
        idle = measured(server, IDLE)
    peer_storm: Figures = {}
    peer_idle: Figures = {}
    if has_peer:
        with mosquitto() as server:
            peer_storm = measured(server, STORM)
        with mosquitto() as server:
            peer_idle = measured(server, IDLE)
    report.add(
        "5,000 connects, 64 at a time", "connects/s", storm.get("connects_rate"), peer_storm.get("connects_rate")
    )
    report.add(
        "10,000 idle connections",
        "KB each",
        idle.get("rss_per_conn_kb"),
        peer_idle.get("rss_per_conn_kb"),
        goal=Goal(12, at_most=True),
    )


def _median(figures: list[Figures], name: str, divisor: float = 1) -> float | None:
    values = [found[name] for found in figures if found.get(name) is not None]
    return statistics.median(values) / divisor if values else None
